"""The archive's files. Only this adapter reads and writes them.

Two promises hold:

* A file is durable when ``write`` or ``create`` returns: it survives a crash of the machine.
* Of several callers of ``create`` exactly one wins.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dlq.archive.storage.local import LocalArchive
from dlq.archive.storage.memory import MemoryArchive
from dlq.archive.storage.s3 import S3Archive
from dlq.errors import ArchiveError, InputError
from dlq.figures import duration, second

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

MESSAGES = "messages"
"""The folder of the messages, below the archive's root."""

COMMANDS = "commands"
"""The folder of the commands that runs of AWS Glue have not read yet."""

_ID_TIME = re.compile(r"(2[0-9]{7}T[0-9]{6})Z-([0-9a-f]{5})")
_FORMAT_FILE = "format"
_FORMAT = b"1\n"

CLOCK_SECONDS = 60.0
"""A smaller difference of two clocks is normal."""

NEW_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6,11}")
"""The format of ``new_id``."""


def new_id(now_seconds: float, after: Iterable[str] = ()) -> str:
    """Make an id for a drain, a report or a run: sorts by time, unique, safe in a path.

    Behind the second are five hex digits of its microseconds, then six random ones. It sorts after
    every id in the paths *after*: the clock of another machine may be ahead of this one's.
    """
    time = max([datetime.fromtimestamp(now_seconds, UTC), *_times_after(after)])
    return f"{time:%Y%m%dT%H%M%SZ}-{time.microsecond:05x}{secrets.token_hex(3)}"


def _times_after(paths: Iterable[str]) -> Iterator[datetime]:
    """Yield the first moment after each id in these paths."""
    for until_second, microseconds in _ID_TIME.findall("\n".join(paths)):
        # Digits that are not a time are not an id.
        with suppress(ValueError):
            time = datetime.strptime(f"{until_second}+0000", "%Y%m%dT%H%M%S%z")
            yield time + timedelta(microseconds=int(microseconds, 16) + 1)


def clock_note(now_seconds: float, paths: Iterable[str]) -> str:
    """Return a sentence if this machine's clock is behind an id in these paths, else an empty text.

    Less than ``CLOCK_SECONDS`` does not count.
    """
    times = list(_times_after(paths))
    if not times:
        return ""
    newest = max(times)
    behind_seconds = newest.timestamp() - now_seconds
    if behind_seconds < CLOCK_SECONDS:
        return ""
    return (
        f"the clock of this machine is {duration(behind_seconds)} behind an id of the archive, of "
        f"{second(newest)} UTC: this clock is behind, or another one was ahead. Times in reports "
        "and answers may be wrong; what is sent does not depend on them"
    )


Archive = LocalArchive | S3Archive | MemoryArchive
"""Files by their path below one root. ``LocalArchive`` documents the contract of each method."""


def open_archive(location: str, *, creates: bool = False) -> Archive:
    """Return the archive at *location* after a check of its format, the content of ``format``.

    The first drain writes that file, see ``begin_archive``; *creates* does it here. An archive that
    has messages and no such file is refused: the file was removed, or the folder is not an
    archive.

    Raises:
        InputError: the archive has another format; or as for ``open_folder``.
    """
    archive = open_folder(location)
    if is_begun(archive) or archive.list(MESSAGES):
        _require_format(archive)
    elif creates:
        begin_archive(archive)
    return archive


def begin_archive(archive: Archive) -> None:
    """Write the file ``format`` if there is none; a drain does this before it receives.

    Raises:
        InputError: the archive has another format.
    """
    archive.create(_FORMAT_FILE, _FORMAT)
    _require_format(archive)


def _require_format(archive: Archive) -> None:
    content = archive.read(_FORMAT_FILE)
    if content != _FORMAT:
        actual = "no file" if content is None else repr(content[:20].decode(errors="replace"))
        raise InputError(
            f"archive {archive.root}: this program reads archives whose file {_FORMAT_FILE!r} says "
            f"{_FORMAT.decode().strip()}, and this one has {actual}"
        )


def is_begun(archive: Archive) -> bool:
    """Return whether a drain has begun an archive here; if not, the location may be a mistake."""
    return archive.read(_FORMAT_FILE) is not None


def open_folder(location: str) -> Archive:
    """Return the files at *location*: a folder on local disk, or a prefix of an S3 bucket.

    A bucket must exist already, a folder need not.

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
class ArchiveProof:
    """A file of the driver that proves to a task that both see the same archive. Picklable.

    A task that wrote into a folder of its own machine and then deleted from the queue would lose
    messages. So the driver writes a file that no other archive has, and each task reads it before
    it does anything else.
    """

    path: str
    content: bytes

    def check(self, archive: Archive) -> None:
        """Raise ArchiveError if a task sees another archive than the driver.

        The task must not receive, claim or delete anything then.
        """
        if archive.read(self.path) != self.content:
            raise ArchiveError(
                f"archive {archive.root}: an executor does not see the file {self.path} that the "
                "driver wrote there. The driver and all executors must share the archive: give "
                "s3://BUCKET/PREFIX, or a folder on a file system that every machine has mounted"
            )


def read_text(location: str) -> str:
    """Return the text of one file. It may be at any location of an archive, also outside of one.

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
