"""Load generator: one asyncio client in a process of its own.

It knows neither of the two servers: it is given URLs, and a process whose CPU
time it reads just before and just after the measured requests. Plan on standard
input, outcome on standard output, both JSON.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

ROOT = Path(__file__).parents[1]
_LOGIN_PATH = "/api/v1/options"
_LONGEST_S = 900


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send.

    Parameters
    ----------
    base
        URL of the server without a trailing slash.
    paths
        Asked one after another, again from the start when they are used up.
    server_pid
        Process whose CPU time is read around the measured requests.
    requests
        How many are measured.
    seconds
        Instead of a number: for how long. CPU times are counted in hundredths
        of a second, so a fast server must be measured for long enough.
    warm_up
        How many are sent before.
    connections
        Kept-alive connections, each with one request under way. Ignored if
        ``rate`` is set: then one opens when none is free.
    rate
        Requests a second, sent by the clock whether or not earlier ones were
        answered; latency counts from the planned instant. ``None`` is as fast
        as the answers come.
    """

    base: str
    paths: list[str]
    server_pid: int
    user: str
    password: str
    requests: int = 0
    seconds: float | None = None
    warm_up: int = 20
    connections: int = 8
    rate: float | None = None
    method: str = "GET"
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def basic_authorization(user: str, password: str) -> dict[str, str]:
    """Return the header that shows a password."""
    return {
        "Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    }


def run(plan: Plan) -> dict[str, Any]:
    """Carry out ``plan`` in a fresh process and return what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(asdict(plan)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        timeout=_LONGEST_S,
        check=True,
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


class _Measurement:
    def __init__(self, plan: Plan, session: aiohttp.ClientSession):
        self.plan = plan
        self.session = session
        self.paths = itertools.cycle(plan.paths)
        self.latencies: list[float] = []
        self.statuses: dict[int, int] = {}
        self.bytes = 0

    async def send(self, planned: float | None = None) -> None:
        started = time.perf_counter() if planned is None else planned
        async with self.session.request(
            self.plan.method, self.plan.base + next(self.paths), json=self.plan.body
        ) as response:
            self.bytes += len(await response.read())
        self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
        self.latencies.append(time.perf_counter() - started)

    async def send_many(self, count: int) -> None:
        left = iter(range(count))

        async def one_connection() -> None:
            for _ in left:
                await self.send()

        async with asyncio.TaskGroup() as group:
            for _ in range(self.plan.connections):
                group.create_task(one_connection())

    async def send_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds

        async def one_connection() -> None:
            while time.perf_counter() < end:
                await self.send()

        async with asyncio.TaskGroup() as group:
            for _ in range(self.plan.connections):
                group.create_task(one_connection())

    async def send_paced(self, count: int, rate: float) -> None:
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                planned = begin + number / rate
                await asyncio.sleep(max(0.0, planned - time.perf_counter()))
                group.create_task(self.send(planned))

    def forget(self) -> None:
        self.latencies.clear()
        self.statuses.clear()
        self.bytes = 0


async def _measure(plan: Plan) -> dict[str, Any]:
    process = psutil.Process(plan.server_pid)
    connector = aiohttp.TCPConnector(limit=0 if plan.rate else plan.connections)
    # Cookies of an IP address are kept, as the stock client keeps them.
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=jar, headers=plan.headers
    ) as session:
        if plan.user:
            await _log_in(session, plan)
        measurement = _Measurement(plan, session)
        await measurement.send_many(plan.warm_up)
        measurement.forget()
        cpu = _cpu_s(process)
        own_cpu = time.process_time()
        started = time.perf_counter()
        if plan.rate is not None:
            await measurement.send_paced(plan.requests, plan.rate)
        elif plan.seconds is not None:
            await measurement.send_for(plan.seconds)
        else:
            await measurement.send_many(plan.requests)
        seconds = time.perf_counter() - started
        own_cpu = time.process_time() - own_cpu
        cpu = _cpu_s(process) - cpu
    return _describe(measurement, seconds=seconds, cpu=cpu, own_cpu=own_cpu)


async def _log_in(session: aiohttp.ClientSession, plan: Plan) -> None:
    """Send the password once; after it the session cookie speaks."""
    async with session.get(
        plan.base + _LOGIN_PATH,
        headers=basic_authorization(plan.user, plan.password),
    ) as response:
        response.raise_for_status()


def _describe(
    measurement: _Measurement, *, seconds: float, cpu: float, own_cpu: float
) -> dict[str, Any]:
    latencies = sorted(measurement.latencies)
    count = len(latencies)
    return {
        "requests": count,
        "seconds": seconds,
        "requests_per_s": count / seconds,
        "p50_ms": latencies[count // 2] * 1000,
        "p99_ms": latencies[min(count - 1, int(count * 0.99))] * 1000,
        "max_ms": latencies[-1] * 1000,
        "server_cpu_ms_per_request": cpu / count * 1000,
        "client_cpu_ms_per_request": own_cpu / count * 1000,
        "bytes_per_response": measurement.bytes / count,
        "statuses": {str(k): v for k, v in sorted(measurement.statuses.items())},
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    json.dump(asyncio.run(_measure(Plan(**json.load(sys.stdin)))), sys.stdout)
