"""A member with its patches: order, what is refused and why, and what it tells."""

import copy
import re

import pytest

from backends.kubernetes.customise.explaining import explain
from backends.kubernetes.customise.hashes import (
    ANNOTATION_CUSTOMISATION,
    hash_manifest,
)
from backends.kubernetes.customise.paths import format_path
from backends.kubernetes.customise.pipeline import customise
from backends.kubernetes.customise.policy import DEFAULT_RULES, parse_rules
from backends.kubernetes.customise.protected import DEFAULT_CONTAINER
from backends.kubernetes.customise.values import Policy, Reason, Source
from backends.kubernetes.names import ANNOTATION_HASH
from tests.support.customising import (
    OPEN,
    a_context,
    a_member,
    dask_container,
    every_member,
    make,
    merge,
    operations,
    patches_of,
    refuse,
    strategic,
)

GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
SIDECAR = strategic({"spec": {"containers": [{"name": "log", "image": "busybox"}]}})


def note(value, **more):
    return merge({"metadata": {"annotations": {"x.io/note": value}}}, **more)


def notes(made):
    return made.manifest["metadata"]["annotations"].get("x.io/note")


def set_variable(name, value="1"):
    return dask_container({"env": [{"name": name, "value": value}]})


def dask(made):
    containers = made.manifest["spec"]["containers"]
    return next(c for c in containers if c["name"].startswith("dask-"))


def test_without_patches_a_member_is_what_it_was() -> None:
    member = a_member()

    made = make(member=member)

    assert (made.manifest, made.hash, made.matched) == (member.manifest, "", ())
    assert made.manifest is not member.manifest


