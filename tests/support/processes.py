"""The processes of one program, wherever they are in the tree, as Linux tells in /proc.

And the death of a program that runs in the process of its test.
"""

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

_NAME = "TEST_FAMILY"


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait as long as it takes: the time of the whole test is limited."""
    while not is_so():
        time.sleep(0.05)


class Died(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def die(*_: object) -> NoReturn:
    raise Died


@dataclass(frozen=True)
class Process:
    """One process, with its arguments."""

    pid: int
    parent: int
    command: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A program and all that it starts, directly or not: they inherit a variable."""

    tag: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        """The environment to start the program with."""
        return {_NAME: self.tag}

    def alive(self) -> list[Process]:
        """Return the processes that live; one that has ended and was not waited for does not."""
        mark = f"{_NAME}={self.tag}".encode()
        processes = [_read(folder, mark) for folder in Path("/proc").glob("[0-9]*")]
        return [process for process in processes if process]

    def kill(self) -> None:
        """End every process, also those that others start meanwhile."""
        while alive := self.alive():
            send_signal(signal.SIGKILL, alive)
            time.sleep(0.01)


def send_signal(number: signal.Signals, processes: Iterable[Process]) -> None:
    """Signal each; who is gone already does not mind."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _read(folder: Path, mark: bytes) -> Process | None:
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        if mark in (folder / "environ").read_bytes().split(b"\0"):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            return None if state == "Z" else Process(int(folder.name), int(parent), tuple(command))
    return None
