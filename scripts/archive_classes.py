"""Makes the archive of Java classes with which local Spark sessions start in half the time.

    python scripts/archive_classes.py

runs analyze and redrive once over a few messages, on a server of its own, and keeps the classes
that they load in this Python's environment (see spark_reprocess/spark/class_archive.py). About
170 MB; can be removed at any time. Does nothing where there is one, or where making one failed: an
empty file says so.
"""

import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from pyspark import SparkContext

from demo.embedded_sqs import EmbeddedSqs
from demo.world import local_environment
from dlq_replay.message import Message
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.message_store import new_id, write_messages
from spark_reprocess.command_line.cli import main as run_verb
from spark_reprocess.spark.class_archive import class_archive, recording_options

if TYPE_CHECKING:
    from subprocess import Popen

_MESSAGES = 20
_EXIT_SECONDS = 120
_MOST_SECONDS = 600

# A developer's own cluster is not the place for this.
_SPARK_SETTINGS = ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR")


def main() -> int:
    """Make the archive; return 1, and say why, where that does not work."""
    target = class_archive()
    if target.exists():
        return 0
    sys.stdout.write(
        "Recording the Java classes that Spark loads (once, a minute): sessions then start in half"
        " the time\n"
    )
    sys.stdout.flush()
    said = io.StringIO()
    try:
        with _within(_MOST_SECONDS), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            fresh = Path(folder, "fresh.jsa")
            with redirect_stdout(said), redirect_stderr(said):
                _record(fresh, Path(folder))
            # A JVM crashes over one that was not written to its end.
            fresh.replace(target)
            return 0
    except Exception as error:  # noqa: BLE001 - without it everything works, only slower
        sys.stderr.write(f"{said.getvalue()}{type(error).__name__}: {error}\n")
    try:
        target.touch()
        again = f"; to try again, remove {target}"
    except OSError:
        again = ""
    sys.stderr.write(f"There is no archive of Java classes, so Spark starts slower{again}.\n")
    return 1


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _record(archive: Path, folder: Path) -> None:
    server = EmbeddedSqs(folder / "server.log")
    try:
        with local_environment(server.start()):
            for name in _SPARK_SETTINGS:
                os.environ.pop(name, None)
            os.environ["SPARK_SUBMIT_OPTS"] = recording_options(archive)
            try:
                _run_verbs(str(folder / "archive"))
            finally:
                _end_jvm()
    finally:
        server.stop()


def _run_verbs(archive: str) -> None:
    now = datetime.now(UTC)
    messages = [Message(f"id-{n}", json.dumps({"order": n})) for n in range(_MESSAGES)]
    rows = [to_row(message, "https://sqs/1/parked", now) for message in messages]
    write_messages(open_archive(archive), new_id(now.timestamp()), 0, rows)
    _run("analyze", "--archive", archive)
    (plan,) = Path(archive).glob("reports/*/plan.yaml")
    plan.write_text(plan.read_text("utf-8").replace("action: leave", "action: redrive"), "utf-8")
    main_url = boto3.client("sqs").create_queue(QueueName="main")["QueueUrl"]
    redrive = ("redrive", "--archive", archive, "--plan", str(plan), "--to-queue-url", main_url)
    _run(*redrive, "--execute", "--reason", "to record classes")


def _run(*words: str) -> None:
    exit_code = run_verb(words)
    if exit_code:
        raise RuntimeError(f"{words[0]} ended with {exit_code}")


def _end_jvm() -> None:
    """Ask the JVM to end, and wait: it writes the archive last."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - only it knows the process
    if gateway is None:
        return
    process: Popen[bytes] = gateway.proc
    try:
        if context := SparkContext._active_spark_context:  # noqa: SLF001 - there is no public question
            context.stop()
        if process.stdin:
            process.stdin.close()
        if exit_code := process.wait(_EXIT_SECONDS):
            raise RuntimeError(f"Java ended with {exit_code}")
    finally:
        process.kill()


if __name__ == "__main__":
    sys.exit(main())
