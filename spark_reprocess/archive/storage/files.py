"""The archive's files: the one adapter that reads and writes them.

It promises two things. A file is durable when ``write`` or ``create`` returns: it survives a crash
of the machine. And of several callers of ``create`` exactly one wins.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.archive.storage.s3 import S3Archive
from spark_reprocess.errors import ArchiveError, InputError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

MESSAGES = "messages"
"""The folder of the messages, below the archive's root."""

COMMANDS = "commands"
"""The folder of the commands that runs of AWS Glue have not read yet."""

_ID_TIME = re.compile(r"(2[0-9]{7}T[0-9]{6})Z-([0-9a-f]{5})")
_FORMAT_FILE = "format"
_FORMAT = b"1\n"

NEW_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6,11}")
"""What ``new_id`` makes."""


def new_id(now_seconds: float, after: Iterable[str] = ()) -> str:
    """Make an id for a drain, a report or a run: sorts by time, unique, safe in a path.

    Behind the second are five hex digits of its microseconds, then six random ones. It sorts after
    every id in the paths *after*: the clock of another machine may be ahead of this one's.
    """
    time = max([datetime.fromtimestamp(now_seconds, UTC), *_times_after(after)])
    return f"{time:%Y%m%dT%H%M%SZ}-{time.microsecond:05x}{secrets.token_hex(3)}"


def _times_after(paths: Iterable[str]) -> Iterator[datetime]:
    """Yield the first moment after each id in these paths."""
    for second, microseconds in _ID_TIME.findall("\n".join(paths)):
        # Digits that are no time are no id.
        with suppress(ValueError):
            time = datetime.strptime(f"{second}+0000", "%Y%m%dT%H%M%S%z")
            yield time + timedelta(microseconds=int(microseconds, 16) + 1)


class Archive(Protocol):
    """Files by their path below one root, ``a/b/c``. Picklable: tasks carry it along.

    Methods raise ArchiveError unless they say that they never raise. No reader sees a part of a
    file. Where S3 does not say whether it wrote a file, that is an ArchiveError, too.
    """

    def __hash__(self) -> int: ...

    @property
    def root(self) -> str:
        """The folder or prefix below which everything lies."""

    def check_writable(self) -> None:
        """Prove that files can be written, by writing one. Nothing is received before that."""

    def create(self, path: str, content: bytes) -> bool:
        """Write a file durably if there is none; of several callers exactly one gets True."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file durably, in place of an older one."""

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        """Write *new* durably if the file is still *old*; return whether it was.

        Of several callers at once that know the same *old*, exactly one gets True.
        """

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""

    def open(self, path: str) -> BinaryIO | None:
        """Open a file to read parts of it: no more is transferred. None where there is none.

        A read raises FileNotFoundError if the file is gone since.
        """

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        """Remove a file with all versions that the storage keeps of it. Safe to repeat.

        With *keeps_current* only versions that are not current go, and the mark of a deletion.
        """

    def outdated(self, folder: str) -> "list[str]":
        """Return the paths below *folder* of which the storage keeps versions that are not current.

        Every version of a deleted file is not current.
        """

    def outdated_contents(self, path: str) -> Iterator[bytes]:
        """Read the versions of a file that are not current, one after the other."""

    def discard(self, path: str) -> None:
        """Remove a file that need not be removed. Older versions of it may stay. Never raises."""

    def sweep(self, folder: str) -> None:
        """Remove the half-written files below *folder* that killed writers left.

        One that is younger than a minute is an ArchiveError: its writer may be alive.
        """

    def list(self, folder: str) -> "list[str]":
        """Return the paths of all files below *folder*, sorted; none where it does not exist.

        Files whose names start with a dot are left out: they are not finished.
        """


def open_archive(location: str, *, creates: bool = False) -> Archive:
    """Return the archive at *location* after a check of its format, the content of ``format``.

    The first drain writes that file before it receives (*creates*). An archive that has messages
    and no such file is refused: somebody removed the file, or the folder is no archive.

    Raises:
        InputError: the archive has another format; or as for ``open_folder``.
    """
    archive = open_folder(location)
    content = archive.read(_FORMAT_FILE)
    if content is None and not archive.list(MESSAGES):
        if not creates:
            return archive
        archive.create(_FORMAT_FILE, _FORMAT)
        content = archive.read(_FORMAT_FILE)
    if content != _FORMAT:
        found = "no file" if content is None else repr(content[:20].decode(errors="replace"))
        raise InputError(
            f"archive {archive.root}: this program reads archives whose file {_FORMAT_FILE!r} says "
            f"{_FORMAT.decode().strip()}, and this one has {found}"
        )
    return archive


def is_begun(archive: Archive) -> bool:
    """Whether a drain has begun an archive here; otherwise the place may be a mistake."""
    return archive.read(_FORMAT_FILE) is not None


def open_folder(location: str) -> Archive:
    """Return the files at *location*: a folder on local disk, or a prefix of an S3 bucket.

    Only a bucket must exist already.

    Raises:
        InputError: it is a file, a malformed URL, a URL of another scheme, or names no bucket.
    """
    if location.startswith(("s3://", "s3a://")):
        return S3Archive.at(location)
    if _URL.match(location) and not location.startswith("file:///"):
        raise InputError(
            f"archive {location}: give a folder on local disk (./NAME for a name with a colon), "
            "file:///FOLDER or s3://BUCKET/PREFIX"
        )
    root = Path(location.removeprefix("file://")).expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"archive {location}: is a file; give a folder")
    return LocalArchive(str(root))


@dataclass(frozen=True, slots=True)
class Probe:
    """A file that the driver wrote, and that proves to a task that it sees the same archive.

    A task that wrote into a folder of its own machine and then deleted from the queue would lose
    messages. So the driver writes a file that no other archive has, and a task reads it back before
    it does anything. Picklable.
    """

    path: str
    content: bytes

    def check(self, archive: Archive) -> None:
        """Raise ArchiveError where a task sees another place than the driver's.

        Nothing may be received, claimed or deleted then.
        """
        if archive.read(self.path) != self.content:
            raise ArchiveError(
                f"archive {archive.root}: an executor does not see the file {self.path} that the "
                "driver wrote there. The driver and all executors must share the archive: give "
                "s3://BUCKET/PREFIX, or a folder on a file system that every machine has mounted"
            )


def read_text(location: str) -> str:
    """Return one file's text, from wherever an archive may be; it need not be in one.

    Raises:
        InputError: there is no such file, or it is no UTF-8 text.
    """
    folder, _, name = location.rpartition("/")
    try:
        if "://" in location:
            content = open_folder(folder).read(name)
            if content is None:
                raise InputError(f"{location}: No such file")
            return content.decode()
        return Path(location).read_bytes().decode()
    except OSError as error:
        raise InputError(f"{location}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{location}: is no UTF-8 text") from error
