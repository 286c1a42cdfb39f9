"""Ctrl-C and SIGTERM during sends: they stop the tasks, after their open calls."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asking_to_stop(stop: Callable[[], object]) -> Iterator[None]:
    """Call *stop* at the first SIGINT or SIGTERM in the block; later ones have their former effect.

    Only the main thread receives signals: in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    with ExitStack() as former:
        for number in _SIGNALS:
            former.callback(signal.signal, number, signal.getsignal(number))

        def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
            former.close()
            stop()

        # A signal may come at once, and needs all of the above.
        for number in _SIGNALS:
            signal.signal(number, ask)
        yield
