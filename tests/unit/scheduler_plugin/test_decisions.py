"""What the scheduler plugin decides without a scheduler."""

import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import scheduler_plugin
from gateway.domain.names import format_worker_name, parse_worker_ordinal
from gateway.domain.sync import MAX_WAIT_S, PROTOCOL, Adaptive, SyncReply
from gateway.scheduler_plugin import (
    Bounds,
    SettingsError,
    Wanted,
    WorkerView,
    backoff_s,
    choose_victims,
    explain_hold,
    parse_ordinal,
    parse_reply,
    read_settings,
)

ENVIRON = {
    "DASK_GATEWAY_API_URL": "http://gateway:8000/api/",
    "DASK_GATEWAY_CLUSTER_NAME": "c1",
    "DASK_GATEWAY_API_TOKEN": "secret-1",
}

VIEWS = st.builds(
    WorkerView,
    address=st.just(""),
    ordinal=st.just(0),
    processing=st.integers(0, 3),
    nbytes=st.integers(0, 3),
    actors=st.integers(0, 1),
    draining=st.booleans(),
).map(lambda view: view._replace(retiring=False))
WORKERS = st.lists(VIEWS, max_size=12).map(
    lambda views: [v._replace(address=f"w{i}", ordinal=i) for i, v in enumerate(views)]
)


# Which workers go.


@pytest.mark.parametrize(
    ("workers", "surplus", "want"),
    [
        pytest.param(
            [WorkerView("busy", 9, processing=1), WorkerView("idle", 1, nbytes=99)],
            1,
            ["idle"],
            id="idle-before-busy-whatever-it-holds",
        ),
        pytest.param(
            [WorkerView("full", 2, nbytes=9), WorkerView("light", 1, nbytes=1)],
            1,
            ["light"],
            id="less-data-first",
        ),
        pytest.param(
            [WorkerView("old", 1), WorkerView("new", 2)], 1, ["new"], id="newest-first"
        ),
        pytest.param(
            [
                WorkerView("draining", 1, processing=1, draining=True),
                WorkerView("idle", 2),
            ],
            1,
            ["idle"],
            id="busy-one-is-let-off-when-another-is-idle",
        ),
        pytest.param(
            [
                WorkerView("draining", 1, processing=5, draining=True),
                WorkerView("other", 2, processing=1),
            ],
            1,
            ["draining"],
            id="among-busy-ones-no-swapping",
        ),
        pytest.param(
            [
                WorkerView("leaving", 1, nbytes=9, draining=True, retiring=True),
                WorkerView("idle", 2),
            ],
            1,
            ["leaving"],
            id="one-on-its-way-out-counts",
        ),
        pytest.param(
            [WorkerView("actor", 1, actors=1), WorkerView("busy", 2, processing=3)],
            1,
            ["busy"],
            id="actors-last",
        ),
        pytest.param([WorkerView("a", 1)], -3, [], id="starting-ones-are-wanted-too"),
    ],
)
def test_choice_of_workers_to_drain(workers, surplus, want):
    assert want == choose_victims(workers, surplus)


@given(WORKERS, st.integers(-3, 15))
def test_exactly_the_surplus_goes_and_no_busy_one_while_an_idle_one_stays(
    workers, surplus
):
    victims = choose_victims(workers, surplus)

    assert len(victims) == len(set(victims)) == max(0, min(surplus, len(workers)))
    going = [w for w in workers if w.address in victims]
    staying = [w for w in workers if w.address not in victims]
    if any(w.processing and not w.actors for w in going):
        assert not any(w.processing == 0 and not w.actors for w in staying)
    if any(w.actors for w in going):
        assert all(w.actors for w in staying)


@given(WORKERS, st.integers(0, 12))
def test_choice_is_stable_once_it_is_acted_on(workers, surplus):
    victims = choose_victims(workers, surplus)
    marked = [w._replace(draining=w.address in victims) for w in workers]

    assert set(choose_victims(marked, surplus)) == set(victims)


def test_hold_is_explained():
    assert "actor" in explain_hold(actors=1, keys=0, others=3)
    assert "only copy" in explain_hold(actors=0, keys=1, others=0)
    assert explain_hold(actors=0, keys=1, others=1) == ""
    assert explain_hold(actors=0, keys=0, others=0) == ""


@given(st.integers(0, 999_999_999))
def test_our_own_workers_are_told_by_name(ordinal):
    name = format_worker_name("c1", ordinal)

    assert parse_ordinal("c1", name) == ordinal == parse_worker_ordinal("c1", name)


@pytest.mark.parametrize(
    "name",
    ["gpu", 7, None, "c1-worker-", "c1-worker-01", "c1-worker-1x", "c2-worker-1"],
)
def test_other_workers_are_outsiders(name):
    assert parse_ordinal("c1", name) is None


# Adaptive target.


def test_target_rises_at_once_and_falls_to_the_highest_of_the_last_three():
    adaptive = scheduler_plugin.Adaptive(Bounds("a", 0, 20), replicas=4)
    seen = []
    for target in (0, 1, 9, 3, 2, 1, 0, 0):
        adaptive.add(target)
        seen.append(adaptive.target)

    assert seen == [4, 4, 9, 9, 9, 3, 2, 1]


