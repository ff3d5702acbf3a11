"""On the machine that decides, a skipped test is a failed one."""

from collections.abc import Iterator

import pytest

# Reasons that are true of a whole platform, word for word.
PLATFORM_REASONS: frozenset[str] = frozenset()


class SkipsAreFailures:
    """Plugin that turns skips into failures, at collection and at run time."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(self) -> Iterator[None]:
        report = yield
        _refuse(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        if not hasattr(report, "wasxfail"):
            _refuse(report)
        return report


def _refuse(report: pytest.CollectReport | pytest.TestReport) -> None:
    if not report.skipped:
        return
    reason = _reason(report)
    if reason not in PLATFORM_REASONS:
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be missing (CI=true): {reason}"


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return str(text).removeprefix("Skipped: ")
