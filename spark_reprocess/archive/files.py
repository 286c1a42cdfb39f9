"""The archive's files: the one adapter that reads and writes them.

Two promises carry everything else. What ``write`` and ``create`` return from is durable: it
survives a crash of the machine. And ``create`` lets exactly one of several callers win.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spark_reprocess.errors import ArchiveError, InputError


class Archive(Protocol):
    """Files by their path below one root, ``a/b/c``. Picklable: tasks carry it along."""

    @property
    def root(self) -> str:
        """The folder or prefix below which everything lies."""

    def check_writable(self) -> None:
        """Prove that files can be written, by writing one.

        Raises:
            ArchiveError: they cannot; nothing should be received before they can.
        """

    def create(self, path: str, content: bytes) -> bool:
        """Write a file durably if there is none; return whether this call did.

        Of several callers at once exactly one gets True, and no reader ever sees a part.

        Raises:
            ArchiveError: it cannot be written.
        """

    def write(self, path: str, content: bytes) -> None:
        """Write a file durably, in place of an older one; no reader ever sees a part.

        Raises:
            ArchiveError: it cannot be written.
        """

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none.

        Raises:
            ArchiveError: it is there and cannot be read.
        """

    def list(self, folder: str) -> list[str]:
        """Return the paths of all files below *folder*, sorted; none where it does not exist."""

    def spark_path(self, path: str) -> str:
        """Spell *path* the way Spark's readers want it."""


def open_archive(location: str) -> Archive:
    """Return the archive at *location*, a folder on local disk; it need not exist yet.

    Raises:
        InputError: another kind of place, or a file.
    """
    if "://" in location and not location.startswith("file://"):
        scheme = location.split("://", 1)[0]
        raise InputError(
            f"archive {location}: {scheme}:// is not supported in this version; "
            "give a folder on local disk"
        )
    root = Path(location.removeprefix("file://")).expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"archive {location}: is a file; give a folder")
    return LocalArchive(str(root))


@dataclass(frozen=True, slots=True)
class LocalArchive:
    """An archive in a folder of a local file system that knows hard links.

    Attributes:
        root: the folder's absolute path.
    """

    root: str

    def check_writable(self) -> None:
        """See ``Archive``. Leaves nothing behind but the folder itself."""
        with _explained(self.root, "cannot be written"):
            _make_folders(Path(self.root))
            probe = _write_temporary(Path(self.root), b"")
            probe.unlink()

    def create(self, path: str, content: bytes) -> bool:
        """See ``Archive``. A link to a finished file is what ``O_EXCL`` is, but never half full."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            _make_folders(target.parent)
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
        """See ``Archive``."""
        target = self._path(path)
        with _explained(self.root, f"cannot write {path}"):
            _make_folders(target.parent)
            temporary = _write_temporary(target.parent, content)
            temporary.replace(target)
            _sync_folder(target.parent)

    def read(self, path: str) -> bytes | None:
        """See ``Archive``."""
        with _explained(self.root, f"cannot read {path}"):
            try:
                return self._path(path).read_bytes()
            except FileNotFoundError:
                return None

    def list(self, folder: str) -> list[str]:
        """See ``Archive``. Files in the making have hidden names and are left out."""
        root = Path(self.root)
        files = (found for found in self._path(folder).rglob("*") if found.is_file())
        return sorted(
            found.relative_to(root).as_posix() for found in files if not found.name.startswith(".")
        )

    def spark_path(self, path: str) -> str:
        """See ``Archive``. Spark takes paths for glob patterns, so their signs are escaped."""
        return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in str(self._path(path)))

    def _path(self, path: str) -> Path:
        return Path(self.root, path)


def _make_folders(folder: Path) -> None:
    """Create *folder* and its parents; each new name is durable in the folder above it."""
    if folder.is_dir():
        return
    if folder.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    _make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _write_temporary(folder: Path, content: bytes) -> Path:
    """Write a synced file under a hidden name, which Spark and ``list`` pass over."""
    descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=folder)
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
