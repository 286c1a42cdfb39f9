"""Search a consumer's logs for the errors of pending messages without a recorded one.

An engine reads the bodies and returns tokens: words that may be values. This process reads the log
once, and looks for ids and for the tokens that one dead letter alone has: see ``logs.matching``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.message_reading import read_messages_work
from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.storage.files import Archive, read_text
from dlq.aws.clients import aws_client, aws_session
from dlq.engine import Engine, Work
from dlq.errors import InputError
from dlq.explain.differences.features import OUR_ATTRIBUTES
from dlq.explain.groups import in_parts
from dlq.explain.logs.error_matching import DeadLetter, MatchedError, Matcher
from dlq.explain.logs.events import TOKEN, LogEvent
from dlq.explain.logs.log_reading import (
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
"""A message can have failed at most this long before the replay function first saw it."""

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

_TOKEN_COLUMNS = ("first_id", "body", "attributes")
_TOKENS = pa.schema([("first_id", pa.string()), ("tokens", pa.list_(pa.string()))])
_POSITIONS = pa.schema([("position", pa.int64())])

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
        pending: ``message_id`` and ``FILE`` of all pending messages: a value that two dead letters
            have counts as nothing.
        unexplained: the messages among them to search for, unless they have a recorded error.
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
    letters = _dead_letters(messages)
    values = _own_tokens(engine, archive, pending, newest["message_id"])

    region = aws_session().region_name
    files = [location for location in logs if location.endswith(_FILE)]
    groups = [_log_group(location) for location in logs if location not in files]
    if groups and region is None:
        raise InputError(f"--logs {groups[0]}: no Region; set --region or AWS_REGION")
    client = aws_client("logs", LOGS_CONFIG) if groups else None
    reading = LogReading(client, limit_minutes, newest_first=not client or reads_backwards(client))

    first_ms = min((letter.first_ms for letter in letters.values()), default=0)
    last_ms = max((letter.last_ms for letter in letters.values()), default=0)
    spans = cache(lambda: _spans(engine, archive, unexplained))
    events = chain(
        _events_of_files(files),
        reading.read(groups, first_ms, last_ms, spans),
    )
    reasons = Matcher(letters, values, mask_error).reasons(events)

    rows = []
    methods = Counter[str]()
    for message in messages:
        reason = reasons.get(message["first_id"])
        if reason is not None:
            rows.append(_row(message["message_id"], reason, masks, region))
            methods[reason.how] += 1
    return rows, _note(methods, len(messages), total, reading)


def _dead_letters(messages: Sequence[Mapping[str, Any]]) -> dict[str, DeadLetter]:
    """Return the dead letter of each first id; *messages* are rows of ``_LETTERS``, newest first.

    Of messages with one first id the newest counts.
    """
    letters = {}
    for message in reversed(messages):
        first_id = message["first_id"]
        message_id = message["message_id"]
        last_id = message["last_id"] or message_id
        letters[first_id] = DeadLetter(
            ids=(first_id, message_id, last_id),
            first_ms=message["first_ms"],
            last_ms=message["last_ms"],
        )
    return letters


def _log_group(location: str) -> str:
    """Return the name of a log group, which may be given as its ARN."""
    return location.partition(":log-group:")[2].removesuffix(":*") or location


def _events_of_files(files: Iterable[str]) -> Iterator[LogEvent]:
    for file in files:
        yield from exported_events(read_text(file), file)


def _note(methods: Counter[str], searched: int, total: int, reading: LogReading) -> str:
    """Return a sentence about a search.

    Args:
        methods: the number of messages found by each.
        searched: the messages that were searched for.
        total: all messages without a recorded error.
        reading: the finished reading of the log groups.
    """
    note = f"{methods.total():,} of {searched:,} messages have an error in the logs"
    for method, count in sorted(methods.items()):
        note += f", {count:,} by {method}"
    if total > searched:
        note += f"; {total - searched:,} older ones were not searched for"

    to_where = "back to" if reading.newest_first else "until"
    if reading.reached_ms is not None:
        note += f"; --logs-limit: read {to_where} {_minute(reading.reached_ms)}, beyond that only "
        note += f"around the newest {_OF_A_GROUP} messages of each group"
    if reading.spans_reached_ms is not None:
        note += f", {to_where} {_minute(reading.spans_reached_ms)}"
    return note


def _newest(engine: Engine, archive: Archive, unexplained: pa.Table) -> tuple[int, pa.Table]:
    """Return the number of messages without a recorded error, and ``_LETTERS`` of the newest."""
    total = 0
    newest = _LETTERS.empty_table()
    for part in in_parts(unexplained):
        then = Work((), _letters, _LETTERS)
        letters = engine.run(read_messages_work(archive, part, _LETTER_COLUMNS, engine.slots, then))
        total += letters.num_rows
        together = pa.concat_tables([newest, letters])
        in_order = together.sort_by([("last_ms", "descending"), ("message_id", "ascending")])
        newest = in_order.slice(0, MOST_LETTERS)
    return total, newest


def _letters(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make ``_LETTERS`` of the messages without a recorded error.

    A message can have failed until it was parked, or drained if SQS parked it.
    """
    for batch in batches:
        rows = _without_error(batch)
        sent_ms = _milliseconds(rows["sent_at"])
        first_seen_ms = _milliseconds(rows["first_seen_at"])
        drained_ms = _milliseconds(rows["drained_at"])

        seen_ms: Any = pc.min_element_wise(first_seen_ms, sent_ms)
        first_ms: Any = pc.subtract(seen_ms, _BEFORE_MS)
        is_parked = rows["parked_reason"].is_valid()
        last_ms = pc.coalesce(pc.if_else(is_parked, sent_ms, drained_ms), drained_ms)
        columns = [
            rows["message_id"],
            rows["first_id"],
            rows["last_id"],
            pc.fill_null(first_ms, 0),
            last_ms,
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_LETTERS)


