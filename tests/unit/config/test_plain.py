"""What an operator's code may put into a cluster's settings."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gateway.config.cluster import ClusterConfig
from gateway.config.plain import check_plain
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import RefusedOptions

PLAIN = ResolvedConfig()
DEEP: list[object] = []
for _ in range(100):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "config",
    [
        PLAIN,
        replace(PLAIN, environment={"A": "ä\N{SNOWMAN}\N{PILE OF POO}", "B": ""}),
        replace(PLAIN, environment={"A": "x" * (2**17 - 3)}),
        replace(PLAIN, extra={"a": [1, 2.5, None, True, {"b": ("c",)}]}),
        replace(PLAIN, extra={"a": 2**63 - 1, "b": -(2**63)}),
    ],
)
def test_what_json_and_programs_can_hold_passes(config):
    assert check_plain(config) is config
    assert msgspec.json.encode(config)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        (
            {"environment": {"A": "x\udcff"}},
            "environment['A'] holds half a character (a surrogate) at 1",
        ),
        (
            {"environment": {"A\ud800": "x"}},
            "environment['A\\ud800'] has a key that holds half a character",
        ),
        ({"environment": {"A": "x\0"}}, "environment['A'] holds a NUL character"),
        ({"environment": {"A\0": "x"}}, "environment['A\\x00'] has a key that holds"),
        (
            {"environment": {"A": "x" * 2**17}},
            "environment variable 'A' has 131074 bytes; no program can be given more",
        ),
        (
            {"worker_cmd": ("dask", "ä" * 2**16)},
            "a word of the command has 131072 bytes",
        ),
        ({"scheduler_cmd": ("a", "b\0")}, "scheduler_cmd[1] holds a NUL character"),
        ({"extra": {"a": {3: 1}}}, "extra['a'][3] has a key that is no text"),
        ({"extra": {"a": {1, 2}}}, "extra['a'] holds a set, which JSON cannot"),
        ({"extra": {"a": b"x"}}, "extra['a'] holds a bytes, which JSON cannot"),
        ({"extra": {"a": [Path("/x")]}}, "extra['a'][0] holds a PosixPath"),
        ({"extra": {"a": float("nan")}}, "extra['a'] must be a finite number, got nan"),
        ({"extra": {"a": 2**63}}, "extra['a'] is an integer of more than 64 bits"),
        ({"extra": {"a": DEEP}}, "is nested more than 64 deep"),
        ({"extra": {"\ud800" * 999: {"\0": 1}}}, "extra['\\ud800\\ud800"),
    ],
)
def test_what_they_cannot_is_refused_with_its_place(changes, want):
    with pytest.raises(RefusedOptions) as refused:
        check_plain(replace(PLAIN, **changes))

    text = str(refused.value)
    assert text.startswith(want) or (DEEP in changes["extra"].values() and want in text)
    assert len(text.encode()) < 400  # which also says that it can be sent


@pytest.mark.parametrize("value", ["half \udc80", "nul \0"])
def test_a_cluster_that_a_handler_gives_such_a_value_is_refused(value):
    with pytest.raises(RefusedOptions, match=r"environment\['TOKEN'\] holds"):
        ClusterConfig(environment={"TOKEN": value}).resolve()


def test_values_stay_out_of_the_refusal():
    with pytest.raises(RefusedOptions) as refused:
        ClusterConfig(environment={"TOKEN": "hunter2\0"}).resolve()

    assert "hunter2" not in str(refused.value)
