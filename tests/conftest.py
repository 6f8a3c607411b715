"""What every test has: reproducible chance, and skips that are named and counted."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.peers import REASON

settings.register_profile("check", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("all", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("QUORATE_HYPOTHESIS", "check"))

TESTS = Path(__file__).resolve().parent
MARKS = {
    "integration": ("integration",),
    "contract": ("integration",),
    "etcd": ("integration",),
    "kills": ("integration",),
    "rocketmq": ("integration", "peers"),
    "kafka_tools": ("integration", "peers"),
    "spark": ("integration",),
    "projections": ("integration",),
    "browser": ("integration", "peers"),
    "bench": ("bench",),
}


def pytest_configure() -> None:
    """SIGTERM is an interrupt: fixtures are taken down, so that no process of a test outlives the run."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whole folders, so that no file can forget to."""
    for item in items:
        if item.path.is_relative_to(TESTS):
            for mark in MARKS.get(item.path.relative_to(TESTS).parts[0], ()):
                item.add_marker(mark)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name and count what was skipped; absent peers first."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(reasons.items(), key=lambda pair: (REASON not in pair[0], pair[0])):
        terminalreporter.write_line(f"SKIPPED {count} test{'s' * (count > 1)}: {reason}", yellow=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``QUORATE_FORBID_SKIPS=1`` (``.ci/run``) a skip fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and os.environ.get("QUORATE_FORBID_SKIPS") == "1" and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
