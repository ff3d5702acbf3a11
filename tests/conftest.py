"""What holds for every test: profiles, guards, and what counts as a failure.

The guards stand in ``tests.support``; here they are only switched on.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support import blocking, logs, secrets, skips, strays

IS_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

for _name, _examples in (("dev", 50), ("ci", 300), ("nightly", 5000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,  # the machine may be loaded; no test asserts on speed
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IS_CI else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run nightly tests too")
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden again"
    )


def pytest_configure(config: pytest.Config) -> None:
    secrets.watch_issued_tokens()
    # As production does: rich tracebacks show values, and read files on the loop.
    plain = structlog.dev.plain_traceback
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain),
        ]
    )
    if IS_CI:
        config.pluginmanager.register(skips.SkipsAreFailures(), "skips-are-failures")


def pytest_runtest_setup() -> None:
    logs.configure()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--nightly") or "nightly" in config.getoption("-m"):
        return
    wanted, nightly = [], []
    for item in items:
        (nightly if item.get_closest_marker("nightly") else wanted).append(item)
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = wanted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "teardown":
        shown = "\n".join(text for _, text in report.get_sections("Captured "))
        if leaks := secrets.find_leaks(shown):
            text = f"captured output shows {', '.join(leaks)}"
            report.sections.append(("Captured secrets", text))
            if report.passed:
                report.outcome, report.longrepr = "failed", text
    return report


@pytest.fixture(scope="session", autouse=True)
def _blocking_calls_fail() -> Iterator[None]:
    with blocking.refused():
        yield


@pytest.fixture(autouse=True)
def _nothing_stays_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    with strays.refused(request):
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_process_and_no_secret_outlives_the_suite(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    yield
    folder = Path(tmp_path_factory.getbasetemp())
    problems = [f"still running: {text}" for text in strays.end_processes_of(folder)]
    problems += [f"log shows {text}" for text in secrets.find_leaks_in_logs(folder)]
    assert not problems, "\n".join(problems)
