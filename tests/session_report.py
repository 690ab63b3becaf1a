"""What a session of tests says in the end: what it skipped, measured, failed, and how long it took.

Each class is a plugin of pytest. `--results DIRECTORY` also writes what failed and how long every
test took into files, which CI shows when it fails.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

FIGURE = "figure"
"""The name of a test's property that is shown at the end of the session."""

SLOWEST_SHOWN = 20
USUAL_SECONDS = 60.0
"""What one test may take with its fixtures, on a core of its own."""

LONGER = {"tests/acceptance/test_demo.py::test_the_demo_on_all_the_data": 180.0}
"""Tests that may take longer without the mark `torture`, and how long each may."""


class RequireAll:
    """Fails the session if a test was skipped, and says which."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(f"{report.nodeid}: {_reason(report)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(f"{report.nodeid}: {_reason(report)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped:
            _fail(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.skipped:
            return
        terminalreporter.section("skipped although PERAGO_REQUIRE_ALL is set", red=True)
        for line in dict.fromkeys(self.skipped):
            terminalreporter.line(line)


class Figures:
    """Shows what tests measured, whether they pass or fail: `record_property(FIGURE, text)`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.lines += [str(text) for name, text in report.user_properties if name == FIGURE]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.lines:
            terminalreporter.section("figures")
        for line in self.lines:
            terminalreporter.line(line)


class Slowest:
    """Shows the slowest tests, and fails the session if one took longer than it may.

    A test's time is that of its fixtures, too: the first one that needs a server waits for it.
    """

    def __init__(self, processes: int) -> None:
        """`processes` is how many run tests side by side: four on two cores take twice as long.

        On a machine that is busy with other work, the variable TEST_SECONDS raises the limit.
        """
        told = float(os.environ.get("TEST_SECONDS", USUAL_SECONDS))
        self.slowdown = told / USUAL_SECONDS * max(1.0, processes / (os.cpu_count() or 1))
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.torture: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _name(report)
        self.seconds[name] += report.duration
        if "torture" in report.keywords:
            self.torture.add(name)

    @property
    def longest(self) -> list[tuple[str, float]]:
        """All tests, the slowest first."""
        return sorted(self.seconds.items(), key=lambda item: -item[1])

    @property
    def too_slow(self) -> list[str]:
        """The tests that took longer than they may."""
        return [
            f"{seconds:.0f} s, not {self.limit_of(name):.0f}: {name}"
            for name, seconds in self.longest
            if name not in self.torture and seconds > self.limit_of(name)
        ]

    def limit_of(self, name: str) -> float:
        """What this test may take in this session."""
        return self.slowdown * LONGER.get(name, USUAL_SECONDS)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_slow:
            _fail(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {SLOWEST_SHOWN} tests, with their fixtures")
        for name, seconds in self.longest[:SLOWEST_SHOWN]:
            terminalreporter.line(f"{seconds:6.1f} s  {name}")
        if self.too_slow:
            terminalreporter.section("too slow: make it faster, or mark it `torture`", red=True)
        for line in self.too_slow:
            terminalreporter.line(line)


class ResultFiles:
    """Writes what failed, and how long every test took, into a directory."""

    def __init__(self, directory: Path, slowest: Slowest) -> None:
        self.directory = directory
        self.slowest = slowest
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(f"{_name(report)} ({report.when})\n{report.longreprtext}\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (collection)\n{report.longreprtext}\n")

    def pytest_sessionfinish(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "failed.txt").write_text("\n".join(self.failed), encoding="utf-8")
        times = "".join(f"{seconds:.2f}\t{name}\n" for name, seconds in self.slowest.longest)
        (self.directory / "seconds.txt").write_text(times, encoding="utf-8")


def _fail(session: pytest.Session) -> None:
    """Turn a session that passed, or found nothing to run, into one that failed."""
    if session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _name(report: pytest.TestReport) -> str:
    """The test's name; xdist writes the group behind it."""
    name, _, group = report.nodeid.rpartition("@")
    return name if name and "]" not in group else report.nodeid


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    match report.longrepr:
        case (_, _, str(reason)):
            return reason
        case other:
            return str(other)
