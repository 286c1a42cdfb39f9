"""Search a consumer's logs for the errors of pending messages without a recorded one.

An engine reads the bodies and returns words that may be values. This process reads the log once,
and looks for ids and for the words that one dead letter alone has: see ``logs.matching``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.messages.reading import read_messages_work
from dlq.archive.storage.files import Archive, read_text
from dlq.aws.clients import aws_client, aws_session
from dlq.engine import Engine, Work
from dlq.errors import InputError
from dlq.explain.groups import in_parts
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
from dlq.ids.columns import Numbers, arrow, numbered_values, texts_of
from dlq.ids.order import runs_of
from dlq_replay.text.normalization import mask_error

MOST_LETTERS = 100_000
"""The newest are searched for: this process holds their ids and values."""

_BODY_CHARACTERS = 65_536
_VALUES = 32
_HOUR_MS = 3_600_000
_BEFORE_MS = 2 * _HOUR_MS
"""So long before the replay function first saw a message the message can have failed."""

_OF_A_GROUP = 200

_FILE = ".jsonl"

_TIMES = ("sent_at", "first_seen_at", "parked_reason", "drained_at")
_LETTER_COLUMNS = ("message_id", "first_id", "last_id", "error_type", "error_message", *_TIMES)
_LETTER: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "first_id": pa.string(),
    "last_id": pa.string(),
    "first_ms": pa.int64(),
    "last_ms": pa.int64(),
}
_LETTERS = pa.schema(_LETTER)

_WORD_COLUMNS = ("first_id", "body", "attributes")
_WORDS = pa.schema([("first_id", pa.string()), ("words", pa.list_(pa.string()))])
_PLACES = pa.schema([("place", pa.int64())])

_FAILURE: dict[str, pa.DataType] = {
    "key": pa.string(),
    "sent_at": pa.timestamp("us", tz="UTC"),
    "message_id": pa.string(),
    "first_ms": pa.int64(),
}
_FAILURES = pa.schema(_FAILURE)


def search_logs(
    engine: Engine,
    archive: Archive,
    pending: pa.Table,
    unexplained: pa.Table,
    logs: Sequence[str],
    limit_minutes: int,
    masks: Masks,
) -> tuple[list[dict[str, str]], str]:
    """Search log groups or files for the errors of messages without a recorded one.

    Args:
        engine: reads the bodies.
        archive: where the messages are.
        pending: ``message_id`` and ``FILE`` of all that is pending: a value that two dead letters
            have counts as nothing.
        unexplained: those of them to search for, unless they have a recorded error.
        logs: log groups, their ARNs, files.
        limit_minutes: that of ``LogReading``.
        masks: what is hidden in errors.

    Returns:
        Rows of ``message_index.REASONS``, and a sentence about them.

    Raises:
        InputError: a log group or a file does not exist or cannot be read.
    """
    total, newest = _newest(engine, archive, unexplained)
    messages: list[dict[str, Any]] = newest.to_pylist()
    letters = {
        row["first_id"]: DeadLetter(
            (row["first_id"], row["message_id"], row["last_id"] or row["message_id"]),
            row["first_ms"],
            row["last_ms"],
        )
        for row in reversed(messages)
    }
    values = _own_words(engine, archive, pending, newest["message_id"])
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
    spans = cache(lambda: _spans(engine, archive, unexplained))
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


def _newest(engine: Engine, archive: Archive, unexplained: pa.Table) -> tuple[int, pa.Table]:
    """Return how many have no recorded error, and ``_LETTERS`` of the newest of these."""
    total = 0
    newest = _LETTERS.empty_table()
    for some in in_parts(unexplained):
        then = Work((), _letters, _LETTERS)
        found = engine.run(read_messages_work(archive, some, _LETTER_COLUMNS, engine.slots, then))
        total += found.num_rows
        everything = pa.concat_tables([newest, found])
        in_order = everything.sort_by([("last_ms", "descending"), ("message_id", "ascending")])
        newest = in_order.slice(0, MOST_LETTERS)
    return total, newest


def _letters(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make ``_LETTERS`` of the messages without a recorded error.

    A message can have failed until it was parked, or drained if SQS parked it.
    """
    for batch in batches:
        rows = _without_error(batch)
        sent_ms, first_seen_ms, drained_ms = (
            _milliseconds(rows[name]) for name in ("sent_at", "first_seen_at", "drained_at")
        )
        seen_ms: Any = pc.min_element_wise(first_seen_ms, sent_ms)
        first_ms: Any = pc.subtract(seen_ms, _BEFORE_MS)
        is_parked = rows["parked_reason"].is_valid()
        last_ms = pc.coalesce(pc.if_else(is_parked, sent_ms, drained_ms), drained_ms)
        ids = [rows[name] for name in ("message_id", "first_id", "last_id")]
        columns = [*ids, pc.fill_null(first_ms, 0), last_ms]
        yield pa.RecordBatch.from_arrays(columns, schema=_LETTERS)


def _without_error(batch: pa.RecordBatch) -> pa.RecordBatch:
    error = pc.coalesce(batch["error_type"], batch["error_message"])
    return batch.filter(error.is_null())


def _milliseconds(times: Any) -> Any:  # noqa: ANN401 - Arrow columns
    return pc.divide(times.cast(pa.int64()), 1000)


