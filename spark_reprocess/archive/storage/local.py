"""An archive in a folder on local disk."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from spark_reprocess.errors import ArchiveError

_TEMPORARY = ".writing-"
_DEAD_AFTER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class LocalArchive:
    """An archive in a folder of a local file system that knows hard links.

    Attributes:
        root: the folder's absolute path.
    """

    root: str

    def check_writable(self) -> None:
        """Leaves nothing behind but the folder itself."""
        with _explained(self.root, "cannot be written"):
            _write_temporary(Path(self.root), b"").unlink()

    def create(self, path: str, content: bytes) -> bool:
        """A link is created exclusively, and to a finished file."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            temporary = _write_temporary(target.parent, content)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                temporary.unlink()
            _sync_folder(target.parent)
            return True

    def write(self, path: str, content: bytes) -> None:
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            temporary = _write_temporary(target.parent, content)
            temporary.replace(target)
            _sync_folder(target.parent)

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        """The kernel releases the folder's lock when a holder dies."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self.read(path) != old:
                    return False
                self.write(path, new)
            finally:
                os.close(descriptor)
            return True

    def read(self, path: str) -> bytes | None:
        with _explained(self.root, f"cannot read {path}"):
            try:
                return self._path(path).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, path: str) -> BinaryIO | None:
        """A file that is removed meanwhile can still be read."""
        with _explained(self.root, f"cannot read {path}"):
            try:
                return self._path(path).open("rb")
            except FileNotFoundError:
                return None

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """A disk keeps one version of a file."""
        target = self._path(path)
        with _explained(self.root, f"cannot remove {path}"):
            if target.exists() and not keeps_current:
                target.unlink(missing_ok=True)
                _sync_folder(target.parent)

    def outdated(self, folder: str) -> "list[str]":  # noqa: ARG002 - there are none
        return []

    def outdated_contents(self, path: str) -> Iterator[bytes]:  # noqa: ARG002 - as above
        return iter(())

    def discard(self, path: str) -> None:
        with suppress(OSError):
            self._path(path).unlink()

    def sweep(self, folder: str) -> None:
        with _explained(self.root, f"cannot sweep {folder}"):
            for found in sorted(self._path(folder).rglob(f"{_TEMPORARY}*")):
                with suppress(FileNotFoundError):
                    if time.time() - found.stat().st_mtime < _DEAD_AFTER_SECONDS:
                        raise ArchiveError(
                            f"archive {self.root}: {found.relative_to(self.root)} is being "
                            "written, or its writer was killed a moment ago; try again in a minute"
                        )
                    found.unlink()
                    _sync_folder(found.parent)

    def list(self, folder: str) -> list[str]:
        root = Path(self.root)
        files = (found for found in self._path(folder).rglob("*") if found.is_file())
        return sorted(
            found.relative_to(root).as_posix() for found in files if not found.name.startswith(".")
        )

    def _path(self, path: str) -> Path:
        return Path(self.root, path)


def _make_folders(folder: Path) -> None:
    """Create *folder* and its parents; each new name is durable in the folder above it."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _write_temporary(folder: Path, content: bytes) -> Path:
    """Write a synced file under a hidden name, which Spark and ``list`` pass over."""
    _make_folders(folder)
    descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return Path(name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(root: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveError(
            f"archive {root}: {what}: {error.strerror or error}; "
            "give a folder that this user may write, with room left"
        ) from error
