"""Strategic merge patches: what each directive does, and where it is refused."""

import copy

import pytest

from backends.kubernetes.customise.fields import UNKNOWN, shape_of
from backends.kubernetes.customise.strategic import apply_strategic
from backends.kubernetes.customise.values import PatchFailure

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"a": "1", "b": "2"},
        "finalizers": ["x/a", "x/b"],
    },
    "spec": {
        "hostname": "h",
        "containers": [
            {
                "name": "c",
                "args": ["1", "2", "1"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            },
            {"name": "d"},
        ],
        "tolerations": [{"key": "a"}],
    },
}


def patch(body, base=POD):
    before = copy.deepcopy((base, body))
    made = apply_strategic(base, body, shape_of(base, {}))
    assert (base, body) == before
    return made


def spec(body):
    return patch({"spec": body})["spec"]


def container(body, name="c"):
    found = spec({"containers": [{"name": name, **body}]})["containers"]
    return next(c for c in found if c["name"] == name)


def names(items, key="name"):
    return [item[key] for item in items]


def test_maps_are_merged_and_a_null_takes_away() -> None:
    made = patch({"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"x": None}})

    assert made["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_a_list_with_a_key_is_merged_and_new_items_come_first() -> None:
    """Row P12."""
    made = container(
        {"env": [{"name": "C", "value": "3"}, {"name": "A", "value": "0"}]}
    )

    assert made["env"] == [
        {"name": "C", "value": "3"},
        {"name": "A", "value": "0"},
        {"name": "B", "value": "2"},
    ]


def test_a_list_without_a_key_is_replaced() -> None:
    made = spec({"tolerations": [{"key": "b", "value": None}]})

    assert made["tolerations"] == [{"key": "b"}]
    assert container({"args": ["9"]})["args"] == ["9"]


def test_a_list_of_scalars_that_is_merged_holds_each_once() -> None:
    made = patch({"metadata": {"finalizers": ["x/c", "x/b"]}})

    assert made["metadata"]["finalizers"] == ["x/c", "x/a", "x/b"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"name": "A", "$patch": "delete"}, ["B"], id="delete"),
        pytest.param({"name": "Z", "$patch": "delete"}, ["A", "B"], id="delete-none"),
        pytest.param({"$patch": "replace"}, [], id="replace"),
    ],
)
def test_row_p16_an_items_directive_takes_it_away(body, want) -> None:
    assert names(container({"env": [body]})["env"]) == want


def test_a_list_can_be_replaced_as_a_whole() -> None:
    items = [{"name": "Z", "value": "1"}, {"$patch": "replace"}, {"name": "Y"}]

    assert names(container({"env": items})["env"]) == ["Z", "Y"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"$patch": "replace", "c": "3", "d": None}, {"c": "3"}, id="all"),
        pytest.param({"$patch": "delete", "c": "3"}, {}, id="nothing"),
        pytest.param(
            {"$retainKeys": ["a", "c"], "c": "3"}, {"a": "1", "c": "3"}, id="some"
        ),
    ],
)
def test_a_maps_directive_says_what_stays(body, want) -> None:
    assert patch({"metadata": {"labels": body}})["metadata"]["labels"] == want


def test_a_directive_has_its_effect_also_where_nothing_was() -> None:
    """Upstream leaves directives in new items, and loses a map that replaces none."""
    made = spec(
        {
            "securityContext": {"$patch": "replace", "runAsUser": 1},
            "dnsConfig": {"$patch": "delete", "searches": ["x"]},
            "affinity": {"$patch": "replace"},
            "containers": [
                {
                    "name": "n",
                    "env": [{"name": "A", "$patch": "delete"}, {"name": "B"}],
                    "resources": {"$retainKeys": ["limits"], "limits": {"cpu": None}},
                    "$deleteFromPrimitiveList/args": ["1"],
                }
            ],
        }
    )

    assert made["securityContext"] == {"runAsUser": 1}
    assert not {"dnsConfig", "affinity"} & made.keys()
    new = {"name": "n", "env": [{"name": "B"}], "resources": {"limits": {}}}
    assert made["containers"][0] == new


def test_the_order_of_a_list_can_be_set_with_and_without_a_change() -> None:
    def ordered(order, **more):
        found = container(
            {"$setElementOrder/env": [{"name": n} for n in order], **more}
        )
        return names(found["env"])

    new = {"env": [{"name": "C", "value": "3"}]}
    assert ordered(["B", "A"]) == ["B", "A"]
    assert ordered(["A", "C", "B"], **new) == ["A", "C", "B"]
    assert ordered([]) == ["A", "B"]
    assert ordered(["B"], env=[{"name": "A", "$patch": "delete"}]) == ["B"]
    assert container({"$setElementOrder/args": ["2", "1"]})["args"] == ["2", "1", "1"]


def test_the_order_of_a_list_that_is_not_there() -> None:
    order = {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}]}
    volumes = [{"name": "b"}, {"name": "a"}]

    assert spec({**order, "volumes": volumes})["volumes"] == volumes
    assert "volumes" not in spec(order)


def test_scalars_are_deleted_from_any_list() -> None:
    made = container({"$deleteFromPrimitiveList/args": ["1"]})

    assert made["args"] == ["2"]
    assert "command" not in container({"$deleteFromPrimitiveList/command": ["1"]})


