"""The codec of the archive's records: a frozen value becomes JSON, and is read back.

A field is a key with its name, a time is ISO 8601 with its zone, an enumeration its value. A
missing key without a default, an unknown key, and a value of another type show that the file was
changed. docs/archive.md describes every file.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from cattrs.errors import ForbiddenExtraKeysError
from cattrs.preconf.json import make_converter

from dlq.archive.storage.files import Archive
from dlq.errors import ArchiveError

DAMAGE = (ValueError, KeyError, TypeError, AttributeError)
"""Exceptions of a record whose file was changed."""

ADVICE = "restore it, do not delete it"

_Record = TypeVar("_Record")
_CONVERTER = make_converter(detailed_validation=False, forbid_extra_keys=True)


def _of_kind(value: Any, kind: type[Any]) -> Any:  # noqa: ANN401 - a value in a file
    # A text enumeration is a kind of text: it has no hook of its own.
    if issubclass(kind, Enum):
        return kind(value)
    # Without this check null would become the text "None".
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{kind.__name__}: {type(value).__name__}")
    return value


def _time(text: str, _: type[datetime]) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a zone")
    return time


for _kind in (str, int, float, bool):
    # One hook for each type: cattrs has its own for these, and tries them before any predicate.
    _CONVERTER.register_structure_hook(_kind, _of_kind)
_CONVERTER.register_structure_hook(datetime, _time)


def values_of(record: object) -> Any:  # noqa: ANN401 - JSON
    """Return the values of a record by name, in the types of JSON."""
    return _CONVERTER.unstructure(record)


def record_of(kind: type[_Record], values: object) -> _Record:
    """Make a record from its values by name. Raises one of ``DAMAGE``."""
    try:
        return _CONVERTER.structure(values, kind)
    except ForbiddenExtraKeysError as error:
        raise ValueError(str(error)) from error


def record_bytes(record: object) -> bytes:
    """Return the content of the file of a record."""
    return json.dumps(values_of(record), indent=1).encode()


def read_record(archive: Archive, path: str, kind: type[_Record]) -> _Record | None:
    """Read the record at *path*, None where there is none."""
    content = archive.read(path)
    if content is None:
        return None
    with damage_named(archive, path):
        return record_of(kind, json.loads(content))


def missing(archive: Archive, path: str) -> ArchiveError:
    """Return the error for a file that must exist: it was there, or another file names it."""
    return ArchiveError(
        f"archive {archive.root}: {path} is missing; restore it from a backup. The driver and all "
        "executors must share the archive"
    )


@contextmanager
def damage_named(
    archive: Archive,
    path: str,
    damage: tuple[type[Exception], ...] = DAMAGE,
    advice: str = ADVICE,
) -> Iterator[None]:
    """Raise an exception of the block as an ArchiveError with the path and advice.

    *damage* are the exceptions that show a damaged file; others pass unchanged.
    """
    try:
        yield
    except damage as error:
        raise ArchiveError(
            f"archive {archive.root}: {path} cannot be read ({type(error).__name__}); somebody "
            f"changed it: {advice}"
        ) from error