def _without_error(batch: pa.RecordBatch) -> pa.RecordBatch:
    error = pc.coalesce(batch["error_type"], batch["error_message"])
    return batch.filter(error.is_null())


def _milliseconds(times: Any) -> Any:  # noqa: ANN401 - Arrow columns
    return pc.divide(times.cast(pa.int64()), 1000)


def _own_tokens(
    engine: Engine,
    archive: Archive,
    pending: pa.Table,
    letter_ids: Any,  # noqa: ANN401 - a column
) -> dict[str, str]:
    """Return the tokens that one of the searched dead letters alone has, each with its first id.

    The tokens of all *pending* messages would not fit into memory. So read those of the letters
    first, then find which of these the other messages have, too.
    """
    is_letter = is_in(pending["message_id"], letter_ids)
    letters = pending.filter(is_letter)
    others = pending.filter(pc.invert(is_letter))
    then = Work((), _token_rows, _TOKENS)
    rows = engine.run(read_messages_work(archive, letters, _TOKEN_COLUMNS, engine.slots, then))
    own = _of_one_letter(rows)
    if not own or not others.num_rows:
        return own

    pairs = sorted(own.items(), key=lambda pair: _digest(pair[0]))
    tokens, first_ids = zip(*pairs, strict=True)
    shared_tokens = _SharedTokens(_digests(tokens), _digests(first_ids))
    then = Work((), shared_tokens.find, _POSITIONS)
    shared = engine.run(read_messages_work(archive, others, _TOKEN_COLUMNS, engine.slots, then))
    positions: Any = shared["position"].unique().to_pylist()
    for position in positions:
        del own[tokens[position]]
    return own


def _of_one_letter(rows: pa.Table) -> dict[str, str]:
    """Return the tokens in *rows*, ``_TOKENS``, that one first id alone has, each with that id."""
    first_ids: Any = combined(rows["first_id"]).dictionary_encode()
    tokens: Any = combined(rows["tokens"])
    owners = first_ids.indices.take(pc.list_parent_indices(tokens))
    pairs = pa.table({"token": pc.list_flatten(tokens), "owner": owners})

    by_token = pairs.group_by("token").aggregate([("owner", "min"), ("owner", "max")])
    own = by_token.filter(pc.equal(by_token["owner_min"], by_token["owner_max"]))
    owner_ids = texts_of(first_ids.dictionary.take(own["owner_min"]))
    return dict(zip(texts_of(own["token"]), owner_ids, strict=True))


