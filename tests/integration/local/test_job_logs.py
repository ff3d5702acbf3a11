"""Output is bounded, the newest is kept, and it can be read while it comes."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.jobs import (
    SCHEDULER,
    WORKER,
    a_job,
    end,
    make_launcher,
    python,
    wait_until_ended,
)

pytestmark = pytest.mark.integration

LIMIT = 262144


@pytest.fixture
async def small(tmp_path):
    """Yield a launcher that keeps little output."""
    launcher = make_launcher(tmp_path, log_limit_bytes=LIMIT)
    await launcher.setup()
    yield launcher
    await end(launcher, *await launcher.find_jobs())
    await launcher.cleanup()


async def read(launcher, tail=99, *, follow=False) -> list[str]:
    return [
        one async for one in launcher.read_logs(SCHEDULER, tail=tail, follow=follow)
    ]


async def test_a_job_that_never_stops_talking_fills_no_disk(small, tmp_path):
    """Far more than the limit; the newest lines are there, whole and in order."""
    code = "for i in range(60000): print('line', i, 'x' * 40)"
    await small.start(a_job(*python(code)))

    ended = await wait_until_ended(small)

    directory = tmp_path / "clusters/c1/scheduler"
    kept = sum(path.stat().st_size for path in directory.glob("output.log*"))
    assert LIMIT // 4 < kept <= LIMIT
    assert ended.log_tail[-1].startswith("line 59999 ")
    numbers = [int(line.split()[1]) for line in await read(small, tail=1500)]
    assert numbers == list(range(60000 - 1500, 60000))


@pytest.mark.parametrize(
    ("tail", "want"), [(0, []), (1, ["2"]), (3, ["0", "1", "2"]), (99, ["0", "1", "2"])]
)
async def test_a_tail_is_at_most_what_was_asked_for(small, tail, want):
    await small.start(a_job(*python("for i in range(3): print(i)")))
    await wait_until_ended(small)

    assert await read(small, tail=tail) == want


async def test_following_shows_lines_as_they_come_and_ends_with_the_job(
    small, tmp_path
):
    signal_file = tmp_path / "go"
    code = f"""
import os, time
print("first", flush=True)
while not os.path.exists({str(signal_file)!r}):
    time.sleep(0.05)
print("second", flush=True)
os.write(1, b"unfinished")
"""
    await small.start(a_job(*python(code)))
    lines = small.read_logs(SCHEDULER, tail=9, follow=True)

    assert await asyncio.wait_for(anext(lines), 60) == "first"
    signal_file.touch()

    assert [one async for one in lines] == ["second", "unfinished"]


async def test_following_misses_no_line_while_files_change(small, tmp_path):
    """One file is full after about 1500 lines; the reader keeps up by asking often."""
    go = tmp_path / "go"
    code = f"""
import os, time
for i in range(6000):
    print("line", i, "x" * 60, flush=True)
    if i % 500 == 0:
        while not os.path.exists({str(go)!r} + str(i)):
            time.sleep(0.01)
"""
    await small.start(a_job(*python(code)))
    seen = []

    async for line in small.read_logs(SCHEDULER, tail=0, follow=True):
        number = int(line.split()[1])
        seen.append(number)
        if number % 500 == 0:
            go.with_name(f"go{number}").touch()

    assert seen == list(range(seen[0], 6000))


async def test_lines_that_came_too_fast_are_said_to_be_missing(small, tmp_path):
    go = tmp_path / "go"
    code = f"""
import os, time
print("first", flush=True)
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
for i in range(20000):
    print("line", i, "x" * 60)
"""
    await small.start(a_job(*python(code)))
    lines = small.read_logs(SCHEDULER, tail=9, follow=True)
    assert await asyncio.wait_for(anext(lines), 60) == "first"
    go.touch()
    await wait_until_ended(small)

    rest = [one async for one in lines]

    assert any("may be missing" in line for line in rest)
    assert rest[-1].startswith("line 19999 ")


async def test_closing_a_reader_lets_go_of_the_file(small):
    await small.start(
        a_job(*python("import time; print('a', flush=True); time.sleep(99)"))
    )
    lines = small.read_logs(SCHEDULER, tail=9, follow=True)
    await asyncio.wait_for(anext(lines), 60)

    await lines.aclose()

    await eventually(lambda: not open_logs())


async def test_a_job_that_never_was_has_no_lines(small):
    assert [one async for one in small.read_logs(WORKER, tail=9, follow=True)] == []


async def test_bytes_that_are_no_text_are_shown_somehow(small):
    await small.start(a_job(*python(r"import os; os.write(1, b'\xff\xfe\r\nok\n')")))
    await wait_until_ended(small)

    assert await read(small) == ["��", "ok"]


def open_logs() -> list[str]:
    """Return the logs that this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(link.readlink()))
    return [path for path in found if "output.log" in path]
