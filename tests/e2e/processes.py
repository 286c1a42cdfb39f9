"""The processes of one program, wherever they are in the tree, as Linux tells in /proc."""

import os
import signal
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_NAME = "TEST_FAMILY"


@dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        command: its arguments.
    """

    pid: int
    parent: int
    command: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A program and all that it starts, directly or not: they inherit a variable."""

    tag: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        """What to start the program with."""
        return {_NAME: self.tag}

    def alive(self) -> list[Process]:
        """Who lives; what has ended and was not waited for does not."""
        mark = f"{_NAME}={self.tag}".encode()
        return [one for folder in Path("/proc").iterdir() if (one := _read(folder, mark))]


def send_signal(number: signal.Signals, processes: Iterable[Process]) -> None:
    """Signal each; who is gone already does not mind."""
    for one in processes:
        with suppress(ProcessLookupError):
            os.kill(one.pid, number)


def _read(folder: Path, mark: bytes) -> Process | None:
    if not folder.name.isdecimal():
        return None
    try:
        if mark not in folder.joinpath("environ").read_bytes().split(b"\0"):
            return None
        state, parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
        command = folder.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return None if state == "Z" else Process(int(folder.name), int(parent), tuple(command))
