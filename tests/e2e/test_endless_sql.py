"""Conditions that one long body makes endless, or too large for Spark: what the operator sees."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlq.archive.lock import LockHolder, LockUse, archive_lock
from dlq.archive.storage.files import Archive
from tests.integration.spark_world import archive_of
from tests.support.builders import message
from tests.support.small_jobs import QUICK_SPARK

ROOT = Path(__file__).parents[2]

ENDLESS = "message_id <> 'large' AND body LIKE '%a%a%a%b'"
"""Over 20,000 letters a: about 10 to the power of 16 steps."""

HUGE = f"length(concat({', '.join(['body'] * 800)})) > 0"
"""Over a body of 1 MiB: 800 MiB."""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    bodies = {"short": "aab", "endless": "a" * 20_000, "large": "a" * 2**20}
    return archive_of(tmp_path / "archive", [message(name, body) for name, body in bodies.items()])


@contextmanager
def erasing(archive: Archive, limit_seconds: float, where: str) -> Iterator[subprocess.Popen[str]]:
    """Start an erase, which holds the archive lock while it looks for messages."""
    place = ["--archive", archive.root, "--where", where, "--execute", "--reason", "a test"]
    memory = "--driver-memory 512m --conf spark.sql.codegen.wholeStage=false pyspark-shell"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.limited_sql", str(limit_seconds), "erase", *place],
        cwd=ROOT,
        env={**os.environ, **QUICK_SPARK, "PYSPARK_SUBMIT_ARGS": memory},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def assert_unlocked(archive: Archive) -> None:
    """Take the archive lock: a BusyError says that it is still held."""
    with archive_lock(archive, LockHolder("another", LockUse.ANALYZE, "an analysis", "me")) as lock:
        lock.require()


@pytest.mark.parametrize(
    ("where", "limit_seconds", "sentence"),
    [
        (ENDLESS, 0, "takes more than 0 minutes for some message, and was stopped; use"),
        (HUGE, 3600, "needs more memory or stack than Spark has for some message; use"),
    ],
)
def test_it_ends_with_a_sentence(
    archive: Archive, where: str, limit_seconds: float, sentence: str
) -> None:
    with erasing(archive, limit_seconds, where) as process:
        _, errors = process.communicate()

    assert process.returncode == 2, errors
    assert sentence in errors
    assert "Traceback" not in errors
    assert_unlocked(archive)


def test_the_first_interrupt_ends_it(archive: Archive) -> None:
    with erasing(archive, 3600, ENDLESS) as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("erasing: "):
                process.send_signal(signal.SIGINT)
                break
        _, errors = process.communicate()

    assert process.returncode == 130, errors
    assert errors.endswith("dlq: interrupted; nothing is lost, run the same command again\n")
    assert "Traceback" not in errors
    assert_unlocked(archive)
