"""Runs verbs of the Spark job as an operator does: each in its own process, on two cores.

``python -m benchmarks.verbs FOLDER VERB ...`` is that process. It can count the calls and bytes of
an archive on S3, where a part of a file is a GET of a range.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from benchmarks import ROOT
from dlq.archive.storage import files, s3
from dlq.archive.storage.local import LocalArchive
from dlq.cli.running import end_process

DRAIN = ("collect", "--only", "drain")
ANALYZE = ("collect", "--only", "analyze")
_MEMORY = "--driver-memory {} pyspark-shell"
_CALLS = "BENCH_CALLS"
_WITHOUT_SPARK = ("status", "erase")


@dataclass(frozen=True, slots=True)
class TimedVerb:
    """The costs of a verb.

    Attributes:
        seconds: after the start of the session.
        peak_mb: peak memory of its own process. This and the next ones are there only if counted.
        processor_seconds: of all its processes, with the start of the session.
        calls: to the archive.
        moved_mb: bytes read from and written to it.
    """

    seconds: float
    peak_mb: float = 0
    processor_seconds: float = 0
    calls: int = 0
    moved_mb: float = 0
    written_mb: float = 0

    def __add__(self, other: "TimedVerb") -> "TimedVerb":
        """Return what both took, one after the other."""
        return TimedVerb(
            seconds=self.seconds + other.seconds,
            peak_mb=max(self.peak_mb, other.peak_mb),
            processor_seconds=self.processor_seconds + other.processor_seconds,
            calls=self.calls + other.calls,
            moved_mb=self.moved_mb + other.moved_mb,
            written_mb=self.written_mb + other.written_mb,
        )


def timed_verb(
    *arguments: str, driver_memory: str = "1g", counts: bool = False, days_later: int = 0
) -> TimedVerb:
    """Run a verb.

    Args:
        arguments: its name, then its own.
        driver_memory: size of the JVM's heap in Spark's form; the default is Spark's.
        counts: whether to count calls and bytes, processor time and memory; on Linux only.
        days_later: how many days its clock is ahead.

    Raises:
        RuntimeError: it failed; the text has the end of its standard error.
    """
    with tempfile.TemporaryDirectory(prefix="bench-verb-") as folder:
        result = Path(folder, "timed.json")
        calls = Path(folder, "calls")
        calls.touch()

        environment = {
            "PYSPARK_SUBMIT_ARGS": _MEMORY.format(driver_memory),
            # As in the process of a command.
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if counts:
            environment[_CALLS] = str(calls)
        ended = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "benchmarks.verbs", str(result), str(days_later), *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            end = ended.stderr[-2000:]
            raise RuntimeError(f"{arguments[0]} ended with {ended.returncode}: {end}")

        took = json.loads(result.read_text("utf-8"))
        return TimedVerb(**took, **_figures_of(calls))


def _figures_of(log: Path) -> dict[str, Any]:
    """Add up the calls that ``_note`` wrote to *log*."""
    calls = 0
    read_bytes = 0
    written_bytes = 0
    for line in log.read_text().splitlines():
        call_count, read, written = line.split()
        calls += int(call_count)
        read_bytes += int(read)
        written_bytes += int(written)

    moved_bytes = read_bytes + written_bytes
    return {"calls": calls, "moved_mb": moved_bytes / 1e6, "written_mb": written_bytes / 1e6}


def approved(archive: Path) -> str:
    """Set every group of the archive's newest plan to ``redrive``; return the plan's path."""
    plan = max(archive.glob("reports/*/plan.yaml"))
    text = plan.read_text("utf-8")
    plan.write_text(text.replace("action: leave", "action: redrive"), "utf-8")
    return str(plan)


class CountedArchive(LocalArchive):
    """A local archive that writes down each call that one on S3 would make."""

    __slots__ = ()

    def open(self, path: str) -> BinaryIO | None:
        """Read as an archive on S3 does."""
        file = super().open(path)
        if file is None:
            return None

        size = file.seek(0, os.SEEK_END)

        def fetch(span: str) -> tuple[bytes, int]:
            start, _, last = span.partition("-")
            file.seek(int(start) if start else max(0, size - int(last)))
            part = file.read(int(last) + 1 - int(start) if start else -1)
            _note(1, len(part), 0)
            return part, size

        return cast("BinaryIO", s3._Ranges(fetch))  # noqa: SLF001


def _counted(name: str) -> Callable[..., Any]:
    original = getattr(LocalArchive, name)

    def call(archive: CountedArchive, path: str, *content: bytes) -> object:
        answer = original(archive, path, *content)
        # S3 lists 1,000 names with each call.
        call_count = 1 + len(answer) // 1000 if isinstance(answer, list) else 1
        read_bytes = len(answer) if isinstance(answer, bytes) else 0
        _note(call_count, read_bytes, sum(map(len, content)))
        return answer

    return call


for _name in ("create", "write", "read", "remove", "discard", "list"):
    setattr(CountedArchive, _name, _counted(_name))


def _note(calls: int, read_bytes: int, written_bytes: int) -> None:
    with Path(os.environ[_CALLS]).open("a", encoding="ascii") as log:
        log.write(f"{calls} {read_bytes} {written_bytes}\n")


def main(arguments: Sequence[str]) -> int:
    """Start a session, run the verb, write what it took; return the verb's exit code."""
    result, days_later, *verb = arguments
    if hasattr(os, "sched_setaffinity"):  # On Linux; the processes that this one starts inherit it.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

    clock = time.time
    ahead_seconds = int(days_later) * 86_400
    time.time = lambda: clock() + ahead_seconds

    # Workers find the class in the module, not here. Only this process needs Spark, and not always.
    from benchmarks.verbs import CountedArchive  # noqa: PLC0415
    from dlq.cli.running import main as run_verb  # noqa: PLC0415

    is_counted = _CALLS in os.environ
    if is_counted:
        setattr(files, "LocalArchive", CountedArchive)  # noqa: B010 - not in its interface
    if verb[0] not in _WITHOUT_SPARK:
        from spark_reprocess.session import get_session  # noqa: PLC0415

        get_session()

    began = time.perf_counter()
    exit_code = run_verb(verb)
    took = {"seconds": time.perf_counter() - began}
    if is_counted:
        status = Path("/proc/self/status").read_text("ascii")
        took["peak_mb"] = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
        took["processor_seconds"] = sum(_processor_seconds(os.getpid()))

    Path(result).write_text(json.dumps(took), "utf-8")
    return exit_code


def _processor_seconds(process: int) -> Iterator[float]:
    """Yield the processor time of a process, and of each that it started."""
    stat = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    yield sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text("ascii").split():
            yield from _processor_seconds(int(child))


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
