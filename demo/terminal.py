"""Keeps the viewer's terminal for the demo: everything else that prints goes to a file.

The replay function prints its metrics, the JVM its warnings; neither asks where to.
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
    """Send file descriptors 1 and 2 to *raw_log*, and what Python prints to *python_log*.

    Yields:
        The real standard output, for the one who may write to it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2), sys.stdout, sys.stderr
    # sys.stdout knows what the terminal can show.
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
        # Whoever read the pipe has left; that is no reason to leave anything else behind.
        with suppress(BrokenPipeError):
            out.close()


class LinesOfThread(io.TextIOBase):
    """A ``sys.stdout`` that gives one thread's lines to *take*, and all other text to *rest*."""

    def __init__(self, take: Callable[[str], object], rest: TextIO) -> None:
        self._thread = threading.get_ident()
        self._take = take
        self._rest = rest
        self._open_line = ""

    def write(self, text: str) -> int:
        """Take or pass on *text*; a line is taken when it is complete."""
        if threading.get_ident() != self._thread:
            return self._rest.write(text)
        *lines, self._open_line = (self._open_line + text).split("\n")
        for line in lines:
            self._take(line)
        return len(text)

    def flush(self) -> None:
        """Flush what was passed on."""
        self._rest.flush()


@contextmanager
def lines_to(take: Callable[[str], object]) -> Iterator[None]:
    """Give what this thread prints, to either stream, to *take*, line by line."""
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
    """Make SIGTERM raise KeyboardInterrupt as SIGINT does, so that both end the same way."""
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
    """Let nothing disturb the cleaning up; ``interruptible`` puts things back."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