def test_row_p11_items_are_told_apart_by_all_that_the_server_does() -> None:
    base = copy.deepcopy(POD)
    base["spec"]["containers"] = [{"name": "c", "ports": [{"containerPort": 1}]}]
    base["spec"]["topologySpreadConstraints"] = [
        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ]
    udp = {"containerPort": 1, "protocol": "UDP"}
    tcp = {"containerPort": 1, "protocol": "TCP", "name": "x"}
    soft = {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}

    made = patch(
        {
            "spec": {
                "containers": [{"name": "c", "ports": [udp, tcp]}],
                "topologySpreadConstraints": [soft],
            }
        },
        base,
    )["spec"]

    assert made["containers"][0]["ports"] == [udp, tcp]
    assert made["topologySpreadConstraints"] == [
        soft,
        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
    ]


def test_service_ports_are_told_apart_by_protocol_too() -> None:
    base = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 53}]}}
    udp = {"port": 53, "protocol": "UDP"}

    assert patch({"spec": {"ports": [udp]}}, base)["spec"]["ports"] == [
        udp,
        {"port": 53},
    ]


def test_of_two_items_with_one_name_the_first_is_changed() -> None:
    base = copy.deepcopy(POD)
    base["spec"]["containers"] = [{"name": "c"}, {"name": "c", "image": "second"}]

    made = patch({"spec": {"containers": [{"name": "c", "image": "x"}]}}, base)

    assert made["spec"]["containers"] == [
        {"name": "c", "image": "x"},
        {"name": "c", "image": "second"},
    ]


def test_what_changes_its_type_is_taken_from_the_patch() -> None:
    made = spec({"hostname": {"a": None, "b": 1}, "tolerations": "x"})

    assert (made["hostname"], made["tolerations"]) == ({"b": 1}, "x")


def test_a_declared_list_of_another_kind_is_merged() -> None:
    base = {"kind": "IngressRoute", "spec": {"routes": [{"match": "a", "x": 1}]}}
    keys = {"IngressRoute": {("spec", "routes"): ("match",)}}
    body = {"spec": {"routes": [{"match": "a", "y": 2}], "entryPoints": ["web"]}}

    made = apply_strategic(base, body, shape_of(base, keys))

    assert made["spec"]["routes"] == [{"match": "a", "x": 1, "y": 2}]
    assert made["spec"]["entryPoints"] == ["web"]


ENV = {"$setElementOrder/env": [{"name": "B"}, {"name": "A"}]}
REFUSED = [
    pytest.param({"$patch": "delete"}, "must not stand at the top", id="row-c18-top"),
    pytest.param(
        {"metadata": {"labels": {"$patch": "merge"}}}, "replace or delete", id="map"
    ),
    pytest.param({"metadata": {"labels": {"$foo": "x"}}}, "no directive", id="unknown"),
    pytest.param(
        {"spec": {"tolerations": [{"$patch": "replace"}]}},
        "the list is replaced",
        id="list",
    ),
    pytest.param(
        {"spec": {"topologySpreadConstraints": [{"topologyKey": "a"}]}},
        "topologyKey and whenUnsatisfiable",
        id="new-item-without-key",
    ),
    pytest.param(
        {"spec": {"containers": [{"image": "x"}]}}, "map with name", id="no-key"
    ),
    pytest.param({"spec": {"containers": ["x"]}}, "map with name", id="no-map"),
    pytest.param(
        {"spec": {"containers": [{"$patch": "delete"}]}},
        "map with name",
        id="delete-what",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "c", "$patch": "merge"}]}},
        "must be replace or delete",
        id="item",
    ),
    pytest.param({"spec": {"$retainKeys": "a"}}, "list of names", id="retain-text"),
    pytest.param(
        {"spec": {"$retainKeys": ["hostname"], "nodeName": "x", "hostname": None}},
        "must name nodeName",
        id="retain-not-all",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "c", **ENV, "env": [{"name": "C"}]}]}},
        "in their order",
        id="order-lacks",
    ),
    pytest.param(
        {
            "spec": {
                "containers": [
                    {"name": "c", **ENV, "env": [{"name": "A"}, {"name": "B"}]}
                ]
            }
        },
        "in their order",
        id="order-differs",
    ),
    pytest.param(
        {"spec": {"$setElementOrder/hostname": []}}, "of a list", id="order-text"
    ),
    pytest.param(
        {"spec": {"$setElementOrder/containers": [], "containers": None}},
        "of a list",
        id="order-null",
    ),
    pytest.param(
        {"spec": {"$setElementOrder/tolerations": [{"key": "a"}]}},
        "scalars",
        id="order-maps",
    ),
    pytest.param(
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
        "a list",
        id="delete-text",
    ),
    pytest.param(
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": []}},
        "must not stand beside",
        id="delete-beside",
    ),
    pytest.param(
        {"spec": {"$deleteFromPrimitiveList/containers": ["c"]}},
        "scalars",
        id="delete-maps",
    ),
    pytest.param({"metadata": {"finalizers": [{}]}}, "scalars", id="scalars"),
]


@pytest.mark.parametrize(("body", "says"), REFUSED)
def test_what_has_no_meaning_is_refused(body, says) -> None:
    with pytest.raises(PatchFailure, match=says):
        patch(body)


def test_directives_that_are_beside_the_point_do_not_hinder_retain_keys() -> None:
    body = {
        "$retainKeys": ["containers"],
        "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
        "hostname": None,
    }

    made = spec(body)

    assert names(made["containers"]) == ["d", "c"]
    assert made.keys() == {"containers"}


def test_what_is_not_known_is_replaced_or_merged_as_it_looks() -> None:
    base = {"a": {"b": 1, "c": [1]}}

    assert apply_strategic(base, {"a": {"c": [2]}}, UNKNOWN) == {
        "a": {"b": 1, "c": [2]}
    }
