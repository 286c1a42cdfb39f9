"""The verb ``export``: the messages of one group of a plan as JSON lines, content included.

Spark's tasks find, order and format the messages; the driver writes one partition after the other.
"""

import base64
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.attributes import MessageAttribute
from spark_reprocess.analysis.message_table import message_table
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, from_row
from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.frames import arrival_order, read_archive
from spark_reprocess.errors import InputError
from spark_reprocess.figures import in_utc
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.failures import explained

STANDARD_OUTPUT = "-"
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which messages to write, and where to.

    Attributes:
        archive: the archive.
        plan: path of plan.yaml, or the id of its report; None for that of the newest report.
        group: id of one of its groups.
        out: path of a file that must not exist; ``-`` for standard output.
        limit: write at most so many messages, the oldest; None for all.
    """

    archive: str
    plan: str | None
    group: str
    out: str = STANDARD_OUTPUT
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was written.

    Attributes:
        group_id: the group.
        planned: how many messages of the group the plan froze.
        written: how many messages were written.
        missing: how many of *planned* the archive does not hold any more; 0 where *limit* left it
            open.
        out: as in the options.
    """

    group_id: str
    planned: int
    written: int
    missing: int
    out: str


def export(
    spark: SparkSession, options: ExportOptions, *, progress: Progress = silent
) -> ExportSummary:
    """Write the messages of one group of a plan, as they were archived, one JSON object per line.

    Neither masks nor edits of the plan apply. What runs did with a message does not matter.

    Raises:
        InputError: the plan has faults or is of another archive, or has no such group, or the file
            exists or cannot be written.
        ArchiveError: the archive cannot be read. A file that was begun is removed.
    """
    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan()
    with opened(options.out) as out, progress("exporting", str), explained(None):
        table = message_table(spark, archive, plan)
        members = table.where(F.col("group_id") == options.group).select("message_id").persist()
        try:
            planned = members.count()
            if not planned:
                plan.index(options.group)
                raise InputError(f"group {options.group}: has no message")
            rows = read_archive(spark, archive, plan.snapshot.drain_ids)
            written = 0
            for line in _lines(rows, members, options):
                out.write(f"{line}\n")
                written += 1
        finally:
            members.unpersist()
    wanted = planned if options.limit is None else min(planned, options.limit)
    missing = planned - written if written < wanted else 0
    return ExportSummary(options.group, planned, written, missing, options.out)


def json_line(row: Mapping[str, Any], group_id: str) -> str:
    """Format one row of the archive, as Arrow represents it, as a JSON object without line breaks.

    The keys are ``group_id`` and the columns of the archive, always all of them. Attributes have
    the shape of SQS's API, with bytes in base64. Times are ISO 8601 in UTC. All characters are
    ASCII: JSON's escapes stand for others, so that a terminal acts on none of them.
    """
    attributes = from_row(row).attributes
    columns = {name: _value(row[name]) for name in ARROW_SCHEMA.names}
    shown = {name: _attribute(attribute) for name, attribute in attributes.items()}
    return json.dumps({"group_id": group_id, **columns, "attributes": shown})


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return in_utc(value).isoformat(timespec="milliseconds")
    return value


def _attribute(attribute: MessageAttribute) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else base64.b64encode(value).decode()
        for key, value in attribute.to_api().items()
    }


def _lines(rows: DataFrame, members: DataFrame, options: ExportOptions) -> Iterator[str]:
    """The lines, as SQS got the messages."""
    found = rows.join(members, "message_id", "left_semi")
    if options.limit is not None:
        # The oldest are found by ids and times, so that no bodies are sorted that are not written.
        keys = found.select("message_id", "sequence_number", "sent_at")
        oldest = keys.orderBy(*arrival_order()).limit(options.limit).select("message_id")
        found = found.join(oldest, "message_id", "left_semi")
    ordered = found.select(*ARROW_SCHEMA.names).orderBy(*arrival_order())
    lines = ordered.mapInArrow(partial(_format, options.group), "line string")
    return (row["line"] for row in lines.toLocalIterator())


def _format(group_id: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = [json_line(row, group_id) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pydict({"line": pa.array(lines, pa.string())})


@contextmanager
def opened(out: str) -> Iterator[TextIO]:
    """Open *out*; remove a file that was begun if the block fails."""
    if out == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    except FileExistsError as error:
        raise InputError(f"--out {out}: exists; export overwrites no file: name another") from error
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", newline="\n") as file:
            yield file
    except OSError as error:
        Path(out).unlink(missing_ok=True)
        raise InputError(f"--out {out}: {error.strerror or error}; it was removed") from error
    except BaseException:
        Path(out).unlink(missing_ok=True)
        raise
