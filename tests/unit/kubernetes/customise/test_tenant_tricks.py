"""Red team: each trick of a tenant is refused, and the same without malice is not."""

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
import yaml

from backends.kubernetes.customise.patches import Loaded, LoadSettings, parse_patches
from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.policy import DEFAULT_RULES, parse_rules
from backends.kubernetes.customise.values import Customised, Policy, Refused
from tests.support.customising import TENANT, a_context, a_member
from tests.support.golden import GOLDEN

TRICKS = yaml.safe_load((GOLDEN / "customise/tenant_tricks.yaml").read_text())
RESOURCES = ["spec", "containers", {"name": "dask-worker"}, "resources"]
LEAST = 60
SECRET = "s3cr3t-of-the-admin"


def load(patches: list[dict[str, Any]]) -> Loaded:
    whole = [
        {"name": f"p{number}", "target": {"component": ["worker"]}, **patch}
        for number, patch in enumerate(patches)
    ]
    return parse_patches(whole, TENANT, LoadSettings())


def attempt(trick: dict[str, Any], loaded: Loaded) -> Customised | Refused:
    rules = (*DEFAULT_RULES, *parse_rules([RESOURCES, *trick.get("rules", [])]))
    ceilings = {"memory": Decimal(4 * 2**30)}
    member = a_member(trick.get("component", "worker"))
    if member.contract is not None:
        hidden = {"name": "ADMINS", "value": SECRET}
        member.manifest["spec"]["containers"][0]["env"].append(hidden)
    before = copy.deepcopy(member.manifest)
    policy = Policy(is_enabled=True, rules=rules, ceilings=ceilings)
    context = a_context(policy=policy, user=trick.get("user", "alice"))

    made = customise(member, loaded.patches, context)

    assert member.manifest == before
    return made


def test_there_are_enough_tricks_and_each_has_a_name_of_its_own() -> None:
    names = [trick["name"] for trick in TRICKS]

    assert len(set(names)) == len(names) > LEAST


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick["name"])
def test_a_trick_is_refused_with_its_reason(trick) -> None:
    loaded = load(trick["trick"])

    if trick.get("stage") == "load":
        assert not loaded.patches
        told = "\n".join(problem.format() for problem in loaded.problems)
    else:
        assert not loaded.problems, loaded.problems[0].format()
        refused = attempt(trick, loaded)
        assert isinstance(refused, Refused)
        assert refused.patch == f"p{len(trick['trick']) - 1}"
        assert (str(refused.reason), refused.source) == (trick["reason"], TENANT.name)
        told = refused.format()
    assert trick["says"] in told
    assert SECRET not in told
    assert len(told) < 1024


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick["name"])
def test_the_same_without_malice_is_taken(trick) -> None:
    loaded = load(trick["control"])

    assert not loaded.problems, loaded.problems[0].format()
    made = attempt(trick, loaded)
    assert isinstance(made, Customised), made
    assert made.matched
    json.dumps(made.manifest)
