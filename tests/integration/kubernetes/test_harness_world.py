"""A world is a copy of the machine that ends with its command and leaves nothing."""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.eventually import eventually

PATIENCE_S = 60


def run(world: Path, script: str, **environment: str) -> str:
    """Run a script in a world of its own and return what it said."""
    done = subprocess.run(
        [world, "bash", "-c", script],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_machine_may_be_changed_in_it_and_is_not(world: Path) -> None:
    mark = Path(f"/etc/daskfleet-{uuid4().hex}")

    said = run(world, f"echo changed > {mark}; rm -r /usr/games; cat {mark}; ls /usr")

    assert said.startswith("changed")
    assert "games" not in said.split()
    assert not mark.exists()
    assert Path("/usr/games").is_dir()


def test_only_what_is_bound_is_shared(world: Path, tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    script = f"cd {shared}; echo kept > f; mkdir -p {other}; cd {other}; echo lost > f"

    said = run(world, f"{script}; cat f", WORLD_BIND=str(shared))

    assert said == "lost"
    assert (shared / "f").read_text() == "kept\n"
    assert list(other.iterdir()) == []


def test_it_has_its_own_network_and_no_way_out(world: Path) -> None:
    said = run(world, "ip -br address; ip route")

    assert {line.split()[0] for line in said.splitlines()} == {
        *("lo", "world0", "10.89.0.0/24")
    }
    assert "10.89.0.1/24" in said
    assert "default" not in said


def test_its_status_is_that_of_its_command(world: Path) -> None:
    done = subprocess.run([world, "sh", "-c", "exit 7"], check=False)

    assert done.returncode == 7


def test_what_was_started_in_it_and_its_control_groups_end_with_it(
    world: Path,
) -> None:
    mark = f"100{uuid4().int % 10**6}"

    started = subprocess.Popen([world, "sh", "-c", f"(setsid sleep {mark} &) ; true"])

    assert started.wait(PATIENCE_S) == 0
    assert not find_processes(f"sleep {mark}")
    # Other worlds may be there just now.
    assert not list(Path("/sys/fs/cgroup").glob(f"*/world{started.pid}"))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
async def test_it_ends_when_its_shell_is_told_to_or_killed(
    world: Path, sent: signal.Signals
) -> None:
    mark = f"100{uuid4().int % 10**6}"
    process = await asyncio.create_subprocess_exec(
        world, "sleep", mark, stderr=subprocess.DEVNULL
    )
    await eventually(lambda: find_processes(f"sleep {mark}"), within=PATIENCE_S)

    process.send_signal(sent)

    await asyncio.wait_for(process.wait(), PATIENCE_S)
    gone = await eventually(
        lambda: not find_processes(f"sleep {mark}"), within=PATIENCE_S
    )
    assert gone


def find_processes(command: str) -> list[int]:
    """Return the processes of this machine with just this command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().strip(b"\0").split(b"\0")
            if b" ".join(words).decode() == command:
                found.append(int(entry.name))
    return found
