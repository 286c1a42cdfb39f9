"""Something that a thread does again and again while a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(act: Callable[[], object], every_seconds: float, name: str) -> Iterator[None]:
    """Call *act* every so many seconds, first after that time, in a thread called *name*.

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
