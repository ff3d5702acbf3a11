"""The routing table: what it holds, and what never gets into it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.database.routes import Route
from backends.routing.table import (
    DASK,
    TableSettings,
    build_table,
    parse_gateways,
    parse_routes,
    select_routes,
)

SETTINGS = TableSettings(
    gateway_urls=("http://127.0.0.1:8001/", "http://127.0.0.1:8002"),
    certificate="/data/default.pem",
    key="/data/default.pem",
    internal_port=9000,
)

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
ports = st.integers(1, 65535)
hosts = st.sampled_from(["127.0.0.1", "::1", "node-7", "node-7.example.org"])
routes = st.lists(
    st.builds(Route, names, hosts, ports, st.none() | ports),
    unique_by=lambda route: route.cluster,
)


@given(routes)
def test_a_table_tells_the_routes_that_it_was_made_of(
    given_routes: list[Route],
) -> None:
    table = json.loads(json.dumps(build_table(given_routes, SETTINGS)))

    assert parse_routes(table) == tuple(sorted(given_routes, key=lambda r: r.cluster))


def test_without_a_certificate_the_proxy_shows_its_own() -> None:
    table = build_table([], replace(SETTINGS, certificate="", key=""))

    assert set(build_table([], SETTINGS)) - set(table) == {"tls"}


def test_a_table_tells_the_gateways_that_it_was_made_of() -> None:
    table = json.loads(json.dumps(build_table([], SETTINGS)))

    assert parse_gateways(table) == ("http://127.0.0.1:8001", "http://127.0.0.1:8002")
    with pytest.raises(ValueError, match="not a routing table of ours"):
        parse_gateways({"http": {}})


@given(routes, st.randoms())
def test_the_same_routes_make_the_same_text_in_any_order(given_routes, random) -> None:
    shuffled = list(given_routes)
    random.shuffle(shuffled)

    want = json.dumps(build_table(given_routes, SETTINGS))
    assert want == json.dumps(build_table(shuffled, SETTINGS))


@given(routes)
def test_no_map_or_list_of_a_table_is_empty_but_the_mark_of_tls(given_routes) -> None:
    """Traefik takes an empty map for a decode error, and drops the whole file."""

    def check(value, path: str) -> None:
        if isinstance(value, dict | list):
            assert value or path.endswith("/tls"), path
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, inner in items:
                check(inner, f"{path}/{key}")

    for settings in (SETTINGS, replace(SETTINGS, tls=True, dask_entry_point=DASK)):
        check(build_table(given_routes, settings), "")


@given(routes)
def test_text_of_a_table_is_no_template_to_traefik(given_routes: list[Route]) -> None:
    assert "{{" not in json.dumps(build_table(given_routes, SETTINGS))


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(Route("a`) || PathPrefix(`/", "h", 1, 2), id="rule"),
        pytest.param(Route("../api", "h", 1, 2), id="path"),
        pytest.param(Route("A", "h", 1, 2), id="upper-case"),
        pytest.param(Route("", "h", 1, 2), id="no-name"),
        pytest.param(Route("a\n", "h", 1, 2), id="newline"),
        pytest.param(Route("a", "h/x", 1, 2), id="host-with-path"),
        pytest.param(Route("a", "u@h", 1, 2), id="host-with-user"),
        pytest.param(Route("a", "", 1, 2), id="no-host"),
        pytest.param(Route("a", "fe80::1%x`y", 1, 2), id="scope"),
        pytest.param(Route("a", "h", 0, 2), id="port-0"),
        pytest.param(Route("a", "h", 1, 65536), id="port-too-high"),
        pytest.param(Route("a", "h", 1, -1), id="port-below-0"),
        pytest.param(Route("a", "127.0.0.1", 1, 8001), id="gateway"),
        pytest.param(Route("a", "localhost", 8001, None), id="gateway-by-name"),
        pytest.param(Route("a", "::1", 8001, None), id="gateway-by-ipv6"),
    ],
)
def test_a_route_that_could_lead_astray_is_left_out_alone(route: Route) -> None:
    good = Route("good", "node-7", 8001, 8001)

    chosen, refused = select_routes([route, good], frozenset({8001}))

    assert (chosen, len(refused)) == ((good,), 1)


def test_a_table_of_bad_routes_is_never_built() -> None:
    with pytest.raises(ValueError, match="none that a cluster can have"):
        build_table([Route("A", "h", 1, 2)], SETTINGS)


@pytest.mark.parametrize("table", [{}, {"tcp": {"services": {"cluster-a": {}}}}])
def test_another_programs_table_is_told_apart(table: dict) -> None:
    with pytest.raises(ValueError, match="not a routing table of ours"):
        parse_routes(table)


def test_a_dashboard_never_comes_before_the_api() -> None:
    routers = build_table([Route("a", "h", 1, 2)], SETTINGS)["http"]["routers"]

    order = sorted(
        (name for name in routers if "public" in routers[name]["entryPoints"]),
        key=lambda name: -routers[name]["priority"],
    )
    assert order == ["api", "cluster-a", "absent"]


def test_logins_are_asked_by_way_of_our_own_entry_point() -> None:
    """So that any of several gateways answers, and a restart is waited for."""
    ours = build_table([], SETTINGS)["http"]
    foreign = build_table([], replace(SETTINGS, internal_port=None))["http"]

    def login(http: dict) -> str:
        return http["middlewares"]["dashboard-login"]["forwardAuth"]["address"]

    assert login(ours) == "http://127.0.0.1:9000/api/v1/dashboard-auth"
    assert ours["routers"]["login"]["entryPoints"] == ["internal"]
    assert login(foreign) == "http://127.0.0.1:8001/api/v1/dashboard-auth"
    assert "login" not in foreign["routers"]


def test_a_cluster_without_dashboard_has_only_its_dask_route() -> None:
    table = build_table([Route("a", "h", 1, None)], SETTINGS)

    assert "cluster-a" in table["tcp"]["routers"]
    assert "cluster-a" not in table["http"]["routers"]
    assert "cluster-a" not in table["http"]["services"]


def test_all_clusters_share_their_middlewares() -> None:
    """A middleware for each would be rebuilt at each change of the table."""
    few = build_table([Route("a", "h", 1, 2)], SETTINGS)["http"]["middlewares"]
    many = build_table([Route(f"c{n}", "h", 1, 2) for n in range(50)], SETTINGS)

    assert many["http"]["middlewares"] == few


def test_an_address_without_a_port_is_another_programs() -> None:
    table = build_table([Route("a", "h", 1, 2)], SETTINGS)
    (server,) = table["tcp"]["services"]["cluster-a"]["loadBalancer"]["servers"]
    server["address"] = "h"

    with pytest.raises(ValueError, match="not a routing table of ours"):
        parse_routes(table)
