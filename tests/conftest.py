import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dlq.archive import lock
from dlq.aws import clients
from tests.support.aws_models import parse_once

# Developers' machines search at random, `make test` there for a quarter of the time that `make
# test-all` takes for it. CI repeats one search, so that red means a change broke it.
settings.register_profile("dev", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

_SLOW_FOLDERS = {"e2e", "simulation", "soak"}
"""Whole programs, days on a virtual clock, and what takes minutes."""

_QUICK_SPARK_FILE = "test_spark_job.py"
"""The one file with a Spark session that `make test` runs."""

_MOST_PROCESSES = 4
"""Each may start a Spark session of its own, of a gigabyte or more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--expected-skips", type=Path, help="fail on a skip that this file lacks")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where a test was skipped that no line of the file names, with this reason."""
    expected: Path | None = session.config.getoption("--expected-skips")
    # xdist's workers have no reporter; their reports reach that of the main process.
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if expected is None or reporter is None:
        return
    patterns = expected.read_text("utf-8").splitlines()
    for report in reporter.stats.get("skipped", ()):
        skip = f"{report.nodeid} | {report.longrepr[2].removeprefix('Skipped: ')}"
        if not any(fnmatchcase(skip, pattern) for pattern in patterns):
            reporter.write_line(f"\nnot in {expected}: {skip}", red=True)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each holder of the archive lock renew it so often that nobody waits long to see that."""
    monkeypatch.setattr(lock, "_RENEWALS", 1200)
    monkeypatch.setattr(lock, "_LOOKS", 4800)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `make test` leaves out: some of it takes seconds."""
    is_quick = config.option.markexpr == "not slow"
    return True if is_quick and collection_path.name in _SLOW_FOLDERS else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``slow`` what `make test` leaves to `make test-all`, by folder and by fixture."""
    for test in items:
        needs_spark = "started_spark" in getattr(test, "fixturenames", ())
        # Whoever has an engine has servers and files, too; one file shows quickly that it works.
        needs_spark |= "engine" in getattr(test, "fixturenames", ())
        is_quick_spark = test.path.name == _QUICK_SPARK_FILE
        if _SLOW_FOLDERS & set(test.path.parts) or (needs_spark and not is_quick_spark):
            test.add_marker("slow")


def pytest_xdist_auto_num_workers() -> int:
    # Many tests wait, for servers, processes and browsers.
    return min((os.cpu_count() or 1) + 1, _MOST_PROCESSES)


# No test may reach a real account by accident, or depend on the terminal that it is started from.
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_REGION="us-east-1",
    AWS_CONFIG_FILE=str(Path(__file__).with_name("aws_config")),
    AWS_EC2_METADATA_DISABLED="true",
    TERM="xterm",
)
# Nor on the stack that the developer has chosen; nor may it change what completion knows.
_own_folder = tempfile.TemporaryDirectory(prefix="dlq-tests-")
os.environ["XDG_CONFIG_HOME"] = f"{_own_folder.name}/config"
os.environ["XDG_CACHE_HOME"] = f"{_own_folder.name}/cache"
for _name in ("AWS_DEFAULT_REGION", "AWS_DEFAULT_PROFILE", "AWS_PROFILE"):
    os.environ.pop(_name, None)
for _name in ("DLQ_ARCHIVE", "DLQ_STACK"):
    os.environ.pop(_name, None)
for _name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets its background jobs ignore Ctrl-C; programs that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


parse_once()


_asked_elsewhere: list[str] = []


def _refuse_names_of_other_machines(event: str, arguments: tuple[Any, ...]) -> None:
    """Find no name but this machine's, as if no network were there. Tests serve at addresses."""
    if event != "socket.getaddrinfo":
        return
    host = arguments[0]
    name = host.decode() if isinstance(host, bytes) else host or "localhost"
    if name != "localhost" and not name.replace(".", "").isdecimal() and ":" not in name:
        _asked_elsewhere.append(name)
        raise socket.gaierror(socket.EAI_NONAME, f"tests do not ask {name}")


sys.addaudithook(_refuse_names_of_other_machines)


@pytest.fixture(autouse=True)
def nothing_asked_elsewhere() -> Iterator[None]:
    """No test may depend on the network: how fast a name is not found differs from place to place.

    It reaches the process of the test alone; programs that a test starts are its own matter.
    """
    _asked_elsewhere.clear()
    yield
    assert _asked_elsewhere == []


@pytest.fixture(autouse=True)
def session_of_its_own() -> Iterator[None]:
    """No test may get the session of AWS that another one's environment gave."""
    clients.session_of.cache_clear()
    yield
    clients.session_of.cache_clear()


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """No test may leave the environment changed: which tests come after it is chance."""
    before = dict(os.environ)
    yield
    # Names alone: values may be secrets.
    changed = {name for name, _ in os.environ.items() ^ before.items()}
    assert changed <= {"PYTEST_CURRENT_TEST"}
