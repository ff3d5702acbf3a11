"""What the chart's Roles grant, against what a whole run of the suite asked for.

Each API server leaves what our own processes asked it for in a file when it
stops; ``tools/check.py`` compares all of them with the Roles when the suite is
over. Accounts of tests are named after the process whose Roles they have.
"""

import json
import sys
import uuid
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml

from tests.support.sources import ROOT

RBAC = ROOT / "chart/files/rbac"
FOLDER = ROOT / ".check/rights"
INSTANCE = "test"
ANCHOR = "daskfleet-anchor"
_ACCOUNT = "system:serviceaccount:"


class Role(NamedTuple):
    """A file of the chart, of which process it is, and where it counts."""

    file: str
    account: str
    is_own: bool


ROLES = (
    Role("controller.yaml", "controller", is_own=True),
    Role("controller-target.yaml", "controller", is_own=False),
    Role("controller-routes.yaml", "controller", is_own=False),
    Role("controller-everywhere.yaml", "controller", is_own=False),
    Role("gateway.yaml", "gateway", is_own=True),
    Role("traefik-routes.yaml", "traefik", is_own=False),
)


class Use(NamedTuple):
    """One thing that a process asked for; ``name`` only where a Role names names."""

    account: str
    is_own: bool
    group: str
    resource: str
    verb: str
    name: str


def read_rules(name: str) -> list[dict[str, Any]]:
    """Return the rules of a Role of the chart."""
    text = Template((RBAC / name).read_text()).substitute(
        instance=INSTANCE, anchor=ANCHOR
    )
    return list(yaml.safe_load(text)["rules"])


def record(audit_log: Path, folder: Path = FOLDER) -> None:
    """Leave what our processes asked an API server for, from its whole log."""
    if not audit_log.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with audit_log.open("rb") as lines:
        uses = sorted(set(find_uses(lines)))
    (folder / f"{uuid.uuid4().hex}.json").write_text(json.dumps(uses))


def find_uses(lines: Iterable[bytes]) -> Iterator[Use]:
    """Yield each use of a right in an audit log."""
    accounts = {role.account for role in ROLES}
    named = {name for role in ROLES for _, name in list_rights(role) if name}
    for line in lines:
        # Most lines are somebody else's: to parse them all takes a minute.
        if _ACCOUNT.encode() not in line or not line.endswith(b"\n"):
            continue
        event = json.loads(line)
        target = event.get("objectRef")
        user = event["user"]["username"].removeprefix(_ACCOUNT)
        home, _, account = user.partition(":")
        if account not in accounts or target is None:
            continue
        parts = (target.get("resource"), target.get("subresource"))
        name, namespace = target.get("name", ""), target.get("namespace", "")
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
        if decision == "allow":
            yield Use(
                account,
                namespace == home,
                target.get("apiGroup", ""),
                "/".join(part for part in parts if part),
                event["verb"],
                name if name in named else "",
            )


def read_uses(folder: Path = FOLDER) -> set[Use]:
    """Return what all API servers of a run were asked for."""
    return {
        Use(*use)
        for file in folder.glob("*.json")
        for use in json.loads(file.read_text())
    }


def list_rights(role: Role) -> Iterator[tuple[tuple[str, bool, str, str, str], str]]:
    """Yield each right of a Role as the start of a `Use`, with a name or none."""
    for rule in read_rules(role.file):
        names = rule.get("resourceNames") or [""]
        for group, resource, verb, name in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], names
        ):
            yield (role.account, role.is_own, group, resource, verb), name


def find_problems(uses: Iterable[Use], roles: Iterable[Role] = ROLES) -> Iterator[str]:
    """Yield a line for each right that nobody used.

    Refused requests are not judged here: tests take rights away on purpose, and
    others ask whether something is refused. They look at what they do themselves.
    """
    used = {(use[:5], use.name) for use in uses}
    # This API server tells what there is as the beginning of a watch; from others,
    # and where that fails, the same is listed.
    used |= {
        ((*right[:4], "list"), name) for right, name in used if right[4] == "watch"
    }
    for role in roles:
        for right, name in list_rights(role):
            if not any(done == right and name in {"", of} for done, of in used):
                _, _, _, resource, verb = right
                what = f"{verb} {resource} {name}".strip()
                yield f"{role.file}: nobody used {what}"


def main() -> int:
    """Compare what a whole run of the suite left with the chart's Roles."""
    uses = read_uses()
    problems = list(find_problems(uses)) if uses else ["no API server left its uses"]
    print(*problems, sep="\n")  # noqa: T201 - a command of a person
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
