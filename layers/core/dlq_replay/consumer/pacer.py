"""What calls the heartbeat when it is time: one daemon thread."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

Step = Callable[[], float]
"""Does what is due and returns after how many seconds it wants to be called again."""

_AFTER_BUG_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class Pacer(Protocol):
    """Calls a step again and again, each time after the seconds that it returned."""

    def start(self, step: Step) -> None:
        """Begin; the first call comes at once."""

    def wake(self) -> None:
        """Call the step now; something changed."""

    def stop(self) -> None:
        """Call it no more, and come back when a call in progress has ended."""


class ThreadPacer:
    """A daemon thread that also ends when the thread dies that started it.

    Its owner is whoever calls ``start``: should that thread end without calling ``stop``, the
    steps end too.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_woken = False
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start(self, step: Step) -> None:
        """Begin; the first call comes at once, in the new thread."""
        arguments = (step, threading.current_thread())
        thread = threading.Thread(
            target=self._run, args=arguments, name="sqs-heartbeat", daemon=True
        )
        thread.start()
        self._thread = thread

    def wake(self) -> None:
        """Call the step now."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop, and wait for a step in progress, unless this is the step's own thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, step: Step, owner: threading.Thread) -> None:
        while not self._is_stopped and owner.is_alive():
            self._wait(_guarded(step))

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or self._is_stopped, seconds)
            self._is_woken = False


def _guarded(step: Step) -> float:
    try:
        return step()
    except Exception:
        # Unseen, a dead thread would let every timeout run out.
        _logger.exception("the heartbeat failed; it goes on")
        return _AFTER_BUG_SECONDS
