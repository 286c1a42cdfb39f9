"""Ctrl-C: the first asks work to come to its end in good order, the second ends it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = "interrupted"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asking_to_stop(stop: Callable[[str], object]) -> Iterator[None]:
    """Call *stop* at the first SIGINT or SIGTERM of the block; later ones mean what they did.

    Signals reach the main thread alone: anywhere else this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        restore()
        stop(INTERRUPTED)

    former = {number: signal.signal(number, ask) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    try:
        yield
    finally:
        restore()
