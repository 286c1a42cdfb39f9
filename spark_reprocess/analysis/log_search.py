"""Search a consumer's logs for the reasons of pending messages without a recorded error.

Tasks read the bodies and return words that may be values; of those that one dead letter alone has
the driver searches the log, which it reads once. See ``logs.matching``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from botocore.config import Config
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.features import OUR_ATTRIBUTES
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.normalization import mask_error
from spark_reprocess.archive.files import read_text
from spark_reprocess.archive.frames import map_rows
from spark_reprocess.archive.log_reasons import log_link
from spark_reprocess.clients import aws_client, aws_session
from spark_reprocess.errors import InputError
from spark_reprocess.logs.events import TOKEN, LogEvent
from spark_reprocess.logs.matching import DeadLetter, Matcher, Reason
from spark_reprocess.logs.reading import LogReading, exported_events, is_file

MOST_LETTERS = 100_000
"""The newest are searched for: the driver holds their ids and values."""

_BODY_CHARACTERS = 65_536
_VALUES = 32
_BEFORE_MS = 2 * 3_600_000
"""So long before the replay function first saw a message the message can have failed."""

_WORDS = pa.schema([("first_id", pa.string()), ("word", pa.string())])


@dataclass(frozen=True, slots=True)
class LogSearch:
    """What was found.

    Attributes:
        rows: of ``archive.log_reasons.REASONS``.
        searched: messages without an error that were searched for.
        left_out: older ones that were not.
        counts: found messages by ``How``.
        events: how many the logs have in that time.
        read_until: where the limit of reading was reached; None if all was read.
    """

    rows: tuple[dict[str, str], ...] = ()
    searched: int = 0
    left_out: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    events: int = 0
    read_until: datetime | None = None

    def __str__(self) -> str:
        """Format it in one line."""
        how = ", ".join(f"{count:,} by {name}" for name, count in self.counts)
        text = f"{len(self.rows):,} of {self.searched:,} messages have a reason in the logs"
        text += f" ({how})" if how else ""
        if self.left_out:
            text += f"; {self.left_out:,} older ones were not searched for"
        if self.read_until:
            text += f"; read until {self.read_until:%Y-%m-%d %H:%M} UTC: the limit was reached"
        return text


def search_logs(
    rows: DataFrame,
    unexplained: DataFrame,
    logs: Sequence[str],
    masks: Masks,
    *,
    is_few: bool,
) -> LogSearch:
    """Search *logs*, log groups or files, for the reasons of the messages *unexplained*.

    *rows* are all pending messages: a value that another one has counts as nothing.

    Raises:
        InputError: a log group or a file does not exist or cannot be read.
    """
    total = unexplained.count()
    newest = _times(unexplained).orderBy(F.desc("last_ms"), "message_id").limit(MOST_LETTERS)
    messages: list[dict[str, Any]] = newest.toArrow().to_pylist()
    if not messages:
        return LogSearch()
    letters = {
        row["first_id"]: DeadLetter(
            (row["first_id"], row["message_id"], row["last_id"] or row["message_id"]),
            row["first_ms"],
            row["last_ms"],
        )
        for row in reversed(messages)
    }
    words = map_rows(rows.select("first_id", "body", "attributes"), _words, _WORDS, is_few=is_few)
    owned = words.groupBy("word").agg(F.min("first_id").alias("a"), F.max("first_id").alias("b"))
    owned = owned.where("a = b").join(newest.select(F.col("first_id").alias("a")).distinct(), "a")
    values = {row["word"]: row["a"] for row in owned.select("a", "word").toArrow().to_pylist()}
    region = aws_session().region_name
    if region is None and not all(map(is_file, logs)):
        raise InputError("--logs: no Region; set --region or AWS_REGION")
    once = Config(retries={"total_max_attempts": 1})
    reading = LogReading(aws_client("logs", once) if region else None)
    first_ms = min(one.first_ms for one in letters.values())
    last_ms = max(one.last_ms for one in letters.values())
    found = Matcher(letters, values, mask_error).reasons(_events(reading, logs, first_ms, last_ms))
    named = [(row["message_id"], one) for row in messages if (one := found.get(row["first_id"]))]
    counts: dict[str, int] = {}
    for _, one in named:
        counts[one.how] = counts.get(one.how, 0) + 1
    until_ms = reading.read_until_ms
    return LogSearch(
        tuple(_row(message_id, one, masks, region) for message_id, one in named),
        len(messages),
        total - len(messages),
        tuple(sorted(counts.items())),
        reading.events,
        None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC),
    )


def with_logged(messages: DataFrame, reasons: pa.Table) -> DataFrame:
    """Add the column ``logged``, and to messages without a recorded error that of *reasons*."""
    if not reasons.num_rows:
        return messages.withColumn("logged", F.lit(None).cast("string"))
    found = F.broadcast(messages.sparkSession.createDataFrame(reasons))
    joined = messages.join(found, "message_id", "left")
    has_none = (F.coalesce("error_type", F.lit("")) == "") & (
        F.coalesce("error_message", F.lit("")) == ""
    )
    for name in ("error_type", "error_message"):
        other = F.when(has_none, F.col(f"log_{name}"))
        joined = joined.withColumn(f"with_{name}", F.coalesce(other, name))
    joined = joined.withColumn("logged", F.when(has_none, F.col("logged")))
    for name in ("error_type", "error_message"):
        joined = joined.drop(name, f"log_{name}").withColumnRenamed(f"with_{name}", name)
    return joined.select(*messages.columns, "logged")


def _times(unexplained: DataFrame) -> DataFrame:
    """Add when a message can have failed: until it was parked, or drained if SQS parked it."""
    seen = F.unix_millis(F.least("first_seen_at", "sent_at")) - _BEFORE_MS
    parked = F.when(F.col("parked_reason").isNotNull(), F.col("sent_at"))
    return unexplained.select(
        "message_id",
        "first_id",
        "last_id",
        F.coalesce(seen, F.lit(0)).alias("first_ms"),
        F.unix_millis(F.coalesce(parked, "drained_at")).alias("last_ms"),
    )


def _words(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the words of each message that may be values: of its body, and of its attributes."""
    for batch in batches:
        pairs = []
        for row in batch.to_pylist():
            texts = [
                value["string_value"] or ""
                for name, value in row["attributes"] or ()
                if name not in OUR_ATTRIBUTES
            ]
            text = "\n".join([*texts, (row["body"] or "")[:_BODY_CHARACTERS]])
            words = list(dict.fromkeys(TOKEN.findall(text)))[:_VALUES]
            pairs += [{"first_id": row["first_id"], "word": word} for word in words]
        yield pa.RecordBatch.from_pylist(pairs, schema=_WORDS)


def _events(
    reading: LogReading, logs: Sequence[str], first_ms: int, last_ms: int
) -> Iterator[LogEvent]:
    for file in filter(is_file, logs):
        for event in exported_events(read_text(file), file):
            reading.events += 1
            yield event
    yield from reading.read((one for one in logs if not is_file(one)), first_ms, last_ms)


def _row(message_id: str, reason: Reason, masks: Masks, region: str | None) -> dict[str, str]:
    event, error = reason.event, reason.error
    moment = datetime.fromtimestamp(event.time_ms / 1000, UTC)
    place = (
        f"found by {reason.how} in {event.group}, {event.stream}, {moment:%Y-%m-%d %H:%M:%S} UTC"
    )
    link = (
        "" if is_file(event.group) else log_link(region, event.group, event.stream, event.time_ms)
    )
    return {
        "message_id": message_id,
        "log_error_type": error.type,
        "log_error_message": masks.text(error.message),
        "logged": "\n".join(filter(None, (place, link, masks.text(error.frames)))),
    }
