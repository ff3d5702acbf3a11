"""Contract section 7: a cluster's settings, their defaults and limits."""

import pytest
import structlog
from traitlets import TraitError, Unicode
from traitlets.config import Config

from gateway.config.backend import Backend
from gateway.config.cluster import ClusterConfig
from gateway.domain.errors import RefusedOptions


class SiteClusterConfig(ClusterConfig):
    """As a backend's own."""

    queue = Unicode("short", help="A queue.").tag(config=True)


def test_defaults_are_the_peers_or_better() -> None:
    config = ClusterConfig().resolve()

    assert config.scheduler_cmd is None
    assert config.worker_memory_bytes == config.scheduler_memory_bytes == 2 * 2**30
    assert (config.worker_cores, config.scheduler_cores, config.worker_threads) == (
        1,
        1,
        1,
    )
    assert config.max_workers is None
    assert config.adaptive_period_s == 3
    assert (config.idle_timeout_s, config.no_client_timeout_s) == (1800, 1800)
    assert (config.max_lifetime_s, config.drain_timeout_s) == (0, 600)


@pytest.mark.parametrize(
    ("cores", "threads", "want"),
    [(4, None, 4), (0.5, None, 1), (2.9, None, 2), (4, 1, 1), (4, 0, 4)],
)
def test_threads_are_the_whole_cores_and_at_least_one(cores, threads, want) -> None:
    config = ClusterConfig(worker_cores=cores, worker_threads=threads)

    assert config.resolve().worker_threads == want


def test_threads_follow_cores_where_nobody_sets_them() -> None:
    assert ClusterConfig(worker_cores=6).resolve().worker_threads == 6


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        ({}, None),
        ({"cluster_max_workers": 7}, 7),
        ({"cluster_max_cores": 10, "worker_cores": 2, "scheduler_cores": 1}, 4),
        ({"cluster_max_memory": "20 G", "worker_memory": "4 G"}, 4),
        (
            {
                "cluster_max_workers": 3,
                "cluster_max_memory": "20 G",
                "worker_memory": "4 G",
            },
            3,
        ),
        ({"cluster_max_memory": "3 G", "worker_memory": "4 G"}, 0),
        ({"cluster_max_workers": None, "cluster_max_cores": 3}, 2),
    ],
)
def test_the_cap_on_workers_is_the_least_of_all_limits(limits, want) -> None:
    config = ClusterConfig(**limits)

    assert config.resolve().max_workers == want
    assert config.to_dict()["cluster_max_workers"] == want


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        (
            {"scheduler_memory": "4 G", "cluster_max_memory": "2 G"},
            (
                "Scheduler memory request of 4.00 GiB exceeds "
                "cluster memory limit of 2.00 GiB"
            ),
        ),
        (
            {"scheduler_cores": 4, "cluster_max_cores": 2},
            "Scheduler cores request of 4 exceeds cluster cores limit of 2",
        ),
        ({"environment": {"A=B": "1"}}, "'A=B' cannot be an environment variable"),
    ],
)
def test_what_cannot_be_is_refused_with_the_peers_text(settings, want) -> None:
    with pytest.raises(RefusedOptions) as refused:
        ClusterConfig(**settings).resolve()

    assert str(refused.value) == want


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker_memory", "2 Q"),
        ("worker_memory", float("nan")),
        ("worker_cores", -1),
        ("worker_cores", True),
        ("worker_cores", float("nan")),
        ("idle_timeout", -1),
        ("idle_timeout", float("nan")),
        ("worker_threads", 1.5),
        ("cluster_max_workers", -1),
        ("cluster_max_cores", "lots"),
        ("worker_cmd", []),
        ("worker_cmd", [3]),
        ("environment", ["A"]),
        ("worker_start_failure_limit", 0),
    ],
)
def test_a_wrong_value_for_a_known_setting_is_an_error(name, value) -> None:
    with pytest.raises(TraitError):
        ClusterConfig(**{name: value})


def test_a_command_may_be_a_text_and_is_not_split() -> None:
    config = ClusterConfig(
        worker_cmd="dask-worker", scheduler_cmd=["dask", "scheduler"]
    )

    assert config.resolve().worker_cmd == ("dask-worker",)
    assert config.resolve().scheduler_cmd == ("dask", "scheduler")


def test_environment_values_become_texts() -> None:
    config = ClusterConfig(environment={"OMP_NUM_THREADS": 1})

    assert config.resolve().environment == {"OMP_NUM_THREADS": "1"}


def test_settings_of_a_derived_class_are_carried_along() -> None:
    config = SiteClusterConfig(queue="long")

    assert config.resolve().extra == {"queue": "long"}


def test_settings_on_a_base_class_reach_the_derived_one() -> None:
    config = Config()
    config.ClusterConfig.worker_cores = 2
    config.ClusterConfig.worker_memory = "3 G"
    config.SiteClusterConfig.worker_memory = "4 G"
    config.ClusterConfig.queue = "night"

    made = SiteClusterConfig(config=config).resolve()

    assert (made.worker_cores, made.worker_memory_bytes) == (2, 4 * 2**30)
    assert made.extra == {"queue": "night"}


def test_names_that_are_none_are_dropped_with_a_warning() -> None:
    with structlog.testing.capture_logs() as logs:
        config = ClusterConfig(worker_cores=2, flavour="x")

    assert config.worker_cores == 2
    assert [entry["names"] for entry in logs] == [["flavour"]]


def test_start_timeouts_come_from_where_the_peer_has_them() -> None:
    class DatabaseLike(Backend):
        cluster_start_timeout = 20
        worker_start_timeout = 30
        worker_start_failure_limit = 5

    config = ClusterConfig(parent=DatabaseLike()).resolve()

    assert config.scheduler_start_timeout_s == 20
    assert config.worker_start_timeout_s == 30
    assert config.worker_start_failure_limit == 5
    assert ClusterConfig().resolve().scheduler_start_timeout_s == 60
