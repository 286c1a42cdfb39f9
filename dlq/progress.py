"""Shows how far work is: a live line on a terminal, plain lines in a pipe, JSON lines in a file."""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from dlq import figures
from dlq.errors import JobError

_INTERVAL_SECONDS = 1.0
_RATE_SECONDS = 30.0

Progress = Callable[[str, Callable[[], str]], AbstractContextManager[None]]
"""Shows a label and, at intervals, what the function returns, while its context is active."""


def silent(_label: str, _status: Callable[[], str]) -> AbstractContextManager[None]:
    """Show nothing."""
    return nullcontext()


def on_stderr(before: str, after: str, every_seconds: float) -> Progress:
    """Return a Progress that writes lines to standard error, and in the end *before* once more."""

    @contextmanager
    def writing(label: str, status: Callable[[], str]) -> Iterator[None]:
        def write(line: str) -> None:
            # Optional: work goes on where nobody reads this.
            with suppress(OSError):
                sys.stderr.write(line)
                sys.stderr.flush()

        def show(seconds: float, text: str) -> None:
            line = f"{label}: {figures.duration(seconds)}"
            if text:
                line += f", {text}"
            write(f"{before}{line}{after}")

        try:
            with _repeated(every_seconds, status, show):
                yield
        finally:
            write(before)

    return writing


on_terminal = on_stderr("\r\033[K", "", _INTERVAL_SECONDS)
"""Rewrites one line every second, and erases it in the end."""

in_lines = on_stderr("", "\n", 10.0)
"""Writes a line every ten seconds; none for shorter work."""


def in_file(path: Path) -> Progress:
    """Return a Progress that appends a JSON object to a file at once, and then every second.

    Each has ``label``, ``seconds`` since its work began, and ``text``, what *status* returned.
    """

    @contextmanager
    def appending(label: str, status: Callable[[], str]) -> Iterator[None]:
        def show(seconds: float, text: str) -> None:
            line = json.dumps({"label": label, "seconds": round(seconds, 1), "text": text})
            # Optional: work goes on while the disk of the file is full.
            with suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

        show(0, "")
        with _repeated(_INTERVAL_SECONDS, status, show):
            yield

    return appending


class ProgressLine:
    """Formats progress: ``200 of 1,000 messages, 20/s, 40 s left``.

    The rate is that of the last 30 s.
    """

    def __init__(self, total: int, now_seconds: Callable[[], float] = time.monotonic) -> None:
        """Start now, with *total* messages to do, or more if that is an estimate."""
        self._total = total
        self._now_seconds = now_seconds
        self._past = deque([(now_seconds(), 0)])

    def text(self, done: int) -> str:
        """Return the line for *done* messages."""
        now = self._now_seconds()
        while len(self._past) > 1 and self._past[1][0] <= now - _RATE_SECONDS:
            self._past.popleft()
        since, done_before = self._past[0]
        self._past.append((now, done))
        rate = (done - done_before) / (now - since) if now > since else 0.0

        total = max(self._total, done)
        parts = [f"{done:,} of {total:,} messages", f"{figures.quantity(rate)}/s"]
        if rate and done < total:
            parts.append(f"{figures.duration((total - done) / rate)} left")
        return ", ".join(parts)


def _repeated(
    interval_seconds: float, status: Callable[[], str], show: Callable[[float, str], object]
) -> AbstractContextManager[None]:
    """Pass to *show*, at intervals, the seconds since the start and what *status* returns."""
    started = time.monotonic()

    def show_now() -> None:
        text = ""
        # Optional: an archive that cannot be listed now must not end the work.
        with suppress(JobError, OSError):
            text = status()
        show(time.monotonic() - started, text)

    return repeating(show_now, interval_seconds, "progress")


@contextmanager
def repeating(act: Callable[[], object], every_seconds: float, name: str) -> Iterator[None]:
    """Call *act* at intervals, first after one of them, in a thread called *name*.

    When the block has ended, no call is in progress, and none will begin. *act* must not raise: its
    thread would end.
    """
    has_ended = threading.Event()

    def repeat() -> None:
        while not has_ended.wait(every_seconds):
            act()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
