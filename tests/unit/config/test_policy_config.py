"""Caps as operators write them."""

import pytest
from traitlets import TraitError
from traitlets.config import Config

from gateway.config.backend import Backend
from gateway.config.policy import UserPolicy
from gateway.domain.policy import Caps, Policy


def test_caps_become_plain_values() -> None:
    config = Config()
    config.UserPolicy.default = {
        "clusters": 3,
        "workers": 100,
        "cores": 50,
        "memory": "200 G",
    }
    config.UserPolicy.users = {"alice": {"clusters": 10, "workers": None}}
    config.UserPolicy.groups = {"lab": {"cores": 12.5}}

    want = Policy(
        default=Caps(3, 100, 50, 200 * 2**30),
        users={"alice": Caps(clusters=10)},
        groups={"lab": Caps(cores=12.5)},
    )
    assert UserPolicy(config=config).resolve() == want
    assert Backend(config=config).policy == want


def test_nothing_is_capped_by_default() -> None:
    assert Backend().policy == Policy(default=Caps(), users={}, groups={})


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"default": {"cluster": 3}}, "no cap is named 'cluster', did you mean"),
        ({"default": {"gpu": 3}}, "use clusters, workers, cores, memory"),
        ({"default": {"clusters": "3"}}, "clusters: must be a whole number"),
        ({"default": {"clusters": True}}, "clusters: must be a whole number"),
        ({"default": {"memory": "lots"}}, "memory: 'lots' is no amount"),
        ({"users": {"bob": {"cores": -1}}}, "'bob': cores: cores must be >= 0"),
        ({"groups": {"lab": 3}}, "'lab': caps must be a mapping"),
    ],
)
def test_a_wrong_cap_is_an_error_that_names_it(settings, want) -> None:
    with pytest.raises(TraitError, match=want):
        UserPolicy(**settings)
