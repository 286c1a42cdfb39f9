"""The state of a message: what the ledgers of all plans say of it. The one place with these rules.

| an attempt at the message | state | strength |
|---|---|---|
| result ``sent`` | ``sent`` | 3 |
| result ``restored`` | ``restored`` | 2 |
| no result, and its run is not closed | ``busy`` | 1 |
| no result, and its run is closed | ``in_doubt`` | 0 |
| result ``in_doubt``, or a result that leaves the message out | ``in_doubt`` | 0 |
| result ``discarded`` | ``discarded`` | 0 |
| result ``failed`` | none: it changes nothing | |

Of several attempts the strongest holds. Of equally strong ones that of the later run holds: of the
run with the greater number of the archive lock, since the clocks of machines may be days off. No
clock decides between two runs, nor when a claim without a result is in doubt. Of the attempts
of one run that with the later time holds, by its result or, without one, its claim; of equally late
ones ``in_doubt``. Without any, the message is ``PENDING``. So what was sent once stays sent. A
discard settles a message in doubt, and a later restore without an answer puts it in doubt again. A
refused attempt leaves it in doubt: an earlier one may have arrived.

``states_of`` is the pure form of these rules, ``strongest`` the form in Arrow. Both take the
greatest ``Entry``. ``open_set`` keeps it for the next reader.
"""

from collections.abc import Iterable, Mapping
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
    Disposition.IN_DOUBT: 0,
    Disposition.BUSY: 1,
    Disposition.RESTORED: 2,
    Disposition.SENT: 3,
}
"""By state; None for the outcome that is none."""

PENDING = "pending"
"""Archived, and neither sent nor discarded nor restored by any plan."""

ERASED = "erased"
"""In a plan, and erased before anybody decided about it."""

SETTLED = (*map(str, DECIDED), ERASED)
"""States that need no decision any more. All others are pending."""


class Entry(NamedTuple):
    """What one attempt says of one message. Of several the greatest holds.

    Attributes:
        lock: as in ``Claim``.
        time: of the result, or of the claim where there is none; ISO 8601, UTC.
    """

    strength: int
    lock: int
    time: str
    state: Disposition
    plan_id: str


def entries_of(attempts: Iterable[Attempt]) -> dict[str, Entry]:
    """Return, by message id, the entry that holds. Pure."""
    holding: dict[str, Entry] = {}
    for attempt in attempts:
        state = Disposition.BUSY if attempt.is_busy else Disposition.IN_DOUBT
        unknown = state, attempt.claim.time
        known = {one.message_id: (one.outcome, one.time) for one in attempt.results or ()}
        for message_id in attempt.claim.message_ids:
            state, said_at = known.get(message_id, unknown)
            if (strength := STRENGTH[state]) is not None:
                entry = Entry(strength, attempt.claim.lock, said_at, state, attempt.name.plan_id)
                holding[message_id] = max(entry, holding.get(message_id, entry))
    return holding


def states_of(attempts: Iterable[Attempt]) -> dict[str, Disposition]:
    """Return the state of each message that these attempts claimed, but for those that failed."""
    entries = entries_of(attempts)
    return {message_id: entry.state for message_id, entry in entries.items()}


_TYPES = {"strength": pa.int32(), "lock": pa.int64()}
_OF_ENTRY = [(name, _TYPES.get(name, pa.string())) for name in Entry._fields]
CLAIMED = pa.schema([("message_id", pa.string()), *_OF_ENTRY, ("drain_id", pa.string())])
"""An ``Entry`` per attempt and message: a message may have several rows.

``drain_id`` is null where nobody knows the drain.
"""

_STATES = pa.array([str(one) for one in STRENGTH])
_STRENGTHS = pa.array(list(STRENGTH.values()), pa.int32())
_READ = (
    "plan_id",
    "lock",
    "time",
    "has_result",
    *(f"{IN_MESSAGES}{one}" for one in ("message_id", "outcome", "time", "drain_id")),
)
_LOCK_DIGITS = 12
BETWEEN = "\x1f"
"""Smaller than every sign of a time, a state or a plan's id, so that texts sort as entries do."""


