"""``show --out``: the messages of one group of a plan as JSON lines, content included.

Reads one file of messages at a time, without Spark; see ``member_rows``.
"""

import base64
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, from_row
from dlq.archive.messages.message_index import member_rows, read_members
from dlq.archive.storage.files import open_archive
from dlq.errors import InputError
from dlq.figures import in_utc
from dlq.inspect.show import ShowOptions
from dlq.plan.plan_file import find_plan
from dlq.progress import Progress, silent

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """Counts of one group's messages.

    Attributes:
        planned: messages that the plan froze in the group.
        written: messages that were written.
        missing: messages that should have been written, and are not in the archive any more.
    """

    group_id: str
    planned: int
    written: int
    missing: int


def export(options: ShowOptions, out: str, *, progress: Progress = silent) -> ExportSummary:
    """Write the messages of one group of a plan, as they were archived, one JSON object per line.

    *out* is a file to create, or ``STANDARD_OUTPUT``. Neither masks nor edits of the plan apply.
    What runs did with a message does not matter.

    Raises:
        InputError: the plan has faults or is of another archive, or has no such group, or the file
            exists or cannot be written.
        ArchiveError: the archive cannot be read. A file that was begun is removed.
    """
    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan()
    group_id = plan.full_id(options.message_id)

    written = 0
    with opened(out) as lines, progress("exporting", lambda: f"{written:,} messages"):
        members = read_members(archive, plan.plan_id, plan.snapshot.table_sha256, group_id)
        wanted = members[: options.limit]
        for row in member_rows(archive, wanted):
            lines.write(f"{json_line(row, group_id)}\n")
            written += 1

    return ExportSummary(
        group_id=group_id,
        planned=len(members),
        written=written,
        missing=len(wanted) - written,
    )


def json_line(row: Mapping[str, Any], group_id: str) -> str:
    """Format one row of the archive, as Arrow represents it, as a JSON object without line breaks.

    The keys are ``group_id`` and the columns of the archive, always all of them. Attributes have
    the shape of SQS's API, with bytes in base64. Times are ISO 8601 in UTC. All characters are
    ASCII: JSON's escapes replace others, so that a terminal acts on none of them.
    """
    message: dict[str, Any] = {"group_id": group_id}
    for column in ARROW_SCHEMA.names:
        message[column] = row[column]

    attributes = from_row(row).attributes
    message["attributes"] = {name: value.to_api() for name, value in attributes.items()}
    return json.dumps(message, default=_as_json)


def _as_json(value: datetime | bytes) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return in_utc(value).isoformat(timespec="milliseconds")


@contextmanager
def opened(out: str) -> Iterator[TextIO]:
    """Open *out*, for its owner alone; remove a file that was begun if the block fails."""
    if out == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return

    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}; nothing was written") from error

    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
    except BaseException as error:
        Path(out).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"--out {out}: {error.strerror or error}; it was removed") from error
        raise