def test_a_json_patch_adds_to_lists_that_the_base_leaves_out() -> None:
    """Row P41: a JSON patch cannot add below a parent that is missing."""
    made = make(
        operations(
            {"op": "add", "path": "/spec/tolerations/-", "value": GPU},
            {"op": "add", "path": "/spec/nodeSelector/disk", "value": "ssd"},
        )
    )

    assert made.manifest["spec"]["tolerations"] == [GPU]
    assert made.manifest["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "initContainers" not in made.manifest["spec"]
    assert "imagePullSecrets" not in made.manifest["spec"]


def test_the_phases_come_one_after_the_other_whatever_the_order_says() -> None:
    seen = []

    def hook(manifest, _context):
        seen.append(manifest["metadata"]["annotations"]["user.daskfleet.io/a"])
        manifest["metadata"]["annotations"]["user.daskfleet.io/a"] = "hook"
        return manifest

    def say(value, **more):
        return merge(
            {"metadata": {"annotations": {"user.daskfleet.io/a": value}}}, **more
        )

    enforced = make(
        say("enforce", phase="enforce", order=1),
        say("default", order=999),
        tenant=[say("tenant")],
        hook=hook,
    )
    free = make(say("default"), tenant=[say("tenant")], hook=hook)

    annotations = "metadata", "annotations", "user.daskfleet.io/a"
    assert enforced.manifest["metadata"]["annotations"][annotations[-1]] == "enforce"
    assert free.manifest["metadata"]["annotations"][annotations[-1]] == "tenant"
    assert seen == ["default", "default"]
    phases = [o.phase for o in enforced.origins if o.path == annotations]
    assert phases == ["default", "hook", "user", "enforce"]


def test_row_c15_order_then_source_then_position_decides() -> None:
    low, high = Source("file", rank=0), Source("ConfigMap", rank=1)
    patches = [
        *patches_of([note("map")], high),
        *patches_of([note("first"), note("second")], low),
    ]
    early = patches_of([note("early", order=1)], high)

    def result(found):
        return notes(customise(a_member(), found, a_context()))

    assert result(patches) == result(patches[::-1]) == "map"
    assert result([*patches[1:], *early]) == "second"
    assert result(patches[2:] + patches[1:2]) == "second"


def test_row_c27_the_hash_tells_order_and_not_form() -> None:
    one, two = {"metadata": {"labels": {"a": "1"}}}, '{"metadata":{"labels":{"b":"2"}}}'
    spaced = 'metadata:\n  labels: {b: "2"}\n'
    named = [merge(one, name="x"), merge(two, name="y")]

    first = make(*named)
    swapped = make(*named[::-1])
    reformatted = make(named[0], merge(spaced, name="y"))

    assert first.hash == reformatted.hash != swapped.hash
    assert re.fullmatch(r"[0-9a-f]{16}", first.hash)
    annotations = first.manifest["metadata"]["annotations"]
    assert annotations[ANNOTATION_CUSTOMISATION] == first.hash
    assert first.matched == ("x", "y")


def test_the_hash_of_an_object_does_not_count_the_hashes_it_carries() -> None:
    bare = {"kind": "Pod", "metadata": {"name": "p"}}
    empty = {"kind": "Pod", "metadata": {"name": "p", "annotations": {}}}
    hashes = {ANNOTATION_HASH: "1", ANNOTATION_CUSTOMISATION: "2"}
    stamped = {"kind": "Pod", "metadata": {"name": "p", "annotations": hashes}}
    noted = {"kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "b"}}}

    assert hash_manifest(bare) == hash_manifest(stamped) == hash_manifest(empty)
    assert hash_manifest(bare) != hash_manifest(noted)


def test_rows_c26_and_p1_each_rendering_begins_from_nothing() -> None:
    member = a_member()
    before = copy.deepcopy(member.manifest)
    patches = patches_of(
        [operations({"op": "add", "path": "/spec/tolerations/-", "value": GPU})]
    )

    made = [customise(member, patches, a_context()) for _ in range(50)]

    assert all(one == made[0] for one in made)
    assert made[0].manifest["spec"]["tolerations"] == [GPU]
    assert member.manifest == before


def test_row_c25_a_failing_patch_leaves_nothing_of_those_before_it() -> None:
    member = a_member()
    before = copy.deepcopy(member.manifest)
    broken = operations({"op": "remove", "path": "/spec/nothing"}, name="broken")

    refused = refuse(note("x"), broken, member=member)

    assert (refused.reason, refused.patch) == (Reason.PATCH_FAILED, "broken")
    assert member.manifest == before


@pytest.mark.parametrize("member", every_member(), ids=lambda m: m.component)
def test_row_c2_a_patch_for_everything_reaches_everything(member) -> None:
    made = make(note("all", target={"kind": "*"}), member=member)

    assert notes(made) == "all"


@pytest.mark.parametrize("member", every_member(), ids=lambda m: m.component)
def test_no_reviewed_object_has_a_flaw_of_its_own(member) -> None:
    made = make(note("x", target={"component": "*"}), member=member)

    rest = {
        k: v
        for k, v in made.manifest["metadata"]["annotations"].items()
        if k not in ("x.io/note", ANNOTATION_CUSTOMISATION)
    }
    assert rest == member.manifest["metadata"].get("annotations", {})
    assert made.manifest.get("spec") == member.manifest.get("spec")


IDENTITY = [
    pytest.param({"kind": "Deployment"}, "kind", id="kind"),
    pytest.param({"apiVersion": "v2"}, "apiVersion", id="version"),
    pytest.param({"status": {"phase": "x"}}, "status.phase", id="status"),
    pytest.param({"metadata": {"name": "x"}}, "metadata.name", id="row-c32-name"),
    pytest.param(
        {"metadata": {"namespace": "kube-system"}}, "metadata.namespace", id="namespace"
    ),
    pytest.param(
        {"metadata": {"generateName": "x"}}, "metadata.generateName", id="generated"
    ),
    pytest.param(
        {"metadata": {"ownerReferences": []}},
        "metadata.ownerReferences[77777777-8888-4999-8aaa-bbbbccccdddd]",
        id="owner",
    ),
    pytest.param(
        {"metadata": {"finalizers": ["a/b"]}}, "metadata.finalizers", id="finalizer"
    ),
    pytest.param(
        {"metadata": {"labels": {"daskfleet.io/cluster": "x"}}},
        "metadata.labels[daskfleet.io/cluster]",
        id="row-c30-label",
    ),
    pytest.param({"metadata": {"labels": None}}, "metadata.labels", id="all-labels"),
    pytest.param({"metadata": {"labels": ["x"]}}, "metadata.labels", id="label-list"),
    pytest.param({"metadata": None}, "metadata", id="all-metadata"),
    pytest.param(
        {"metadata": {"annotations": {"daskfleet.io/new": "x"}}},
        "metadata.annotations[daskfleet.io/new]",
        id="annotation",
    ),
    pytest.param(
        {"metadata": {"annotations": {DEFAULT_CONTAINER: "x"}}},
        f"metadata.annotations[{DEFAULT_CONTAINER}]",
        id="default-container",
    ),
    pytest.param(
        {"metadata": {"labels": {"applyset.kubernetes.io/part-of": "x"}}},
        "metadata.labels[applyset.kubernetes.io/part-of]",
        id="applyset",
    ),
]


@pytest.mark.parametrize(("body", "path"), IDENTITY)
def test_what_an_object_is_nobody_changes_not_even_unsafely(body, path) -> None:
    refused = refuse(merge(body, name="bad", allowUnsafe=True))

    assert refused.reason is Reason.PROTECTED_FIELD
    assert (refused.patch, refused.source) == ("bad", "config.py")
    assert format_path(refused.path) == path
    assert "cannot be changed" in refused.text


def strip_login():
    (route,) = a_member("ingress").manifest["spec"]["routes"]
    assert route["middlewares"]
    return merge({"spec": {"routes": [{**route, "middlewares": []}]}})


CONTRACT = [
    pytest.param(dask_container({"command": ["sh"]}), "worker", id="command"),
    pytest.param(dask_container({"args": ["sh"]}), "worker", id="args"),
    pytest.param(
        dask_container({"$deleteFromPrimitiveList/args": ["-m"]}), "worker", id="word"
    ),
    pytest.param(
        strategic({"spec": {"restartPolicy": "Always"}}), "worker", id="restart"
    ),
    pytest.param(
        dask_container({"restartPolicy": "Always"}), "worker", id="container-restart"
    ),
    pytest.param(
        dask_container({"ports": [{"containerPort": 1}]}), "worker", id="ports"
    ),
    pytest.param(set_variable("DASK_X"), "worker", id="variable"),
    pytest.param(set_variable("dask-x"), "worker", id="variable-in-other-words"),
    pytest.param(set_variable("DASKFLEET_X"), "worker", id="variable-of-ours"),
    pytest.param(
        dask_container({"env": [{"$patch": "replace"}]}), "worker", id="variables"
    ),
    pytest.param(
        dask_container({"volumeMounts": [{"$patch": "replace"}]}), "worker", id="mounts"
    ),
    pytest.param(
        dask_container(
            {
                "volumeMounts": [
                    {"mountPath": "/etc/./x/../dask-credentials//a", "name": "tmp"}
                ]
            }
        ),
        "worker",
        id="mount-inside-ours",
    ),
    pytest.param(
        strategic(
            {"spec": {"volumes": [{"name": "dask-credentials", "$patch": "delete"}]}}
        ),
        "worker",
        id="row-c22-volume",
    ),
    pytest.param(
        strategic(
            {"spec": {"containers": [{"name": "dask-worker", "$patch": "delete"}]}}
        ),
        "worker",
        id="container",
    ),
    pytest.param(merge({"spec": {"containers": None}}), "worker", id="containers"),
    pytest.param(
        merge({"spec": {"containers": [{"name": "x"}]}}), "worker", id="other"
    ),
    pytest.param(merge({"spec": "nothing"}), "worker", id="spec"),
    pytest.param(merge({"spec": {"selector": {"a": "b"}}}), "service", id="selector"),
    pytest.param(merge({"spec": {"ports": []}}), "service", id="service-ports"),
    pytest.param(merge({"spec": {"routes": []}}), "ingress", id="routes"),
    pytest.param(
        merge({"spec": {"routes": [{"kind": "Rule"}]}}), "ingress", id="match"
    ),
    pytest.param(strip_login(), "ingress", id="login"),
    pytest.param(merge({"spec": {"x": {}}}), "middleware", id="middleware"),
    pytest.param(merge({"spec": {"tls": None}}), "ingress-tcp", id="tls"),
    pytest.param(
        merge({"spec": {"podSelector": None}}), "network-policy", id="pod-selector"
    ),
    pytest.param(merge({"data": {"ca.crt": "eA=="}}), "credentials", id="secret"),
    pytest.param(merge({"type": "x"}), "credentials", id="secret-type"),
    pytest.param(merge({"data": None}), "plugin", id="plugin"),
]


@pytest.mark.parametrize(("patch", "component"), CONTRACT)
def test_what_connects_a_member_is_not_changed_by_chance(patch, component) -> None:
    target = {"component": [component]}

    refused = refuse({**patch, "target": target}, member=a_member(component))

    assert refused.reason is Reason.PROTECTED_FIELD
    assert "allowUnsafe" in refused.text
    assert refused.path


def test_an_admin_may_change_it_on_purpose_and_it_is_noted() -> None:
    args = dask_container({"args": ["sleep", "1"]})

    made = make({**args, "name": "mine", "allowUnsafe": True})

    assert dask(made)["args"] == ["sleep", "1"]
    assert made.unsafe == ("mine",)


@pytest.mark.parametrize("body", [{"spec": {"containers": None}}, {"spec": None}])
def test_a_pod_may_even_lose_all_containers_on_purpose(body) -> None:
    made = make(merge(body, allowUnsafe=True))

    assert "containers" not in made.manifest.get("spec", {})


def test_row_c11_a_sidecar_comes_first_and_dask_stays_the_default_container() -> None:
    made = make(SIDECAR)

    assert [c["name"] for c in made.manifest["spec"]["containers"]] == [
        "log",
        "dask-worker",
    ]
    annotations = made.manifest["metadata"]["annotations"]
    assert annotations[DEFAULT_CONTAINER] == "dask-worker"


def test_a_second_route_is_refused_and_a_priority_of_the_first_is_not() -> None:
    member = a_member("ingress")
    target = {"component": ["ingress"]}
    route = member.manifest["spec"]["routes"][0]
    first = {**route, "priority": 9}
    other = {**route, "match": "PathPrefix(`/`)"}

    made = make(merge({"spec": {"routes": [first]}}, target=target), member=member)
    refused = refuse(
        merge({"spec": {"routes": [route, other]}}, target=target), member=member
    )

    assert made.manifest["spec"]["routes"] == [first]
    assert format_path(refused.path) == "spec.routes[PathPrefix(`/`)].services"


def test_row_p10_strategic_is_refused_for_a_kind_without_list_identities() -> None:
    member = a_member("ingress")
    patch = strategic({"spec": {"entryPoints": ["x"]}}, target={"component": "ingress"})
    keys = {"IngressRoute": {("spec", "routes"): ("match",)}}
    patches = patches_of([patch], list_identities=keys)

    made = customise(member, patches, a_context(list_identities=keys))
    refused = customise(member, patches, a_context())

    assert made.manifest["spec"]["entryPoints"] == ["x"]
    assert made.manifest["spec"]["routes"] == member.manifest["spec"]["routes"]
    assert (refused.reason, refused.patch) == (Reason.PATCH_FAILED, "p0")


def test_row_p13_two_handlers_of_a_probe_are_refused_with_the_cure() -> None:
    member = a_member("scheduler")
    probe = {"name": "dask-scheduler", "readinessProbe": {"exec": {"command": ["a"]}}}
    patch = strategic(
        {"spec": {"containers": [probe]}}, target={"component": ["scheduler"]}
    )

    refused = refuse(patch, member=member)

    assert refused.reason is Reason.UNION_CONFLICT
    assert refused.patch == "p0"
    assert "exec and httpGet" in refused.text
    assert "null" in refused.text


def test_row_p18_an_item_that_stands_twice_is_refused_whatever_the_type() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    member = a_member("worker")
    env = member.manifest["spec"]["containers"][0]["env"]

    refused = refuse(
        operations(
            *(
                {"op": "add", "path": "/spec/containers/0/env/-", "value": v}
                for v in twice
            )
        ),
        member=member,
    )

    assert len(env) == 4
    assert refused.reason in (Reason.SCHEMA_INVALID, Reason.PROTECTED_FIELD)


def test_a_field_that_nobody_knows_is_refused_unless_an_admin_vouches_for_it() -> None:
    """Row C21, and row C33 for ephemeral containers."""
    typo = merge({"spec": {"tolerationz": []}}, name="typo")
    ephemeral = merge({"spec": {"ephemeralContainers": []}})

    refused = refuse(typo)
    made = make({**typo, "allowUnsafe": True})

    assert (refused.reason, refused.patch) == (Reason.SCHEMA_INVALID, "typo")
    assert "spelling" in refused.text
    assert made.unsafe == ("typo",)
    assert refuse(ephemeral).reason is Reason.SCHEMA_INVALID


def test_a_null_that_a_patch_leaves_behind_is_as_good_as_nothing() -> None:
    made = make(operations({"op": "add", "path": "/spec/hostname", "value": None}))

    assert "hostname" not in made.manifest["spec"]


def test_what_grows_without_bounds_is_refused() -> None:
    """A copy of everything into itself doubles an object with each operation."""
    doubling = [
        {"op": "copy", "from": "/spec", "path": f"/spec/x{n}"} for n in range(64)
    ]

    refused = refuse(operations(*doubling, allowUnsafe=True))

    assert refused.reason is Reason.TOO_LARGE


def test_a_merge_patch_that_makes_the_object_too_large_is_refused() -> None:
    deep = {"a": "x" * 15_000}
    many = [
        merge({"metadata": {"annotations": {f"x.io/{n}": deep["a"]}}})
        for n in range(20)
    ]

    assert refuse(*many).reason is Reason.TOO_LARGE


def test_variables_are_filled_with_the_clusters_own_values() -> None:
    made = make(note("$(user.name) in $(cluster.namespace): $(cluster.name) $(HOME)"))

    assert notes(made) == "alice in team-a: c1 $(HOME)"


def test_a_variable_without_a_value_refuses_the_member() -> None:
    refused = refuse(note("$(node.class)"))

    assert refused.reason is Reason.PATCH_INVALID
    assert "has no value" in refused.text


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        pytest.param(lambda _m, _c: 1 / 0, "ZeroDivisionError", id="raises"),
        pytest.param(lambda _m, _c: None, "must return", id="returns-nothing"),
        pytest.param(lambda m, _c: {**m, 1: 2}, "quote them", id="no-json"),
        pytest.param(
            lambda m, _c: {**m, "x": "y" * 300_000}, "larger than", id="too-large"
        ),
    ],
)
def test_a_hook_that_fails_refuses_the_member(hook, says) -> None:
    refused = refuse(hook=hook)

    assert (refused.reason, refused.patch) == (Reason.HOOK_FAILED, "member_hook")
    assert says in refused.text


