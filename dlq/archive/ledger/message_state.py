"""The state of a message by the ledgers of all plans. Only this module has these rules.

| an attempt at the message | state | strength |
|---|---|---|
| result ``sent`` | ``sent`` | 3 |
| result ``restored`` | ``restored`` | 2 |
| no result, and its run is not closed | ``in_progress`` | 1 |
| no result, and its run is closed | ``unconfirmed`` | 0 |
| result ``unconfirmed``, or a result that leaves the message out | ``unconfirmed`` | 0 |
| result ``discarded`` | ``discarded`` | 0 |
| result ``failed`` | none: it changes nothing | |

Of several attempts one holds:

1. The strongest one.
2. Of equally strong ones that of the later run: of the run with the greater number of the archive
   lock. The clocks of machines may be days off. So no clock decides between two runs, nor when a
   claim without a result is unconfirmed.
3. Of those of one run that with the later time, by its result or, without one, its claim.
4. Of equally late ones ``unconfirmed``.

Without any attempt the message is ``PENDING``. So a message that was sent once stays sent. A
discard settles an unconfirmed message, and a later restore without an answer makes it unconfirmed
again. A refused attempt leaves it unconfirmed: an earlier one may have arrived.

``states_of`` is the pure form of these rules, ``strongest`` the form in Arrow. Both take the
greatest ``StateEntry``. ``open_set`` stores it for the next reader.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.claims import Attempt
from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.run_results import ADVICE, IN_MESSAGES, ResultFile
from dlq.archive.messages.message_store import combined, is_in
from dlq.errors import ArchiveError

STRENGTH: Mapping[Disposition, int | None] = {
    Disposition.FAILED: None,
    Disposition.DISCARDED: 0,
    Disposition.UNCONFIRMED: 0,
    Disposition.IN_PROGRESS: 1,
    Disposition.RESTORED: 2,
    Disposition.SENT: 3,
}
"""By state; None for an outcome that is not a state."""

PENDING = "pending"
"""Archived, and neither sent nor discarded nor restored by any plan."""

ERASED = "erased"
"""In a plan, and erased before anybody decided about it."""

SETTLED = (*map(str, DECIDED), ERASED)
"""States that need no decision any more. All others are pending."""


class StateEntry(NamedTuple):
    """The state of one message by one attempt. Of several the greatest holds.

    >>> doubt = StateEntry(0, 9, "2026-03-05T04:00:00.000+00:00", Disposition.UNCONFIRMED, "p-1")
    >>> discard = StateEntry(0, 10, "2026-03-02T04:00:00.000+00:00", Disposition.DISCARDED, "p-2")
    >>> sent = StateEntry(3, 8, "2026-03-01T04:00:00.000+00:00", Disposition.SENT, "p-1")

    The run of the discard had the later lock, although its clock was days behind:

    >>> str(max(doubt, discard).state)
    'discarded'

    A message that was sent stays sent, whatever a later run says:

    >>> str(max(doubt, discard, sent).state)
    'sent'

    Attributes:
        strength: as in ``STRENGTH``.
        lock: as in ``Claim``.
        time: of the result, or of the claim where there is none; ISO 8601, UTC.
    """

    strength: int
    lock: int
    time: str
    state: Disposition
    plan_id: str


def entries_of(attempts: Iterable[Attempt]) -> dict[str, StateEntry]:
    """Return, by message id, the entry that holds. Pure."""
    holding: dict[str, StateEntry] = {}
    for attempt in attempts:
        for message_id, entry in _entries(attempt):
            holding[message_id] = max(entry, holding.get(message_id, entry))
    return holding


def _entries(attempt: Attempt) -> Iterator[tuple[str, StateEntry]]:
    """Yield the id and the entry of each message of an attempt, except those that failed."""
    without_result = Disposition.IN_PROGRESS if attempt.is_in_progress else Disposition.UNCONFIRMED
    results = {result.message_id: result for result in attempt.results or ()}

    for message_id in attempt.claim.message_ids:
        result = results.get(message_id)
        state = result.outcome if result else without_result
        time = result.time if result else attempt.claim.time
        strength = STRENGTH[state]
        if strength is not None:
            entry = StateEntry(
                strength=strength,
                lock=attempt.claim.lock,
                time=time,
                state=state,
                plan_id=attempt.name.plan_id,
            )
            yield message_id, entry


def states_of(attempts: Iterable[Attempt]) -> dict[str, Disposition]:
    """Return the state of each message that these attempts claimed, except those that failed."""
    entries = entries_of(attempts)
    return {message_id: entry.state for message_id, entry in entries.items()}


_CLAIMED_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "strength": pa.int32(),
    "lock": pa.int64(),
    "time": pa.string(),
    "state": pa.string(),
    "plan_id": pa.string(),
    "drain_id": pa.string(),
}
CLAIMED = pa.schema(_CLAIMED_TYPES)
"""A ``StateEntry`` per attempt and message: a message may have several rows.