def claimed_rows(attempts: Iterable[Attempt]) -> pa.RecordBatch:
    """Return ``CLAIMED`` of some attempts."""
    entries = []
    for attempt in attempts:
        drains = dict(zip(attempt.claim.message_ids, attempt.claim.drain_ids, strict=False))
        for message_id, entry in entries_of([attempt]).items():
            ids = {"message_id": message_id, "drain_id": drains.get(message_id)}
            entries.append({**ids, **entry._asdict()})
    return pa.RecordBatch.from_pylist(entries, schema=CLAIMED)


def claimed_in(file: ResultFile) -> tuple[pa.Table, bool]:
    """Return ``CLAIMED`` of a result file, and whether all its claims have their results."""
    batches, lacks_results, is_whole = [], False, True
    for rows in file.batches(_READ):
        has_result = rows.column("has_result")
        lacks_results = lacks_results or not pc.all(has_result).as_py()
        batches.append(_rows_of_results(file, rows.filter(has_result)))
    for rows in file.batches() if lacks_results else ():
        late = file.attempts_of(rows.filter(pc.invert(rows.column("has_result"))))
        is_whole = is_whole and all(one.results is not None for one in late)
        batches.append(claimed_rows(late))
    return pa.Table.from_batches(batches, CLAIMED), is_whole


def _rows_of_results(file: ResultFile, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do what ``entries_of`` does, without an object for each message."""
    messages = batch.column("messages")
    each = pc.list_flatten(messages)
    states = pc.fill_null(pc.struct_field(each, "outcome"), str(Disposition.IN_DOUBT))
    known = pc.index_in(states, value_set=_STATES)
    if known.null_count:
        # To leave the message out would be to call it pending, and to send it again.
        raise ArchiveError(
            f"archive {file.archive.root}: {file.path} has an unknown outcome; somebody changed "
            f"it: {ADVICE}"
        )
    strengths = _STRENGTHS.take(known)
    claims = batch.select(["plan_id", "lock", "time"]).take(pc.list_parent_indices(messages))
    said_at = pc.coalesce(pc.struct_field(each, "time"), claims.column("time"))
    ids = pc.struct_field(each, "message_id")
    drain_ids = pc.struct_field(each, "drain_id")
    locks, plan_ids = claims.column("lock"), claims.column("plan_id")
    columns = [ids, strengths, locks, said_at, states, plan_ids, drain_ids]
    return pa.RecordBatch.from_arrays(columns, schema=CLAIMED).filter(strengths.is_valid())


def entry_texts(claimed: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return a text for each entry, in the same order: to sort a million entries takes longer."""
    fields: list[Any] = [claimed[name].cast(pa.string()) for name in Entry._fields]
    lock = Entry._fields.index("lock")
    fields[lock] = pc.utf8_lpad(fields[lock], _LOCK_DIGITS, "0")
    return pc.binary_join_element_wise(*fields, BETWEEN)


def field_in(entries: Any, name: str) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return a field of each of these texts, as a text; null for null."""
    return pc.list_element(pc.split_pattern(entries, BETWEEN), Entry._fields.index(name))


def states_in(entries: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return the state that each of these texts says; ``PENDING`` for null."""
    return pc.fill_null(field_in(entries, "state"), PENDING)


def strongest(claimed: pa.Table, *keys: str) -> pa.Table:
    """Return *keys* and the ``state`` that holds of each combination of them."""
    entries = claimed.append_column("entry", entry_texts(claimed))
    holding = entries.group_by(list(keys)).aggregate([("entry", "max")])
    return holding.select(list(keys)).append_column("state", states_in(holding["entry_max"]))


def states_among(claimed: pa.Table, message_ids: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return the state of each of these messages, in their order."""
    states = strongest(claimed.filter(is_in(claimed["message_id"], message_ids)), "message_id")
    places = pc.index_in(message_ids, value_set=combined(states["message_id"]))
    return pc.fill_null(pc.take(combined(states["state"]), places), PENDING)
