"""Group messages by failure, count what each group has, and sample it to search for differences.

The engine reads and signs bodies. This process holds the *slim* rows: some 150 bytes of each
message.

The sample is limited in messages and bytes, and the same in each run: a message is in it if the
number that its id decides (``chance_of``) is below the rate of its group. Half of the sample is
split evenly among the largest groups; the other half is drawn from all messages at the same rate.
So each sampled message stands for the count of its group divided by the group's sampled messages.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_reading import FILE, read_messages_work
from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.storage.files import Archive
from dlq.engine import Engine, Work
from dlq.explain.grouping import OTHERS, Grouping, in_queue
from dlq.explain.signature.signature import PARKED_BY_SQS, SIGNED, Reasons, keys_of
from dlq.ids.columns import Numbers, arrow, in_order_of, numbered_values, texts_of
from dlq.ids.order import runs_of
from dlq.ids.origins import different_rows

_QUEUE_COLUMNS = ("source_queue", "source_arn", "queue_url")
"""Columns that tell the source queue of a message, beside ``parked_reason``."""

SLIM_COLUMNS = (
    "message_id",
    "sent_at",
    "first_seen_at",
    "replay_count",
    "parked_reason",
    *_QUEUE_COLUMNS,
    "body_bytes",
)

MOST_KEYS = 50_000
"""At most this number of keys get a group each; messages with a rarer key are in ``OTHERS``."""

SAMPLED_MESSAGES = 40_000
SAMPLED_BYTES = 160 * 1024 * 1024

_MESSAGES_AT_ONCE = 500_000
"""An engine returns texts as they are: several times the memory of the slim rows."""

_REPEATED = (FILE, "parked_reason", *_QUEUE_COLUMNS, "message_group_id", "key")
"""Columns whose texts many messages share: each text is kept once."""

_MOST_OF_A_GROUP = 2000
_QUANTILES = (0, 5, 50, 95, 100)
"""In percent."""

_VALUES = 100
_NEVER = -(2**63)
_MICROSECONDS = 1_000_000

Floats = npt.NDArray[np.float64]


def read_keyed(
    engine: Engine, archive: Archive, messages: pa.Table, reasons: Reasons, columns: Sequence[str]
) -> pa.Table:
    """Read *columns* of each message, its ``Signature.group_key`` as ``key``, and its ``chance``.

    Args:
        engine: reads and signs the bodies.
        archive: where the messages are.
        messages: ``message_id`` and ``FILE`` of each.
        reasons: as for ``signature.reason_of``.
        columns: of the archive, or ``FILE``.
    """
    signer = _Signer(tuple(columns), reasons)
    to_read = tuple(dict.fromkeys((*columns, *SIGNED)))
    then = Work((), signer.sign, signer.schema)

    parts = [_with_repeated_once(signer.schema.empty_table())]
    for part in in_parts(messages):
        work = read_messages_work(archive, part, to_read, engine.slots, then)
        parts.append(_with_repeated_once(engine.run(work)))
    return pa.concat_tables(parts).unify_dictionaries()


def in_parts(messages: pa.Table) -> Iterator[pa.Table]:
    """Yield *messages* in parts of which an engine may return all rows at once."""
    for start in range(0, messages.num_rows, _MESSAGES_AT_ONCE):
        yield messages.slice(start, _MESSAGES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class _Signer:
    """Adds ``key`` and ``chance`` to the columns of each message; an engine calls ``sign``."""

    columns: tuple[str, ...]
    reasons: Reasons

    @property
    def schema(self) -> pa.Schema:
        fields: list[tuple[str, pa.DataType]] = []
        for name in self.columns:
            data_type = pa.string() if name == FILE else ARROW_SCHEMA.field(name).type
            fields.append((name, data_type))
        return pa.schema([*fields, ("key", pa.string()), ("chance", pa.float64())])

    def sign(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = keys_of(*batch.select(list(SIGNED)).columns, reasons=self.reasons)
            chances = pa.array(map(chance_of, texts_of(batch["message_id"])), pa.float64())
            columns = batch.select(list(self.columns)).columns
            yield pa.RecordBatch.from_arrays([*columns, keys, chances], schema=self.schema)


def chance_of(message_id: str) -> float:
    """Return a number in [0, 1) that the id alone decides; the numbers of many ids are uniform."""
    return int.from_bytes(sha256(message_id.encode()).digest()[:6]) / 2**48


def _with_repeated_once(rows: pa.Table) -> pa.Table:
    for position, name in enumerate(rows.column_names):
        if name in _REPEATED:
            rows = rows.set_column(position, name, rows[name].dictionary_encode())
    # Many small buffers take half as much memory again as they hold.
    return rows.unify_dictionaries().combine_chunks()


def with_groups(
    keyed: pa.Table, assign: Callable[[Mapping[str, int]], Grouping]
) -> tuple[pa.Table, Grouping]:
    """Replace the ``key`` of each message by its ``group_id`` and its source ``queue``.

    A queue that is not known is an empty text. *keyed* is what ``read_keyed`` returned. *assign*
    takes the number of messages of each key, with its queue (``in_queue``) where that is known.

    Returns:
        The messages, and what *assign* returned.
    """
    recorded = keyed.select(["key", *_QUEUE_COLUMNS])
    different, numbers = different_rows(recorded)
    rows = recorded.take(different)
    urls: Any = keyed["queue_url"].filter(keyed["parked_reason"].is_valid())
    queues = _source_queues(rows, urls.unique().to_pylist())
    keys = []
    for key, queue in zip(texts_of(rows["key"]), queues, strict=True):
        keys.append(in_queue(key, queue) if queue else key)

    counts = Counter[str]()
    for key, count in zip(keys, np.bincount(numbers).tolist(), strict=True):
        counts[key] += count
    largest = sorted(counts, key=lambda key: (-counts[key], key))
    grouping = assign({key: counts[key] for key in largest[:MOST_KEYS]})

    group_ids = [grouping.ids.get(key, OTHERS) for key in keys]
    messages = keyed.drop_columns(["key"])
    for name, values in {"group_id": group_ids, "queue": queues}.items():
        texts = pa.array(values, pa.string()).dictionary_encode()
        messages = messages.append_column(name, texts.take(numbers))
    return messages, grouping


def _source_queues(rows: pa.Table, parked_queues: Collection[str]) -> list[str]:
    """Return the name of the source queue of each message; empty where it is not known.

    It is the queue in the message's context, or else the one that SQS moved it from. To the queues
    *parked_queues* (URLs) a replay function parks messages: SQS moves messages there from the DLQ,
    which is no source queue.
    """
    queues = []
    for row in rows.select(_QUEUE_COLUMNS).to_pylist():
        is_parked = row["queue_url"] in parked_queues
        moved_from = "" if is_parked else (row["source_arn"] or "").rpartition(":")[2]
        queues.append(row["source_queue"] or moved_from)
    return queues


def group_rows(slim: pa.Table) -> list[dict[str, Any]]:
    """Return a row per group, the largest first: its numbers, and ids of messages to show.

    *slim* has ``SLIM_COLUMNS``, ``chance`` and, as dictionaries, ``group_id`` and ``queue`` of each
    message.

    Returns:
        ``group_id, count, body_bytes_sum``; ``_QUANTILES`` of ``body_bytes`` and of ``failed_at``
        (the first known failure, epoch seconds), null where no message has it;
        ``first_parked_at, last_parked_at``; ``shown``: up to five message ids: the first parked,
        the last, one by chance, the shortest and the longest; ``queue``: the source queue of all
        its messages whose queue is known, empty if there are several or none.
    """
    group_ids: Any = combined(slim["group_id"])
    groups = numbered_values(group_ids)
    times = [slim[name].cast(pa.int64()) for name in ("first_seen_at", "sent_at")]
    failed_at = _floats(pc.min_element_wise(*times)) / _MICROSECONDS
    body_bytes = _quantiles(groups, _floats(slim["body_bytes"]))
    failed = _quantiles(groups, failed_at)
    shown = _shown(slim, groups)
    queues = _queues_of(slim, groups)

    rows = slim.select(["body_bytes", "sent_at"]).append_column("group", arrow(groups))
    sums = rows.group_by("group").aggregate(
        [([], "count_all"), ("body_bytes", "sum"), ("sent_at", "min"), ("sent_at", "max")]
    )
    listed: list[dict[str, Any]] = []
    for row in sums.to_pylist():
        group = row["group"]
        listed.append(
            {
                "group_id": group_ids.dictionary[group].as_py(),
                "count": row["count_all"],
                "body_bytes_sum": row["body_bytes_sum"],
                "body_bytes": body_bytes.get(group),
                "failed_at": failed.get(group),
                "first_parked_at": row["sent_at_min"],
                "last_parked_at": row["sent_at_max"],
                "shown": shown[group],
                "queue": queues.get(group, ""),
            }
        )
    return sorted(listed, key=lambda row: (-row["count"], row["group_id"]))


def _queues_of(slim: pa.Table, groups: Numbers) -> dict[int, str]:
    """Return the source queue of each group that has one."""
    columns: list[Any] = [arrow(groups), slim["queue"].cast(pa.string())]
    rows = pa.table(columns, names=["group", "queue"])
    names = defaultdict[int, list[str]](list)
    for pair in rows.group_by(["group", "queue"]).aggregate([]).to_pylist():
        if pair["queue"]:
            names[pair["group"]].append(pair["queue"])
    return {group: queues[0] for group, queues in names.items() if len(queues) == 1}


def _quantiles(groups: Numbers, values: Floats) -> dict[int, list[float]]:
    """Return ``_QUANTILES`` of each group that has a value; NaN is none.

    A quantile is the least value that this share of the values does not exceed.
    """
    has_value = ~np.isnan(values)
    groups = groups[has_value]
    values = values[has_value]
    order = np.lexsort((values, groups))
    groups = groups[order]
    values = values[order]

    percents = np.array(_QUANTILES)
    quantiles = {}
    for start, length in zip(*runs_of(groups), strict=True):
        rounded_up = -(-percents * length // 100)
        positions = start + np.maximum(rounded_up - 1, 0)
        quantiles[int(groups[start])] = values[positions].tolist()
    return quantiles


def _shown(slim: pa.Table, groups: Numbers) -> list[list[str]]:
    """Return the messages of each group that are shown, each once."""
    ids = slim["message_id"]
    times = _numbers(slim["sent_at"].cast(pa.int64()), _NEVER)
    sizes = _numbers(slim["body_bytes"], 0)
    chances = _floats(slim["chance"])
    chosen = (
        _extreme(groups, times, ids, "min"),
        _extreme(groups, times, ids, "max"),
        _extreme(groups, chances, ids, "min"),
        _extreme(groups, sizes, ids, "min"),
        _extreme(groups, sizes, ids, "max"),
    )
    return [list(dict.fromkeys(of_group)) for of_group in zip(*chosen, strict=True)]


def _extreme(
    groups: Numbers,
    values: npt.NDArray[Any],
    ids: Any,  # noqa: ANN401 - an Arrow column
    which: Literal["min", "max"],
) -> list[str]:
    """Return the message of each group with the least value (``min``), or the greatest (``max``).

    Of messages with equal values it is that with the least, or the greatest, id.
    """
    by_group = pa.table({"group": arrow(groups), "value": arrow(values)}).group_by("group")
    extremes = by_group.aggregate([("value", which)]).sort_by("group")[f"value_{which}"]
    is_extreme = values == extremes.to_numpy()[groups]

    candidates = pa.table({"group": arrow(groups), "message_id": ids}).filter(arrow(is_extreme))
    chosen = candidates.group_by("group").aggregate([("message_id", which)]).sort_by("group")
    return texts_of(chosen[f"message_id_{which}"])


def _numbers(column: Any, missing: int) -> Numbers:  # noqa: ANN401 - an Arrow column
    filled: Any = combined(pc.fill_null(column, missing))
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def _floats(column: Any) -> Floats:  # noqa: ANN401 - an Arrow column
    """Return numbers as an array; null is NaN."""
    numbers: Any = combined(column)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def different_messages(slim: pa.Table) -> int:
    """Count messages with different first ids; *slim* has ``first_id`` and ``message_id``."""
    first_ids: Any = pc.coalesce(slim["first_id"], slim["message_id"])
    return int(pc.count_distinct(first_ids).as_py())


def tallies(slim: pa.Table, buckets: range) -> list[dict[str, Any]]:
    """Return ``group_id, column, value, count``: the 100 most frequent values in each group.

    *slim* is as for ``group_rows``. The columns are ``reason``, ``source``, ``replay_count`` and
    ``bucket``: the number of the time bucket of *buckets*, epoch seconds, in which a message was
    sent. A value is a text, or null.
    """
    reasons: Any = slim["parked_reason"].cast(pa.string())
    sources: Any = pc.coalesce(
        slim["source_queue"].cast(pa.string()), slim["source_arn"].cast(pa.string())
    )
    seconds: Any = pc.divide(slim["sent_at"].cast(pa.int64()), _MICROSECONDS)
    values: dict[str, Any] = {
        "reason": pc.fill_null(reasons, PARKED_BY_SQS),
        "source": sources,
        "replay_count": slim["replay_count"].cast(pa.string()),
        "bucket": pc.divide(pc.subtract(seconds, buckets.start), buckets.step).cast(pa.string()),
    }
    group_ids = slim["group_id"].cast(pa.string())
    rows = []
    for name, column in values.items():
        for row in _most_frequent(group_ids, column).to_pylist():
            row["column"] = name
            rows.append(row)
    return rows


def _most_frequent(group_ids: Any, values: Any) -> pa.Table:  # noqa: ANN401 - Arrow columns
    """Return ``group_id, value, count`` of the most frequent values of each group."""
    grouped = pa.table({"group_id": group_ids, "value": values}).group_by(["group_id", "value"])
    counted = grouped.aggregate([([], "count_all")]).rename_columns(["group_id", "value", "count"])
    negative: Any = pc.multiply(counted["count"], pa.scalar(-1))
    texts: Any = counted["value"]
    order = in_order_of(
        {
            "group_id": counted["group_id"],
            "count": negative,
            "is_known": counted["value"].is_valid().cast(pa.int8()),
            "value": texts.fill_null(""),
        }
    )
    ordered = counted.take(arrow(order))

    starts, lengths = runs_of(numbered_values(ordered["group_id"]))
    ranks = np.arange(ordered.num_rows) - np.repeat(starts, lengths)
    return ordered.filter(arrow(ranks < _VALUES))


def sampling_rates(counts: Mapping[str, int], body_bytes: int) -> dict[str, float]:
    """Return the rate at which each group is sampled, by id.

    *counts* has the messages of each group, *body_bytes* is the size of all bodies together.
    """
    messages = max(sum(counts.values()), 1)
    size = min(SAMPLED_MESSAGES, SAMPLED_BYTES / max(body_bytes / messages, 1.0))
    for_all = min(1.0, size / 2 / messages)
    of_each = _equal_part(list(counts.values()), size / 2)

    rates = {}
    for group_id, count in counts.items():
        rate = max(for_all, of_each / count)
        rates[group_id] = min(1.0, rate)
    return rates


def _equal_part(counts: Sequence[int], size: float) -> float:
    """Return the messages of each group for *size* messages in all.

    What small groups do not need is divided among the others.
    """
    size_left = size
    groups_left = len(counts)
    for count in sorted(counts):
        if count * groups_left > size_left:
            return min(size_left / groups_left, _MOST_OF_A_GROUP)
        size_left -= count
        groups_left -= 1
    return _MOST_OF_A_GROUP


def picked(slim: pa.Table, rates: Mapping[str, float], shown: Sequence[list[str]]) -> pa.Table:
    """Return the messages to sample or show: few enough for each task to take all along.

    *shown* are the ids of messages of the groups in *rates*. Returns ``message_id, file, group_id,
    chance, is_sampled, is_shown``.
    """
    column: Any = combined(slim["group_id"])
    rates_of_groups = np.array([rates[group_id] for group_id in texts_of(column.dictionary)], float)
    is_sampled = _floats(slim["chance"]) < rates_of_groups[numbered_values(column)]
    is_shown = is_in(slim["message_id"], list(chain.from_iterable(shown)))

    rows = slim.select(["message_id", FILE, "group_id", "chance"])
    rows = rows.append_column("is_sampled", arrow(is_sampled))
    rows = rows.append_column("is_shown", is_shown)
    return rows.filter(pc.or_(rows["is_sampled"], rows["is_shown"]))
