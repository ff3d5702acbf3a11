"""The proxy's table holds the gateways that were published, and who adopts it."""

from pathlib import Path

import pytest

from backends.database.routes import Route
from tests.support.eventually import eventually
from tests.support.traefik import (
    Upstream,
    make_routes,
    read_table,
    running,
    traefik,
    visitor,
)

pytestmark = pytest.mark.integration


async def ask(session) -> str:
    async with session.get("/api/version") as answer:
        return (await answer.json())["server"] if answer.status == 200 else ""


async def test_calls_go_to_all_gateways_that_were_published_and_to_no_other(
    tmp_path: Path,
) -> None:
    a, b = Upstream("a"), Upstream("b")
    async with (
        running(a, b),
        traefik(tmp_path, gateway_urls=(a.url,)) as routes,
        visitor(routes) as session,
    ):
        await routes.publish([], [a.url, b.url])
        seen: set[str] = set()

        async def both() -> bool:
            seen.add(await ask(session))
            return seen >= {"a", "b"}

        await eventually(both, within=60)
        await routes.publish([], [b.url])
        await eventually(lambda: _only_from(session, "b"), within=60)


async def test_one_that_starts_keeps_the_others_in_the_table(tmp_path: Path) -> None:
    """Until it knows who serves: it is not ready to do so itself yet."""
    first = make_routes(tmp_path, gateway_urls=("http://127.0.0.1:7001",))
    await first.setup()
    try:
        await first.publish([], ["http://127.0.0.1:7001", "http://node-2:7002"])
        await first.cleanup()
        second = make_routes(tmp_path, gateway_urls=("http://127.0.0.1:7003",))
        await second.setup()
        await second.cleanup()

        servers = read_table(second)["http"]["services"]["api"]["loadBalancer"]
        assert [server["url"] for server in servers["servers"]] == [
            "http://127.0.0.1:7001",
            "http://127.0.0.1:7003",
            "http://node-2:7002",
        ]
    finally:
        await first.stop()


async def test_no_scheduler_can_name_the_port_of_any_gateway(tmp_path: Path) -> None:
    async with traefik(tmp_path) as routes:
        evil = Route("evil", "127.0.0.1", 7002, None)
        await routes.publish([evil], ["http://127.0.0.1:7001", "http://127.0.0.1:7002"])
        assert "cluster-evil" not in read_table(routes)["tcp"]["routers"]

        await routes.publish([evil], ["http://127.0.0.1:7001"])
        assert "cluster-evil" in read_table(routes)["tcp"]["routers"]


async def _only_from(session, name: str) -> bool:
    return {await ask(session) for _ in range(6)} == {name}
