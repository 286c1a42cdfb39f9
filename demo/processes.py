"""Ends a process and everything that it started."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ORPHANS_SECONDS = 2.0


def end_tree(process: "subprocess.Popen[bytes]", grace_seconds: float) -> None:
    """Ask *process* to end, insist after *grace_seconds*, and see that its children end too.

    They do so by themselves when their parent is gone; where there is no ``/proc`` to look for
    them, that has to do.
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
    """State, parent and so on: what follows the name, which stands in brackets."""
    return (folder / "stat").read_text().rsplit(")", 1)[1].split()
