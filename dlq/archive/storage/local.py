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

from dlq.errors import ArchiveError

_TEMPORARY = ".writing-"
_DEAD_AFTER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class LocalArchive:
    """Files by their path below a folder, ``a/b/c``, of a file system that knows hard links.

    ``S3Archive`` and ``MemoryArchive`` have the same methods. They raise ArchiveError, except those
    that never raise. No reader sees a part of a file. It is also an ArchiveError if S3 does not
    answer whether it wrote a file. This class and ``S3Archive`` are picklable, for tasks.

    Attributes:
        root: the folder's absolute path.
    """

    root: str

    def check_writable(self) -> None:
        """Check that files can be written, by writing one. Call it before the first receive."""
        with _explained(self.root, "cannot be written"):
            _write_temporary(Path(self.root), b"").unlink()

    def create(self, path: str, content: bytes) -> bool:
        """Write a file durably if there is none; of several callers exactly one gets True."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            temporary = _write_temporary(target.parent, content)
            try:
                # A link is created exclusively, and the file is complete.
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                temporary.unlink()
            _sync_folder(target.parent)
            return True

    def write(self, path: str, content: bytes) -> None:
        """Write a file durably, in place of an older one."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            temporary = _write_temporary(target.parent, content)
            temporary.replace(target)
            _sync_folder(target.parent)

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        """Write *new* durably if the file is still *old*; return whether it was.

        Of several callers at once that know the same *old*, exactly one gets True.
        """
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                # The kernel releases this lock when its process dies.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self.read(path) != old:
                    return False
                self.write(path, new)
            finally:
                os.close(descriptor)
            return True

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        with _explained(self.root, f"cannot read {path}"):
            try:
                return self._path(path).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, path: str) -> BinaryIO | None:
        """Open a file to read parts of it: only these are transferred. None where there is no file.

        On S3 a read raises FileNotFoundError if the file was removed meanwhile.
        """
        with _explained(self.root, f"cannot read {path}"):
            try:
                return self._path(path).open("rb")
            except FileNotFoundError:
                return None

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """Remove a file with all versions that the storage keeps of it. Safe to repeat.

        With *keeps_current* only old versions are removed, and the mark of a deletion.
        """
        target = self._path(path)
        with _explained(self.root, f"cannot remove {path}"):
            if target.exists() and not keeps_current:
                target.unlink(missing_ok=True)
                _sync_folder(target.parent)

    def outdated(self, folder: str) -> "list[str]":  # noqa: ARG002 - there are none
        """Return the paths below *folder* of which the storage keeps versions that are not current.

        Every version of a deleted file is not current.
        """
        return []

    def outdated_contents(self, path: str) -> Iterator[bytes]:  # noqa: ARG002 - as above
        """Read the versions of a file that are not current, one after the other."""
        return iter(())

    def discard(self, path: str) -> None:
        """Try to remove a file. Older versions of it may stay. Never raises."""
        with suppress(OSError):
            self._path(path).unlink()

    def sweep(self, folder: str) -> None:
        """Remove the incomplete files below *folder* that killed writers left.

        One that is younger than a minute is an ArchiveError: its writer may be alive.
        """
        with _explained(self.root, f"cannot sweep {folder}"):
            for file in sorted(self._path(folder).rglob(f"{_TEMPORARY}*")):
                with suppress(FileNotFoundError):
                    age_seconds = time.time() - file.stat().st_mtime
                    if age_seconds < _DEAD_AFTER_SECONDS:
                        raise ArchiveError(
                            f"archive {self.root}: {file.relative_to(self.root)} is being "
                            "written, or its writer was killed a moment ago; try again in a minute"
                        )
                    file.unlink()
                    _sync_folder(file.parent)

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below *folder*, sorted; none where it does not exist.

        Files whose names start with a dot are left out: they are incomplete.
        """
        root = Path(self.root)
        paths = set[str]()
        for path in self._path(folder).rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                paths.add(path.relative_to(root).as_posix())
        return sorted(paths)

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
    """Write a synced file under a hidden name, which Spark and ``list`` ignore."""
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
    """Raise an OSError of the block as an ArchiveError that begins with *what*."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(
            f"archive {root}: {what}: {error.strerror or error}; "
            "give a folder that this user may write, with room left"
        ) from error