def test_a_hook_has_no_power_over_protected_fields_either() -> None:
    def rename(manifest, _context):
        manifest["metadata"]["name"] = "x"
        return manifest

    refused = refuse(hook=rename)

    assert (refused.reason, refused.patch) == (Reason.PROTECTED_FIELD, "member_hook")


def test_users_have_no_patches_unless_the_admin_says_so() -> None:
    refused = refuse(tenant=[set_variable("A")], policy=Policy())

    assert refused.reason is Reason.POLICY_VIOLATION
    assert "switched off" in refused.text
    assert refused.patch == "p0"


def test_a_user_may_set_a_variable_and_an_annotation_of_their_own() -> None:
    made = make(
        tenant=[
            set_variable("OMP_NUM_THREADS", "2"),
            merge({"metadata": {"annotations": {"user.daskfleet.io/team": "a"}}}),
        ]
    )

    assert {"name": "OMP_NUM_THREADS", "value": "2"} in dask(made)["env"]
    annotations = made.manifest["metadata"]["annotations"]
    assert annotations["user.daskfleet.io/team"] == "a"


def test_only_the_difference_of_all_patches_of_a_user_counts() -> None:
    hostile = merge({"spec": {"hostNetwork": True}})
    undone = merge({"spec": {"hostNetwork": None}})

    assert "hostNetwork" not in make(tenant=[hostile, undone]).manifest["spec"]
    assert refuse(tenant=[hostile]).reason is Reason.POLICY_VIOLATION


