"""What happened to one dead letter, as far as an archive tells it: frozen values. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from spark_reprocess.actor import Caller
from spark_reprocess.archive.ledger import Outcome, states_of
from spark_reprocess.archive.lookup import FoundAttempt, FoundRow
from spark_reprocess.archive.run_records import RunRecord

UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What one run did with a copy, or meant to.

    Attributes:
        claimed_at: when the run announced it; ISO 8601, UTC, as *settled_at*.
        edit: digest of the edit with which it was sent, empty without one.
        outcome: an ``Outcome``; None while no result is written.
        settled_at: empty without an outcome.
        detail: SQS's error code, or what hid the answer.
        is_canary: whether it went ahead of the others, to see whether it fails.
        caller_arn: see ``Caller``, as for the next two. All three are empty for a run of a version
            that did not record them.
    """

    plan_id: str
    run_id: str
    who: str
    reason: str
    destination: str
    claimed_at: str
    edit: str
    outcome: str | None
    settled_at: str
    new_message_id: str
    detail: str
    is_canary: bool = False
    caller_arn: str | None = None
    caller_fault: str = ""
    job_run_id: str = ""

    @property
    def caller(self) -> Caller:
        """Whose credentials the run acted with."""
        return Caller(self.caller_arn, self.caller_fault, self.job_run_id)


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """One copy that was parked and drained.

    Attributes:
        state: a ``State`` of the ledgers, or ``undecided``.
        drain_ids: every drain that brought a row of it; more than one where a drain was cut short.
        redriven_by: the plan that had put its predecessor back.
        attributes: data type by name.
        body: None unless it was asked for.
        values: the attributes' values, likewise; bytes as hex digits.
    """

    message_id: str
    first_id: str
    state: str
    drain_ids: tuple[str, ...]
    drained_at: datetime | None
    queue_url: str | None
    sent_at: datetime | None
    first_seen_at: datetime | None
    source_arn: str | None
    message_group_id: str | None
    receive_count: int | None
    replay_count: int | None
    redriven_by: str | None
    parked_reason: str | None
    error_type: str | None
    error_message: str | None
    body_bytes: int
    attributes: Mapping[str, str]
    entries: tuple[LedgerEntry, ...]
    body: str | None = None
    values: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterHistory:
    """All archived copies of one dead letter, in the order in which they were parked.

    Attributes:
        asked_id: what was asked for.
        first_ids: of the copies; more than one only where a first id could not be told.
    """

    asked_id: str
    first_ids: tuple[str, ...]
    copies: tuple[ArchivedCopy, ...]


def history_of(
    asked_id: str,
    rows: Sequence[FoundRow],
    attempts: Sequence[FoundAttempt],
    runs: Mapping[tuple[str, str], RunRecord],
    now_seconds: float,
    claim_ttl_seconds: float,
) -> DeadLetterHistory:
    """Put together what was found. Bodies and attributes' values are in it."""
    by_id: dict[str, list[FoundRow]] = {}
    for found in rows:
        by_id.setdefault(found.row["message_id"], []).append(found)
    states = states_of((one.attempt for one in attempts), now_seconds, claim_ttl_seconds)
    copies = [
        _copy(of_one, _entries(message_id, attempts, runs), str(states.get(message_id, UNDECIDED)))
        for message_id, of_one in by_id.items()
    ]
    copies.sort(key=lambda copy: (copy.sent_at is None, copy.sent_at, copy.message_id))
    return DeadLetterHistory(
        asked_id, tuple(sorted({copy.first_id for copy in copies})), tuple(copies)
    )


def _copy(rows: Sequence[FoundRow], entries: tuple[LedgerEntry, ...], state: str) -> ArchivedCopy:
    row = min(rows, key=lambda found: (found.row["drained_at"], found.drain_id)).row
    attributes = dict(row["attributes"] or ())
    texts = ("source_arn", "message_group_id", "parked_reason", "error_type", "error_message")
    numbers = ("receive_count", "replay_count", "body_bytes")
    times = ("drained_at", "sent_at", "first_seen_at")
    return ArchivedCopy(
        message_id=row["message_id"],
        first_id=row["first_id"],
        state=state,
        drain_ids=tuple(sorted({found.drain_id for found in rows})),
        queue_url=row["queue_url"],
        redriven_by=row["plan_id"],
        attributes={name: value["data_type"] for name, value in attributes.items()},
        entries=entries,
        body=row["body"],
        values={name: _value(value) for name, value in attributes.items()},
        **{name: row[name] for name in (*texts, *numbers, *times)},
    )


def _value(value: Mapping[str, str | bytes | None]) -> str:
    binary = value["binary_value"]
    return binary.hex() if isinstance(binary, bytes) else str(value["string_value"])


def _entries(
    message_id: str, attempts: Sequence[FoundAttempt], runs: Mapping[tuple[str, str], RunRecord]
) -> tuple[LedgerEntry, ...]:
    return tuple(
        _entry(message_id, found, runs.get((found.name.plan_id, found.attempt.claim.run_id)))
        for found in attempts
        if message_id in found.attempt.claim.message_ids
    )


def _entry(message_id: str, found: FoundAttempt, run: RunRecord | None) -> LedgerEntry:
    name, attempt = found.name, found.attempt
    claim = attempt.claim
    result = next((one for one in attempt.results or () if one.message_id == message_id), None)
    is_settled = attempt.results is not None
    # A result that leaves a message out says nothing of it: it may have been sent.
    outcome = result.outcome if result else Outcome.IN_DOUBT if is_settled else None
    return LedgerEntry(
        plan_id=name.plan_id,
        run_id=claim.run_id,
        who=claim.who,
        reason=claim.reason,
        destination=claim.destination,
        claimed_at=claim.time,
        edit=claim.edits.get(name.unit, ""),
        outcome=None if outcome is None else str(outcome),
        settled_at=result.time if result else "",
        new_message_id=result.new_message_id if result else "",
        detail=result.detail if result else "",
        is_canary=claim.is_canary,
        **asdict(run.caller if run else Caller()),
    )