def _token_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the tokens in the body and the attributes of each message."""
    for batch in batches:
        rows = []
        for message in batch.to_pylist():
            row = {"first_id": message["first_id"], "tokens": _tokens_of(message)}
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, schema=_TOKENS)


def _tokens_of(message: Mapping[str, Any]) -> list[str]:
    texts = [(message["body"] or "")[:_BODY_CHARACTERS]]
    for name, value in message["attributes"] or ():
        if name not in OUR_ATTRIBUTES:
            texts.append(value["string_value"] or "")
    tokens = dict.fromkeys(TOKEN.findall("\n".join(reversed(texts))))
    return list(tokens)[:_VALUES]


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _digests(texts: Iterable[str]) -> Numbers:
    return np.fromiter(map(_digest, texts), np.int64)


@dataclass(frozen=True, slots=True)
class _SharedTokens:
    """Finds tokens of one dead letter that other messages have, too; an engine calls ``find``.

    Attributes:
        tokens: the ``_digest`` of each, ascending.
        owners: the digest of the first id of each token's dead letter.
    """

    tokens: Numbers
    owners: Numbers

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the positions of the shared tokens in ``tokens``, each once."""
        is_shared = np.zeros(len(self.tokens), np.bool_)
        for batch in batches:
            for message in batch.to_pylist():
                digests = _digests(_tokens_of(message))
                positions = np.searchsorted(self.tokens, digests).clip(max=len(self.tokens) - 1)
                is_same = self.tokens[positions] == digests
                is_of_another = self.owners[positions] != _digest(message["first_id"])
                is_shared[positions[is_same & is_of_another]] = True
        shared_positions = arrow(np.flatnonzero(is_shared))
        yield pa.RecordBatch.from_arrays([shared_positions], schema=_POSITIONS)


def _minute(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _spans(engine: Engine, archive: Archive, unexplained: pa.Table) -> list[tuple[int, int]]:
    """Return when the newest messages of each group probably failed.

    That is in the hour before the replay function parked a message. Where SQS parked it, the time
    is unknown: then it is the hour after the message was sent.
    """
    columns = tuple(dict.fromkeys((*SIGNED, "sent_at")))
    newest = _FAILURES.empty_table()
    for part in in_parts(unexplained):
        then = Work((), _failures, _FAILURES)
        failures = engine.run(read_messages_work(archive, part, columns, engine.slots, then))
        newest = _newest_of_groups(pa.concat_tables([newest, failures]))

    spans = list[tuple[int, int]]()
    first_times: list[Any] = newest["first_ms"].to_pylist()
    for first_ms in sorted(first_times):
        begin_ms = first_ms
        overlaps_last = bool(spans) and first_ms <= spans[-1][1]
        if overlaps_last:
            begin_ms, _ = spans.pop()
        spans.append((begin_ms, first_ms + _HOUR_MS))
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
            keys_of(*rows.select(list(SIGNED)).columns, reasons={}),
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


def _row(message_id: str, reason: MatchedError, masks: Masks, region: str | None) -> dict[str, str]:
    event = reason.event
    error = reason.error
    moment = datetime.fromtimestamp(event.time_ms / 1000, UTC)
    where = f"found by {reason.how} in {event.group}, {event.stream}, {moment:%Y-%m-%d %H:%M:%S}"
    lines = [f"{where} UTC", _console_link(event, region), masks.text(error.frames)]
    return {
        "message_id": message_id,
        "log_error_type": masks.text(error.type),
        "log_error_message": masks.text(error.message),
        "logged": "\n".join(filter(None, lines)),
    }


def _console_link(event: LogEvent, region: str | None) -> str:
    """Return the address of an event in the CloudWatch console; empty for an event of a file.

    The console takes names that are quoted twice, with a dollar sign in place of each percent sign.
    """
    if event.group.endswith(_FILE):
        return ""
    group = quote(quote(event.group, safe=""), safe="")
    stream = quote(quote(event.stream, safe=""), safe="")
    page = f"{group}/log-events/{stream}%3Fstart%3D{event.time_ms}".replace("%", "$")
    home = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:"
    return f"{home}log-groups/log-group/{page}"