def test_target_keeps_within_the_bounds_from_the_start():
    adaptive = scheduler_plugin.Adaptive(Bounds("a", 2, 8), replicas=16)

    assert adaptive.target == 8
    for _ in range(3):
        adaptive.add(0)
    assert adaptive.target == 2


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 9), st.integers(9, 40))
def test_target_flaps_no_more_than_the_work_does(targets, minimum, maximum):
    adaptive = scheduler_plugin.Adaptive(Bounds("a", minimum, maximum), replicas=0)
    last = adaptive.target
    for index, target in enumerate(targets):
        adaptive.add(target)
        assert minimum <= adaptive.target <= maximum
        assert adaptive.target >= min(target, maximum)
        if adaptive.target < last:
            assert max(targets[max(0, index - 2) : index + 1]) < last
        last = adaptive.target


# Back-off.


@given(st.integers(1, 10_000), st.floats(0, 1), st.booleans())
def test_back_off_is_jittered_and_ends_at_fifteen_seconds(failures, spread, refused):
    delay = backoff_s(failures, spread, refused=refused)

    assert 0.5 <= delay <= 15
    assert backoff_s(failures, 0.0) < backoff_s(failures, 1.0)


def test_back_off_grows_and_a_refusal_is_not_asked_again_soon():
    assert [backoff_s(n, 1.0) for n in range(1, 7)] == [1, 2, 4, 8, 15, 15]
    assert backoff_s(1, 0.0, refused=True) == 7.5


# The wire.


def test_protocol_and_hold_are_those_of_the_gateway():
    assert scheduler_plugin.PROTOCOL == PROTOCOL
    assert 0 < scheduler_plugin.HOLD_S[0] < scheduler_plugin.HOLD_S[1] <= MAX_WAIT_S


def test_answer_is_read_and_unknown_keys_are_ignored():
    reply = SyncReply(7, 3, Adaptive("a1", 1, 5))
    body = {
        "protocol": 9,
        "generation": reply.generation,
        "replicas": reply.replicas,
        "adaptive": {"id": "a1", "minimum": 1, "maximum": 5, "colour": "blue"},
        "active": True,
        "more": [1],
    }

    want = Wanted(7, 3, Bounds("a1", 1, 5), active=True)
    assert want == parse_reply(json.dumps(body).encode())
    told = parse_reply(json.dumps({**body, "notice": "soon over"}).encode())
    assert told == want._replace(notice="soon over")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<h1>Bad Gateway</h1>",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"generation": 1}',
        b'{"generation": null, "replicas": 1}',
        b'{"generation": 1, "replicas": -1}',
        b'{"generation": 1, "replicas": 1, "adaptive": {"id": "a"}}',
        b'{"generation": 1, "replicas": 1, "adaptive": "yes"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_answer_is_refused(body):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its text
        parse_reply(body)


# Settings.


def test_settings_have_defaults_and_hide_the_token():
    settings = read_settings(ENVIRON)

    assert settings.url == "http://gateway:8000/api"
    assert (settings.adaptive_period_s, settings.drain_timeout_s) == (3.0, 600.0)
    assert settings.ca_file is None
    assert "secret-1" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("text", "want"), [("t1\n", "t1"), ("t1\r\n", "t1"), ("t1", "t1")]
)
def test_token_file_may_end_with_a_newline(tmp_path, text, want):
    (tmp_path / "token").write_bytes(text.encode())

    environ = ENVIRON | {"DASK_GATEWAY_API_TOKEN": str(tmp_path / "token")}
    assert read_settings(environ).token == want


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DASK_GATEWAY_API_URL", None),
        ("DASK_GATEWAY_API_URL", "gateway:8000/api"),
        ("DASK_GATEWAY_API_URL", "http://"),
        ("DASK_GATEWAY_CLUSTER_NAME", ""),
        ("DASK_GATEWAY_CLUSTER_NAME", "a/b"),
        ("DASK_GATEWAY_API_TOKEN", None),
        ("DASK_GATEWAY_API_TOKEN", "/no/such/file"),
        ("DASK_GATEWAY_API_TOKEN", "to ken"),
        ("DASK_GATEWAY_API_TOKEN", "to\nken"),
        ("DASKFLEET_ADAPTIVE_PERIOD", "0"),
        ("DASKFLEET_ADAPTIVE_PERIOD", "nan"),
        ("DASKFLEET_DRAIN_TIMEOUT", "-1"),
        ("DASKFLEET_DRAIN_TIMEOUT", "soon"),
    ],
)
def test_setting_that_is_wrong_is_named_and_a_token_is_not_shown(name, value):
    environ = {k: v for k, v in (ENVIRON | {name: value}).items() if v is not None}

    with pytest.raises(SettingsError, match=name) as caught:
        read_settings(environ)
    assert "secret-1" not in str(caught.value)
    assert "ken" not in str(caught.value).removeprefix(name)


def test_periods_may_be_set():
    settings = read_settings(
        ENVIRON | {"DASKFLEET_ADAPTIVE_PERIOD": "0.5", "DASKFLEET_DRAIN_TIMEOUT": "0"}
    )

    assert (settings.adaptive_period_s, settings.drain_timeout_s) == (0.5, 0.0)


# The file.


def test_file_stands_alone_and_reads_on_python_3_8():
    source = Path(scheduler_plugin.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    assert imported - sys.stdlib_module_names == {"distributed", "tornado"}
    assert max(len(line) for line in source.splitlines()) <= 120
