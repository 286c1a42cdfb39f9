"""Search a consumer's logs for the errors of pending messages without a recorded one.

Tasks read the bodies and return words that may be values. The driver reads the log once, and looks
for ids and for the words that one dead letter alone has: see ``logs.matching``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from dlq.archive.messages.frames import local_frame, map_rows
from dlq.archive.storage.files import read_text
from dlq.aws.clients import aws_client, aws_session
from dlq.errors import InputError
from dlq.explain.leads.features import OUR_ATTRIBUTES
from dlq.explain.logs.events import TOKEN, LogEvent
from dlq.explain.logs.matching import DeadLetter, Matcher, Reason
from dlq.explain.logs.reading import (
    LOGS_CONFIG,
    LogReading,
    exported_events,
    reads_backwards,
)
from dlq.explain.signature.mask import Masks
from dlq.explain.signature.signature import SIGNED, keys_of
from dlq_replay.text.normalization import mask_error

MOST_LETTERS = 100_000
"""The newest are searched for: the driver holds their ids and values."""

_BODY_CHARACTERS = 65_536
_VALUES = 32
_HOUR_MS = 3_600_000
_BEFORE_MS = 2 * _HOUR_MS
"""So long before the replay function first saw a message the message can have failed."""

_OF_A_GROUP = 200

_FILE = ".jsonl"
_WORDS = pa.schema([("first_id", pa.string()), ("word", pa.string())])


def search_logs(
    rows: DataFrame,
    unexplained: DataFrame,
    logs: Sequence[str],
    limit_minutes: int,
    masks: Masks,
    *,
    is_few: bool,
) -> tuple[list[dict[str, str]], str]:
    """Search *logs* (log groups, their ARNs, files) for the errors of the messages *unexplained*.

    *rows* are all pending messages: a value that two of them have counts as nothing.
    *limit_minutes* is that of ``LogReading``.

    Returns:
        Rows of ``message_index.REASONS``, and a sentence about them.

    Raises:
        InputError: a log group or a file does not exist or cannot be read.
    """
    total, newest = unexplained.count(), _newest(unexplained).toArrow()
    messages: list[dict[str, Any]] = newest.to_pylist()
    letters = {
        row["first_id"]: DeadLetter(
            (row["first_id"], row["message_id"], row["last_id"] or row["message_id"]),
            row["first_ms"],
            row["last_ms"],
        )
        for row in reversed(messages)
    }
    words = map_rows(rows.select("first_id", "body", "attributes"), _words, _WORDS, is_few=is_few)
    owned = words.groupBy("word").agg(F.min("first_id").alias("id"), F.max("first_id").alias("b"))
    wanted = local_frame(rows.sparkSession, newest.select(["first_id"]))
    owned = owned.where("id = b").join(
        F.broadcast(wanted), F.col("id") == F.col("first_id"), "semi"
    )
    values = {row["word"]: row["id"] for row in owned.select("id", "word").toArrow().to_pylist()}
    region = aws_session().region_name
    groups = [
        one.partition(":log-group:")[2].removesuffix(":*") or one
        for one in logs
        if not one.endswith(_FILE)
    ]
    if groups and region is None:
        raise InputError(f"--logs {groups[0]}: no Region; set --region or AWS_REGION")
    client = aws_client("logs", LOGS_CONFIG) if groups else None
    reading = LogReading(client, limit_minutes, newest_first=not client or reads_backwards(client))
    spans = cache(lambda: _spans(unexplained))
    first_ms = min((one.first_ms for one in letters.values()), default=0)
    last_ms = max((one.last_ms for one in letters.values()), default=0)

    def events() -> Iterator[LogEvent]:
        for file in (one for one in logs if one.endswith(_FILE)):
            yield from exported_events(read_text(file), file)
        yield from reading.read(groups, first_ms, last_ms, spans)

    found = Matcher(letters, values, mask_error).reasons(events())
    named = [(row["message_id"], one) for row in messages if (one := found.get(row["first_id"]))]
    how = Counter(one.how for _, one in named)
    note = f"{len(named):,} of {len(messages):,} messages have an error in the logs"
    note += "".join(f", {count:,} by {name}" for name, count in sorted(how.items()))
    if total > len(messages):
        note += f"; {total - len(messages):,} older ones were not searched for"
    to_where = "back to" if reading.newest_first else "until"
    if reading.reached_ms is not None:
        note += f"; --logs-limit: read {to_where} {_minute(reading.reached_ms)}, beyond that only "
        note += f"around the newest {_OF_A_GROUP} messages of each group"
    if reading.spans_reached_ms is not None:
        note += f", {to_where} {_minute(reading.spans_reached_ms)}"
    return [_row(message_id, one, masks, region) for message_id, one in named], note


def _newest(unexplained: DataFrame) -> DataFrame:
    """Return the newest, and when they can have failed: until parked, or drained if SQS did it."""
    parked = F.when(F.col("parked_reason").isNotNull(), F.col("sent_at"))
    first_ms = F.unix_millis(F.least("first_seen_at", "sent_at")) - _BEFORE_MS
    last_ms = F.unix_millis(F.coalesce(parked, "drained_at"))
    times = F.coalesce(first_ms, F.lit(0)).alias("first_ms"), last_ms.alias("last_ms")
    rows = unexplained.select("message_id", "first_id", "last_id", *times)
    return rows.orderBy(F.desc("last_ms"), "message_id").limit(MOST_LETTERS)


def _minute(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _spans(unexplained: DataFrame) -> list[tuple[int, int]]:
    """Return when the newest messages of each group probably failed.

    That is in the hour before the replay function parked a message; where SQS did it, nobody knows
    when, and it is the hour after the message was sent.
    """
    sign: Any = arrow_udf(lambda *columns: keys_of(*columns, reasons={}), StringType())  # type: ignore[call-overload]
    newest = Window.partitionBy("key").orderBy(F.desc("sent_at"), "message_id")
    sent_ms = F.unix_millis("sent_at")
    first_ms = F.when(F.col("parked_reason").isNull(), sent_ms).otherwise(sent_ms - _HOUR_MS)
    ranked = unexplained.withColumn("key", sign(*SIGNED)).withColumn(
        "rank", F.row_number().over(newest)
    )
    kept = ranked.where(f"rank <= {_OF_A_GROUP} AND sent_at IS NOT NULL")
    spans = list[tuple[int, int]]()
    firsts: list[Any] = kept.select(first_ms.alias("ms")).toArrow()["ms"].to_pylist()
    for first in sorted(firsts):
        begin = spans.pop()[0] if spans and first <= spans[-1][1] else first
        spans.append((begin, first + _HOUR_MS))
    return spans


def _words(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the words of each message that may be values: of its body, and of its attributes."""
    for batch in batches:
        pairs = []
        for row in batch.to_pylist():
            texts = [(row["body"] or "")[:_BODY_CHARACTERS]]
            for name, value in row["attributes"] or ():
                texts += [value["string_value"] or ""] * (name not in OUR_ATTRIBUTES)
            words = list(dict.fromkeys(TOKEN.findall("\n".join(reversed(texts)))))[:_VALUES]
            pairs += [{"first_id": row["first_id"], "word": word} for word in words]
        yield pa.RecordBatch.from_pylist(pairs, schema=_WORDS)


def _row(message_id: str, reason: Reason, masks: Masks, region: str | None) -> dict[str, str]:
    event, error = reason.event, reason.error
    moment = datetime.fromtimestamp(event.time_ms / 1000, UTC)
    where = f"found by {reason.how} in {event.group}, {event.stream}, {moment:%Y-%m-%d %H:%M:%S}"
    names = [quote(quote(one, safe=""), safe="") for one in (event.group, event.stream)]
    page = f"{names[0]}/log-events/{names[1]}%3Fstart%3D{event.time_ms}".replace("%", "$")
    home = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:"
    link = "" if event.group.endswith(_FILE) else f"{home}log-groups/log-group/{page}"
    lines = f"{where} UTC", link, masks.text(error.frames)
    return {
        "message_id": message_id,
        "log_error_type": masks.text(error.type),
        "log_error_message": masks.text(error.message),
        "logged": "\n".join(filter(None, lines)),
    }
