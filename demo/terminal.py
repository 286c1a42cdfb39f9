"""Reserves the terminal for the demo: all other output goes to files.

The replay function prints its metrics, and the JVM its warnings.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO


@contextmanager
def viewer_only(raw_log: Path, python_log: Path) -> Iterator[TextIO]:
    """Redirect file descriptors 1 and 2 to *raw_log*, and Python's output to *python_log*.

    Yields:
        The real standard output.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2), sys.stdout, sys.stderr
    # The encoding of sys.stdout is what the terminal can show.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with (
        raw_log.open("a") as raw,
        python_log.open("a", buffering=1, encoding="utf-8", errors="replace") as log,
        _closing(
            os.fdopen(os.dup(1), "w", buffering=1, encoding=encoding, errors="replace")
        ) as out,
    ):
        os.dup2(raw.fileno(), 1)
        os.dup2(raw.fileno(), 2)
        sys.stdout = sys.stderr = log
        try:
            yield out
        finally:
            sys.stdout, sys.stderr = kept[2:]
            for descriptor, original in enumerate(kept[:2], start=1):
                os.dup2(original, descriptor)
                os.close(original)


@contextmanager
def _closing(out: TextIO) -> Iterator[TextIO]:
    try:
        yield out
    finally:
        # The reader closed the pipe. The cleanup must continue.
        with suppress(BrokenPipeError):
            out.close()


class LinesOfThread(io.TextIOBase):
    """A ``sys.stdout`` that passes the lines of one thread to *take*, all other text to *rest*."""

    def __init__(self, take: Callable[[str], object], rest: TextIO) -> None:
        self._thread = threading.get_ident()
        self._take = take
        self._rest = rest
        self._open_line = ""

    def write(self, text: str) -> int:
        """Write *text*. A line is passed to *take* when it is complete."""
        if threading.get_ident() != self._thread:
            return self._rest.write(text)
        *lines, self._open_line = (self._open_line + text).split("\n")
        for line in lines:
            self._take(line)
        return len(text)

    def flush(self) -> None:
        """Flush *rest*."""
        self._rest.flush()


@contextmanager
def lines_to(take: Callable[[str], object]) -> Iterator[None]:
    """Pass the output of this thread, on both streams, to *take*, line by line."""
    before = sys.stdout, sys.stderr
    lines = LinesOfThread(take, sys.stdout)
    sys.stdout = sys.stderr = lines
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        lines.write("\n" if lines._open_line else "")  # noqa: SLF001 - the same module


@contextmanager
def interruptible() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, as SIGINT does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_interrupts() -> None:
    """Ignore SIGINT and SIGTERM during the cleanup; ``interruptible`` restores them."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
