"""The archive's files: the one adapter that reads and writes them.

Two promises carry everything else. What ``write`` and ``create`` return from is durable: it
survives a crash of the machine. And ``create`` lets exactly one of several callers win.
"""

from pathlib import Path
from typing import Protocol

from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.errors import InputError


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