AMOUNTS = [
    pytest.param({"limits": {"memory": "4Gi"}}, "", id="within"),
    pytest.param({"limits": {"memory": "5Gi"}}, "between 0 and", id="above"),
    pytest.param({"limits": {"memory": "-1"}}, "between 0 and", id="below"),
    pytest.param({"limits": {"memory": "much"}}, "no amount", id="none"),
    pytest.param({"limits": {"memory": None}}, "limits and requests", id="removed"),
    pytest.param({"limits": {"example.com/gpu": "1"}}, "no limit for", id="other"),
    pytest.param({"claims": [{"name": "x"}]}, "limits and requests", id="claims"),
]


@pytest.mark.parametrize(("resources", "says"), AMOUNTS)
def test_resources_that_an_admin_opens_have_ceilings(resources, says) -> None:
    rule = ["spec", "containers", {"name": "dask-*"}, "resources"]
    policy = Policy(
        is_enabled=True, rules=parse_rules([rule]), ceilings={"memory": 4 * 2**30}
    )
    patch = dask_container({"resources": resources})
    policy = Policy(
        is_enabled=True,
        rules=policy.rules,
        ceilings={name: _decimal(value) for name, value in policy.ceilings.items()},
    )

    if says:
        refused = refuse(tenant=[patch], policy=policy)
        assert refused.reason is Reason.POLICY_VIOLATION
        assert says in refused.text
    else:
        assert dask(make(tenant=[patch], policy=policy))["resources"] == {
            "limits": {"cpu": "1000m", "memory": "4Gi"}
        }


