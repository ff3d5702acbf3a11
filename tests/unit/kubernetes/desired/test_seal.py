"""What no template may take away or change, with the path that the author is told."""

import pytest

from backends.kubernetes.desired.members import make_member
from backends.kubernetes.desired.seal import find_identity_problem
from backends.kubernetes.names import Child, WorkerRef
from gateway.domain.errors import InvalidRequest
from tests.support.kube_blueprints import a_blueprint

DASK = "spec.worker.template.spec.containers[dask-worker]"
WORKER_NAME = "c0123456789abcdef0123-worker-0"


def template(spec=None, metadata=None, **dask):
    containers = [{"name": "dask-worker", **dask}]
    whole = {"containers": containers, **(spec or {})}
    return {"spec": whole, **({"metadata": metadata} if metadata else {})}


def make_worker(laid):
    return make_member(a_blueprint({"worker": {"template": laid}}), WorkerRef(0))


@pytest.mark.parametrize(
    ("laid", "want_path"),
    [
        pytest.param(
            template(metadata={"labels": {"daskfleet.io/cluster": "other"}}),
            "spec.worker.template.metadata.labels[daskfleet.io/cluster]",
            id="another cluster's label",
        ),
        pytest.param(
            template(metadata={"labels": {"daskfleet.io/owner": "bob"}}),
            "spec.worker.template.metadata.labels[daskfleet.io/owner]",
            id="a label that workers go without",
        ),
        pytest.param(
            template(metadata={"annotations": {"daskfleet.io/hash": "x"}}),
            "spec.worker.template.metadata.annotations[daskfleet.io/hash]",
            id="a hash of its own",
        ),
        pytest.param(
            template(metadata={"name": "x"}),
            "spec.worker.template.metadata.name",
            id="another name",
        ),
        pytest.param(
            template(metadata={"finalizers": ["x"]}),
            "spec.worker.template.metadata.finalizers",
            id="a finalizer",
        ),
        pytest.param(
            template(metadata={"ownerReferences": []}),
            "spec.worker.template.metadata.ownerReferences",
            id="no owner",
        ),
        pytest.param(
            {**template(), "kind": "Job"},
            "spec.worker.template.kind",
            id="another kind",
        ),
        pytest.param(
            template({"restartPolicy": "OnFailure"}),
            "spec.worker.template.spec.restartPolicy",
            id="restarts",
        ),
        pytest.param(
            template(restartPolicy="Always"),
            f"{DASK}.restartPolicy",
            id="of the container",
        ),
        pytest.param(
            template(restartPolicyRules=[{"action": "Restart"}]),
            f"{DASK}.restartPolicyRules",
            id="by rule",
        ),
        pytest.param(
            template({"volumes": [{"name": "dask-credentials", "emptyDir": {}}]}),
            "spec.worker.template.spec.volumes[dask-credentials]",
            id="other credentials",
        ),
        pytest.param(
            template(args=["dask", "worker"]), f"{DASK}.args", id="other arguments"
        ),
        pytest.param(template(args=[]), f"{DASK}.args", id="no arguments"),
        pytest.param(
            template(
                env=[{"name": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "value": "/mine"}]
            ),
            f"{DASK}.env[DASK_DISTRIBUTED__COMM__TLS__CA_FILE]",
            id="another CA",
        ),
        pytest.param(
            template(
                env=[{"name": "dask_distributed__comm__tls__ca-file", "value": "/mine"}]
            ),
            f"{DASK}.env[dask_distributed__comm__tls__ca-file]",
            id="another CA, spelled otherwise",
        ),
        pytest.param(
            template(env=[{"name": "DASK_INTERNAL_INHERIT_CONFIG", "value": "e30="}]),
            f"{DASK}.env[DASK_INTERNAL_INHERIT_CONFIG]",
            id="a whole configuration",
        ),
        pytest.param(
            template(
                volumeMounts=[{"name": "x", "mountPath": "/etc/dask-credentials"}]
            ),
            f"{DASK}.volumeMounts[/etc/dask-credentials]",
            id="a mount in the place of ours",
        ),
        pytest.param(
            template(
                volumeMounts=[{"name": "x", "mountPath": "/etc/dask-credentials/"}]
            ),
            f"{DASK}.volumeMounts[/etc/dask-credentials]",
            id="the same with a slash",
        ),
        pytest.param(
            template(
                volumeMounts=[
                    {"name": "x", "mountPath": "/etc/dask-credentials/ca.crt"}
                ]
            ),
            f"{DASK}.volumeMounts[/etc/dask-credentials/ca.crt]",
            id="a mount over a file of ours",
        ),
    ],
)
def test_what_binds_a_worker_to_its_cluster_cannot_be_changed(laid, want_path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make_worker(laid)

    assert refused.value.field == want_path


def test_the_author_is_told_what_to_do_instead() -> None:
    with pytest.raises(InvalidRequest, match="set the program with command"):
        make_worker(template(args=["dask", "worker"]))


def test_arguments_of_ones_own_pass_if_they_end_with_ours() -> None:
    ours = make_worker(template())["spec"]["containers"][0]["args"][3:]

    args = make_worker(template(args=["mine", *ours]))["spec"]["containers"][0]["args"]

    assert args == ["mine", *ours]


@pytest.mark.parametrize(
    "laid",
    [
        template(env=[{"name": "DASK_TEMPORARY_DIRECTORY", "value": "/ssd"}]),
        template(volumeMounts=[{"name": "etc", "mountPath": "/etc/dask"}]),
        template({"terminationGracePeriodSeconds": 5, "restartPolicy": "Never"}),
        template(metadata={"labels": {"app.kubernetes.io/name": "mine"}}),
        template(restartPolicy="Never"),
        {"spec": {"initContainers": [{"name": "fetch", "image": "x"}]}},
        {"metadata": {"annotations": {"a": "b"}}},
        {},
    ],
)
def test_what_is_peoples_own_to_say_passes(laid) -> None:
    assert make_worker(laid)["metadata"]["name"] == WORKER_NAME


def test_a_scheduler_is_sealed_by_its_own_wiring() -> None:
    token = {"name": "DASK_GATEWAY_API_TOKEN", "value": "mine"}
    dask = {"name": "dask-scheduler", "env": [token]}
    spec = {"scheduler": {"template": {"spec": {"containers": [dask]}}}}

    with pytest.raises(InvalidRequest) as refused:
        make_member(a_blueprint(spec), Child.SCHEDULER)

    assert refused.value.field.endswith("env[DASK_GATEWAY_API_TOKEN]")


def test_an_object_without_a_template_is_sealed_too() -> None:
    base = make_member(a_blueprint(), Child.ANCHOR)
    moved = {**base, "metadata": {**base["metadata"], "namespace": "elsewhere"}}

    problem = find_identity_problem(moved, base, "anchor")

    assert problem is not None
    assert problem.field == "anchor.metadata.namespace"
