"""``--expected-skips FILE``: fail the run where a test was skipped that FILE does not name.

Without the option, as on a developer's machine, every skip is accepted.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest


class Expected(NamedTuple):
    """Shell patterns of a test's id and of the reason of its skip."""

    node_id: str
    reason: str


def parse(text: str) -> list[Expected]:
    """Read lines of ``pattern of the node id | pattern of the reason``; ``#`` starts a comment."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    pairs = [line.partition("|") for line in lines if line]
    return [Expected(node_id.strip(), reason.strip()) for node_id, _, reason in pairs]


class SkipCheck:
    """Collects the skips that no line expects."""

    def __init__(self, expected: list[Expected]) -> None:
        self._expected = expected
        self._unexpected: dict[str, str] = {}

    def note(self, node_id: str, reason: str) -> None:
        """Take one skipped test."""
        if not any(
            fnmatchcase(node_id, one.node_id) and fnmatchcase(reason, one.reason)
            for one in self._expected
        ):
            self._unexpected[node_id] = reason

    def lines(self) -> Iterator[str]:
        """Describe the unexpected skips."""
        for node_id, reason in self._unexpected.items():
            yield f"{node_id}: {reason}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.note(report.nodeid, _reason(report.longrepr))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unexpected:
            terminalreporter.section("skipped tests that --expected-skips does not name", red=True)
            for line in self.lines():
                terminalreporter.line(line)


def _reason(longrepr: Any) -> str:
    text = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)
    return text.removeprefix("Skipped: ")
