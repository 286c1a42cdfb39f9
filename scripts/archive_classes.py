"""Makes the archive of Java classes with which local Spark sessions start in half the time.

    python scripts/archive_classes.py

runs analyze and redrive once over a few messages, on a server of its own, and keeps the classes
that they load in this Python's environment (see spark_reprocess/spark/class_archive.py). About
170 MB; can be removed at any time.
"""

import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
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


def main() -> int:
    """Make the archive; return 1, and say why, where that does not work."""
    target = class_archive()
    # A JVM that uses one cannot record another.
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fresh = Path(folder, "fresh.jsa")
        said = io.StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                _record(fresh, Path(folder))
            # A JVM crashes over one that was not written to its end.
            fresh.replace(target)
        except Exception as error:  # noqa: BLE001 - without it everything works, only slower
            sys.stderr.write(f"{said.getvalue()}{type(error).__name__}: {error}\n")
            sys.stderr.write("There is no archive of Java classes: Spark starts slower.\n")
            return 1
    return 0


def _record(archive: Path, folder: Path) -> None:
    server = EmbeddedSqs(folder / "server.log")
    try:
        with local_environment(server.start()):
            os.environ["SPARK_SUBMIT_OPTS"] = recording_options(archive)
            _run_verbs(str(folder / "archive"))
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
    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - there is no public question
    process: Popen[bytes] = context._gateway.proc  # noqa: SLF001 - only it knows the process
    context.stop()
    if process.stdin:
        process.stdin.close()
    if exit_code := process.wait(_EXIT_SECONDS):
        raise RuntimeError(f"Java ended with {exit_code}")


if __name__ == "__main__":
    sys.exit(main())