def _decimal(value):
    from decimal import Decimal

    return Decimal(value)


def test_no_rule_opens_what_tells_of_a_secret() -> None:
    rule = ["spec", "containers", {"name": "dask-worker"}, "envFrom"]
    policy = Policy(is_enabled=True, rules=(*DEFAULT_RULES, *parse_rules([rule])))

    refused = refuse(
        tenant=[dask_container({"envFrom": [{"secretRef": {"name": "x"}}]})],
        policy=policy,
    )
    made = make(
        tenant=[dask_container({"envFrom": [{"configMapRef": {"name": "x"}}]})],
        policy=policy,
    )

    assert refused.reason is Reason.POLICY_VIOLATION
    assert "Secret" in refused.text
    assert dask(made)["envFrom"] == [{"configMapRef": {"name": "x"}}]


def test_row_c20_what_is_enforced_comes_after_users() -> None:
    made = make(
        {**set_variable("A", "admin"), "phase": "enforce"},
        tenant=[set_variable("A", "user")],
        policy=OPEN,
    )

    assert {"name": "A", "value": "admin"} in dask(made)["env"]


def test_each_field_is_told_with_who_set_it_last() -> None:
    made = make(note("a", name="one"), {**SIDECAR, "name": "two"})

    told = {format_path(e.path): e.format() for e in explain(made, {})}

    where = "metadata.annotations[x.io/note]"
    assert told[where] == f"{where}: config.py, patch one (default)"
    image = "spec.containers[log].image"
    assert told[image] == f"{image}: config.py, patch two (default)"
    assert told["kind"] == "kind: gateway"
    assert told["spec.containers[dask-worker].image"].endswith(": gateway")


