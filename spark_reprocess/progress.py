"""A live line on the terminal while Spark works; nothing where nobody watches."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from spark_reprocess.errors import JobError

_INTERVAL_SECONDS = 1.0


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
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(label, status, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _show(label: str, status: Callable[[], str], done: threading.Event) -> None:
    started = time.monotonic()
    while not done.wait(_INTERVAL_SECONDS):
        text = f"{label}: {time.monotonic() - started:.0f} s"
        # The line is a courtesy: a folder that cannot be listed just now must not end the work.
        with suppress(JobError, OSError):
            text = ", ".join(filter(None, (text, status())))
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
