"""An archive in the memory of this process, for what must leave no file behind."""

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class MemoryArchive:
    """Files by their path, gone with the process; threads may share it. See ``LocalArchive``.

    Attributes:
        root: its name, for errors.
    """

    root: str = "memory"
    _contents: dict[str, bytes] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check_writable(self) -> None:
        """Do nothing: memory can be written."""

    def create(self, path: str, content: bytes) -> bool:
        """Write a file if there is none; of several callers exactly one gets True."""
        with self._lock:
            is_new = path not in self._contents
            if is_new:
                self._contents[path] = content
            return is_new

    def write(self, path: str, content: bytes) -> None:
        """Write a file, in place of an older one."""
        with self._lock:
            self._contents[path] = content

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        """Write *new* if the file is still *old*; return whether it was."""
        with self._lock:
            is_same = self._contents.get(path) == old
            if is_same:
                self._contents[path] = new
            return is_same

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        with self._lock:
            return self._contents.get(path)

    def open(self, path: str) -> BinaryIO | None:
        """Open a file to read it; None where there is none."""
        content = self.read(path)
        return None if content is None else io.BytesIO(content)

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """Remove a file; there are no old versions of it."""
        if not keeps_current:
            self.discard(path)

    def outdated(self, folder: str) -> "list[str]":  # noqa: ARG002 - there are none
        """Return no path: there are no old versions."""
        return []

    def outdated_contents(self, path: str) -> Iterator[bytes]:  # noqa: ARG002 - as above
        """Read no old version: there is none."""
        return iter(())

    def discard(self, path: str) -> None:
        """Remove a file. Never raises."""
        with self._lock:
            self._contents.pop(path, None)

    def sweep(self, folder: str) -> None:
        """Do nothing: no writer leaves an incomplete file."""

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below *folder*, sorted."""
        prefix = f"{folder}/" if folder else ""
        with self._lock:
            return sorted(path for path in self._contents if path.startswith(prefix))
