"""That work goes on: a live line on a terminal, a plain line now and then in a pipe."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from spark_reprocess.errors import JobError
from spark_reprocess.figures import duration

_INTERVAL_SECONDS = 1.0
_LINES_APART_SECONDS = 10.0


class Progress(Protocol):
    """Shows that work goes on, for as long as its context lasts."""

    def __call__(self, label: str, status: Callable[[], str]) -> AbstractContextManager[None]:
        """Show *label* and, now and then, what *status* answers."""


@contextmanager
def silent(label: str, status: Callable[[], str]) -> Iterator[None]:  # noqa: ARG001 - a Progress
    """Show nothing."""
    yield


@contextmanager
def on_terminal(label: str, status: Callable[[], str]) -> Iterator[None]:
    """Rewrite one line of standard error every second; wiped in the end."""

    def rewrite(line: str) -> None:
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    try:
        with _repeated(_INTERVAL_SECONDS, label, status, rewrite):
            yield
    finally:
        rewrite("")


@contextmanager
def in_lines(label: str, status: Callable[[], str]) -> Iterator[None]:
    """Write a line to standard error every ten seconds; what is quicker says nothing."""

    def write(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    with _repeated(_LINES_APART_SECONDS, label, status, write):
        yield


def how_far(done: int, total: int | None, seconds: float) -> str:
    """Say how far work has come: done, of how many, how fast, and how long the rest will take.

    *total* is None where nobody knows it, and otherwise may be wrong.
    """
    parts = [f"{done:,}" if total is None else f"{done:,} of about {max(done, total):,}"]
    if done and seconds > 0:
        rate = done / seconds
        parts.append(f"{rate:,.0f}/s")
        if total is not None and total > done:
            parts.append(f"about {duration((total - done) / rate)} left")
    return ", ".join(parts)


@contextmanager
def _repeated(
    interval_seconds: float,
    label: str,
    status: Callable[[], str],
    show: Callable[[str], object],
) -> Iterator[None]:
    done = threading.Event()

    def repeat() -> None:
        started = time.monotonic()
        while not done.wait(interval_seconds):
            text = f"{label}: {duration(time.monotonic() - started)}"
            # The line is a courtesy: an archive that cannot be listed now must not end the work.
            with suppress(JobError, OSError):
                text = ", ".join(filter(None, (text, status())))
            show(text)

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
