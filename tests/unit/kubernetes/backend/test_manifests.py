"""The object of a new cluster says all that its user was given."""

from datetime import UTC, datetime

from traitlets.config import Config

from backends.kubernetes.backend.manifests import build_manifest, build_spec
from backends.kubernetes.cluster_config import KubeClusterConfig
from backends.kubernetes.crd.parsing import MAX_WORKERS, parse_dask_cluster
from backends.kubernetes.crd.values import Owner

NOW = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


def build(**settings: object):
    config = KubeClusterConfig(
        config=Config({"KubeClusterConfig": {"namespace": "team", **settings}})
    )
    spec = build_spec(Owner("a@b.co", ("lab",)), {"size": 3}, config.resolve())
    manifest = build_manifest(
        "c1",
        spec,
        namespace="gateway",
        instance="prod",
        labels={"site": "x", "daskfleet.io/instance": "forged"},
        annotations={"note": "y"},
        now=NOW,
    )
    return manifest, parse_dask_cluster(manifest)


def test_what_was_configured_is_read_back() -> None:
    manifest, cluster = build(
        image="i:1",
        worker_cores=0.5,
        worker_memory="1 G",
        worker_cmd=["dask", "worker"],
        cluster_max_workers=7,
        idle_timeout=60,
        environment={"A": "b"},
    )

    spec = cluster.spec
    (dask,) = spec.worker.template["spec"]["containers"]
    assert cluster.problems == ()
    assert spec.owner == Owner("a@b.co", ("lab",))
    assert (spec.target_namespace, spec.options) == ("team", {"size": 3})
    assert dask["image"] == "i:1"
    assert dask["env"] == [{"name": "A", "value": "b"}]
    assert spec.worker.command == ("dask", "worker")
    assert spec.scheduler.command is None
    assert (spec.limits.max_workers, spec.limits.worker_cores) == (7, 0.5)
    assert spec.limits.worker_memory_bytes == 2**30
    assert spec.lifetimes.idle_timeout_seconds == 60
    assert manifest["metadata"]["annotations"]["note"] == "y"


def test_labels_are_ours_whatever_the_operator_adds() -> None:
    _, cluster = build()

    assert cluster.labels["daskfleet.io/instance"] == "prod"
    assert cluster.labels["gateway.dask.org/instance"] == "prod"
    assert cluster.labels["daskfleet.io/owner"].startswith("a-b.co-")
    assert cluster.labels["site"] == "x"


def test_caps_are_what_the_schema_takes() -> None:
    assert build(cluster_max_workers=10**9)[1].spec.limits.max_workers == MAX_WORKERS
    assert build()[1].spec.limits.max_workers is None
