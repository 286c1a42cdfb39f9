"""Runs the Spark job inside the demo: starts one session in the background, and always ends it."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from demo import DemoError
from demo.terminal import lines_to

_ORPHANS_SECONDS = 2.0

_LAUNCH_SECONDS = 20
_EXIT_INTERRUPTED = 130
_STOP_SECONDS = 5.0
_STOP_STARTING_SECONDS = 0.5


def end_tree(process: "subprocess.Popen[bytes]", grace_seconds: float) -> None:
    """End *process* with SIGTERM, after *grace_seconds* with SIGKILL, and then its children.

    The children also end by themselves after their parent. Without ``/proc`` they cannot be found,
    and are left to do so.
    """
    below = list(_descendants(process.pid))
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    deadline = time.monotonic() + _ORPHANS_SECONDS
    while any(map(_is_alive, below)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in filter(_is_alive, below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    parents = dict(_parents())
    family = {pid}
    while found := {child for child, parent in parents.items() if parent in family} - family:
        family |= found
        yield from found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(folder.name), int(_stat(folder)[1])


def _is_alive(pid: int) -> bool:
    try:
        return _stat(Path("/proc") / str(pid))[0] != "Z"
    except OSError:
        return False


def _stat(folder: Path) -> list[str]:
    """Return the fields after the name, which is in brackets: state, parent and so on."""
    return (folder / "stat").read_text().rsplit(")", 1)[1].split()


class Spark:
    """Runs the job's verbs in this process."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._starter: threading.Thread | None = None
        self._fault: Exception | None = None

    def warm_up(self) -> None:
        """Start the session in the background, because it takes long. Does so once only."""
        with self._starting:
            if self._starter is not None:
                return
            # py4j logs interrupted calls to the current standard error, unless logging is set up.
            logging.basicConfig(stream=sys.stderr)
            self._starter = threading.Thread(target=self._start, name="spark-start", daemon=True)
            self._starter.start()

    @property
    def is_ready(self) -> bool:
        """Whether the session has started, so that a verb runs at once."""
        return self._starter is not None and not self._starter.is_alive()

    def run(self, argv: Sequence[str], take_line: Callable[[str], object]) -> int:
        """Run one verb as ``dlq`` does; pass its lines to *take_line*.

        Raises:
            DemoError: Spark could not start.
        """
        if self._starter:
            self._starter.join()
        if self._fault:
            raise DemoError(f"Spark could not start ({self._fault}); is Java 17 or later here?")
        from dlq_cli.__main__ import main  # noqa: PLC0415 - loads slowly

        try:
            with lines_to(take_line):
                exit_code = main(list(argv))
        except Exception as error:
            # Raised as DemoError, so that the account is still made after an error of the job.
            traceback.print_exc()
            raise DemoError(f"{argv[0]} broke: {type(error).__name__}: {error}") from error
        if exit_code == _EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        return exit_code

    def _start(self) -> None:
        try:
            from spark_reprocess.spark.session import get_session  # noqa: PLC0415 - as above

            session = get_session()
            # For so few messages, compiling what a query does takes longer than it saves.
            session.conf.set("spark.sql.codegen.wholeStage", "false")
            session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            session.conf.set("spark.sql.shuffle.partitions", "2")
            # The first Python worker takes seconds to start, too.
            session.range(1).mapInArrow(lambda batches: batches, "id long").count()
        except Exception as error:  # noqa: BLE001 - raised by run(), in the viewer's thread
            self._fault = error

    def stop(self) -> None:
        """End the JVM and Spark's workers, also during the start."""
        if self._starter is None:
            return
        process = self._find_jvm()
        if process is not None:
            # During the start of Spark, a JVM may ignore SIGTERM.
            end_tree(process, _STOP_SECONDS if self.is_ready else _STOP_STARTING_SECONDS)

    def _find_jvm(self) -> "subprocess.Popen[bytes] | None":
        """Return the JVM's process. During its launch it is not known yet, so wait for it."""
        from pyspark import SparkContext  # noqa: PLC0415 - as above

        deadline = time.monotonic() + _LAUNCH_SECONDS
        while time.monotonic() < deadline:
            gateway: Any = SparkContext._gateway  # noqa: SLF001 - pyspark has no other way
            if gateway is not None:
                process: subprocess.Popen[bytes] | None = gateway.proc
                return process
            if self.is_ready:
                return None
            time.sleep(0.05)
        return None