``drain_id`` is null where it is not known.
"""

_STATES = pa.array(map(str, STRENGTH), pa.string())
_STRENGTHS = pa.array(STRENGTH.values(), pa.int32())
_READ = (
    "plan_id",
    "lock",
    "time",
    "has_result",
    f"{IN_MESSAGES}message_id",
    f"{IN_MESSAGES}outcome",
    f"{IN_MESSAGES}time",
    f"{IN_MESSAGES}drain_id",
)
_LOCK_DIGITS = 12
BETWEEN = "\x1f"
"""Smaller than every character of a time, a state or a plan's id: texts sort as entries do."""


def claimed_rows(attempts: Iterable[Attempt]) -> pa.RecordBatch:
    """Return ``CLAIMED`` of some attempts."""
    rows = []
    for attempt in attempts:
        claim = attempt.claim
        drain_ids = dict(zip(claim.message_ids, claim.drain_ids, strict=False))
        for message_id, entry in entries_of([attempt]).items():
            drain_id = drain_ids.get(message_id)
            rows.append({"message_id": message_id, "drain_id": drain_id, **entry._asdict()})
    return pa.RecordBatch.from_pylist(rows, schema=CLAIMED)


def claimed_in(file: ResultFile) -> tuple[pa.Table, bool]:
    """Return ``CLAIMED`` of a result file, and whether all its claims have their results."""
    batches = []
    lacks_results = False
    for rows in file.batches(_READ):
        has_result = rows.column("has_result")
        lacks_results = lacks_results or not pc.all(has_result).as_py()
        batches.append(_rows_of_results(file, rows.filter(has_result)))

    is_whole = True
    if lacks_results:
        for rows in file.batches():
            late = file.attempts_of(rows.filter(pc.invert(rows.column("has_result"))))
            is_whole = is_whole and all(attempt.results is not None for attempt in late)
            batches.append(claimed_rows(late))
    return pa.Table.from_batches(batches, CLAIMED), is_whole


def _rows_of_results(file: ResultFile, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do what ``claimed_rows`` does, without an object for each message."""
    messages = batch.column("messages")
    each = pc.list_flatten(messages)

    states = pc.fill_null(pc.struct_field(each, "outcome"), str(Disposition.UNCONFIRMED))
    state_numbers = pc.index_in(states, value_set=_STATES)
    if state_numbers.null_count:
        # To leave the message out would be to call it pending, and to send it again.
        raise ArchiveError(
            f"archive {file.archive.root}: {file.path} has an unknown outcome; somebody changed "
            f"it: {ADVICE}"
        )
    strengths = _STRENGTHS.take(state_numbers)

    claims = batch.select(["plan_id", "lock", "time"]).take(pc.list_parent_indices(messages))
    columns = {
        "message_id": pc.struct_field(each, "message_id"),
        "strength": strengths,
        "lock": claims.column("lock"),
        "time": pc.coalesce(pc.struct_field(each, "time"), claims.column("time")),
        "state": states,
        "plan_id": claims.column("plan_id"),
        "drain_id": pc.struct_field(each, "drain_id"),
    }
    rows = pa.RecordBatch.from_pydict(columns, schema=CLAIMED)
    return rows.filter(strengths.is_valid())


def entry_texts(claimed: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return a text of each entry that sorts as the entry does: a million texts sort faster."""
    fields: list[Any] = [claimed[name].cast(pa.string()) for name in StateEntry._fields]
    lock = StateEntry._fields.index("lock")
    fields[lock] = pc.utf8_lpad(fields[lock], _LOCK_DIGITS, "0")
    return pc.binary_join_element_wise(*fields, BETWEEN)


def field_in(entries: Any, name: str) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return a field of each of these texts, as a text; null for null."""
    return pc.list_element(pc.split_pattern(entries, BETWEEN), StateEntry._fields.index(name))


def states_in(entries: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return the state in each of these texts; ``PENDING`` for null."""
    return pc.fill_null(field_in(entries, "state"), PENDING)


def strongest(claimed: pa.Table, *keys: str) -> pa.Table:
    """Return *keys*, and for each combination of them the ``state`` that holds."""
    entries = claimed.append_column("entry", entry_texts(claimed))
    holding = entries.group_by(list(keys)).aggregate([("entry", "max")])
    return holding.select(list(keys)).append_column("state", states_in(holding["entry_max"]))


def states_among(claimed: pa.Table, message_ids: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return the state of each of these messages, in their order."""
    states = strongest(claimed.filter(is_in(claimed["message_id"], message_ids)), "message_id")
    indices = pc.index_in(message_ids, value_set=combined(states["message_id"]))
    return pc.fill_null(pc.take(combined(states["state"]), indices), PENDING)