def _own_words(
    engine: Engine,
    archive: Archive,
    pending: pa.Table,
    letter_ids: Any,  # noqa: ANN401 - a column
) -> dict[str, str]:
    """Return the words that one dead letter alone has, of those to search for: its first id.

    The words of all *pending* messages would not fit into memory. So those of the letters are read
    first, then which of these others have, too.
    """
    is_letter = is_in(pending["message_id"], letter_ids)
    letters, others = pending.filter(is_letter), pending.filter(pc.invert(is_letter))
    then = Work((), _words, _WORDS)
    rows = engine.run(read_messages_work(archive, letters, _WORD_COLUMNS, engine.slots, then))
    own = _of_one_letter(rows)
    if not own or not others.num_rows:
        return own

    words = sorted(own, key=_digest)
    digests = np.array([_digest(word) for word in words], np.int64)
    owners = np.array([_digest(own[word]) for word in words], np.int64)
    then = Work((), _SharedWords(digests, owners).find, _PLACES)
    found = engine.run(read_messages_work(archive, others, _WORD_COLUMNS, engine.slots, then))
    shared: Any = found["place"].unique().to_pylist()
    for place in shared:
        del own[words[place]]
    return own


def _of_one_letter(rows: pa.Table) -> dict[str, str]:
    """Return the first id of each word in *rows*, ``_WORDS``, that only rows with one have."""
    first_ids: Any = combined(rows["first_id"]).dictionary_encode()
    words: Any = combined(rows["words"])
    owners = first_ids.indices.take(pc.list_parent_indices(words))
    pairs = pa.table({"word": pc.list_flatten(words), "owner": owners})
    found = pairs.group_by("word").aggregate([("owner", "min"), ("owner", "max")])
    own = found.filter(pc.equal(found["owner_min"], found["owner_max"]))
    names = texts_of(first_ids.dictionary.take(own["owner_min"]))
    return dict(zip(texts_of(own["word"]), names, strict=True))


def _words(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the words of each message that may be values: of its body, and of its attributes."""
    for batch in batches:
        rows = [{"first_id": row["first_id"], "words": _words_of(row)} for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_WORDS)


def _words_of(row: Mapping[str, Any]) -> list[str]:
    texts = [(row["body"] or "")[:_BODY_CHARACTERS]]
    for name, value in row["attributes"] or ():
        if name not in OUR_ATTRIBUTES:
            texts.append(value["string_value"] or "")
    words = dict.fromkeys(TOKEN.findall("\n".join(reversed(texts))))
    return list(words)[:_VALUES]


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


@dataclass(frozen=True, slots=True)
class _SharedWords:
    """Finds words of one dead letter that others have, too; an engine calls ``find``.

    Attributes:
        words: a ``_digest`` of each, ascending.
        owners: of each, that of the first id of its dead letter.
    """

    words: Numbers
    owners: Numbers

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the places of these words in ``words``, each once."""
        is_shared = np.zeros(len(self.words), np.bool_)
        for batch in batches:
            for row in batch.to_pylist():
                digests = np.array([_digest(word) for word in _words_of(row)], np.int64)
                places = np.searchsorted(self.words, digests).clip(max=len(self.words) - 1)
                is_same = self.words[places] == digests
                is_of_another = self.owners[places] != _digest(row["first_id"])
                is_shared[places[is_same & is_of_another]] = True
        places = arrow(np.flatnonzero(is_shared))
        yield pa.RecordBatch.from_arrays([places], schema=_PLACES)


def _minute(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _spans(engine: Engine, archive: Archive, unexplained: pa.Table) -> list[tuple[int, int]]:
    """Return when the newest messages of each group probably failed.

    That is in the hour before the replay function parked a message; where SQS did it, nobody knows
    when, and it is the hour after the message was sent.
    """
    columns = tuple(dict.fromkeys((*SIGNED, "sent_at")))
    newest = _FAILURES.empty_table()
    for some in in_parts(unexplained):
        then = Work((), _failures, _FAILURES)
        found = engine.run(read_messages_work(archive, some, columns, engine.slots, then))
        newest = _newest_of_groups(pa.concat_tables([newest, found]))

    spans = list[tuple[int, int]]()
    firsts: list[Any] = newest["first_ms"].to_pylist()
    for first in sorted(firsts):
        begin = spans.pop()[0] if spans and first <= spans[-1][1] else first
        spans.append((begin, first + _HOUR_MS))
    return spans


def _failures(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make ``_FAILURES`` of the newest messages of each group without a recorded error."""
    tables = [_FAILURES.empty_table()]
    for batch in batches:
        rows = _without_error(batch)
        rows = rows.filter(rows["sent_at"].is_valid())
        sent_ms = _milliseconds(rows["sent_at"])
        is_parked = rows["parked_reason"].is_valid()
        columns = [
            keys_of(*(rows[name] for name in SIGNED), reasons={}),
            rows["sent_at"],
            rows["message_id"],
            pc.if_else(is_parked, pc.subtract(sent_ms, _HOUR_MS), sent_ms),
        ]
        tables.append(pa.table(columns, schema=_FAILURES))
    yield from _newest_of_groups(pa.concat_tables(tables)).to_batches()


def _newest_of_groups(failures: pa.Table) -> pa.Table:
    rows = failures.sort_by(
        [("key", "ascending"), ("sent_at", "descending"), ("message_id", "ascending")]
    )
    starts, lengths = runs_of(numbered_values(rows["key"]))
    ranks = np.arange(rows.num_rows) - np.repeat(starts, lengths)
    return rows.filter(arrow(ranks < _OF_A_GROUP))


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