def test_a_refusal_of_a_secret_holds_none_of_its_values() -> None:
    member = a_member("credentials")
    value = member.manifest["data"]["api-token"]
    test = {"op": "test", "path": "/data/api-token", "value": "guess"}

    refused = refuse(operations(test, target={"kind": "Secret"}), member=member)

    assert refused.reason is Reason.PATCH_FAILED
    assert value not in repr(refused)
    assert "guess" not in repr(refused)
    assert value not in repr(member)


def test_a_member_with_a_generated_name_is_called_after_it() -> None:
    member = a_member()
    metadata = {**member.manifest["metadata"], "generateName": "dask-worker-"}
    del metadata["name"]
    manifest = {**member.manifest, "metadata": metadata}
    generated = type(member)(member.component, manifest, member.contract)

    refused = refuse(merge({"kind": "x"}), member=generated)

    assert refused.title == "Pod dask-worker-*"
    assert refused.format().startswith("patch p0 of config.py on Pod dask-worker-*: ")


def test_a_flaw_of_the_base_is_no_patchs_fault() -> None:
    member = a_member()
    member.manifest["spec"]["volumes"].append({"name": "v", "emptyDir": {}, "nfs": {}})

    refused = refuse(note("x"), member=member)

    assert (refused.reason, refused.patch) == (Reason.UNION_CONFLICT, "")
    assert refused.format().startswith("Pod c0123456789abcdef0123-worker-7: spec")


def test_what_a_hook_alone_makes_has_no_hash() -> None:
    def label(manifest, _context):
        manifest["metadata"]["labels"]["site"] = "a"
        return manifest

    made = make(hook=label)

    assert made.manifest["metadata"]["labels"]["site"] == "a"
    assert made.hash == ""
    assert ANNOTATION_CUSTOMISATION not in made.manifest["metadata"]["annotations"]
