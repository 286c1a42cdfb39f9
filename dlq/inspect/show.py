"""The verb ``show``: the history of one dead letter or of one run, read without Spark."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError

from dlq.archive.group_records import read_pattern
from dlq.archive.ledger.claims import (
    Attempt,
    Result,
    RunRecord,
    find_runs,
    open_run_notes,
    run_records,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import PENDING, entries_of, states_of
from dlq.archive.ledger.stop import Stop, recorded_stop
from dlq.archive.messages.dead_letter_schema import Row, from_row
from dlq.archive.messages.message_index import (
    find_attempts,
    find_rows,
    find_sender,
    ids_that_begin,
    read_reasons,
    shown_table,
)
from dlq.archive.messages.message_store import drain_ids, drain_of, rows_by_file
from dlq.archive.storage.files import NEW_ID, Archive, open_archive
from dlq.aws.actor import Caller
from dlq.aws.clients import aws_client, sqs_client
from dlq.errors import InputError
from dlq.explain.grouping import fits, has_data, words_that_differ
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.explain.signature.signature import SIGNED, frames_of, keys_of
from dlq.figures import counted
from dlq.inspect.outcomes import Outcome, read_outcomes
from dlq.plan.plan import Plan
from dlq.plan.plan_file import find_plan
from dlq_replay.aws.failure_table import FailureTable, table_client_config
from dlq_replay.aws.sqs import describe


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """The arguments of ``show``: see its help."""

    archive: str
    message_id: str
    has_body: bool = False
    is_unmasked: bool = False
    masks: tuple[str, ...] = ()
    failure_table: str | None = None
    plan: str | None = None
    out: str | None = None
    limit: int | None = None


NEWEST = 200
"""Messages of a group that are looked up for its places, at most."""

MOST_READ = 10_000
"""Messages of a group that are read for the words in which its texts differ, at most."""

_MOST_VALUES = 20

_LEAST_START = 4
"""Characters that the beginning of a message id needs at least."""

_NAMED_IDS = 10
"""Ids that are named where several begin with the given characters, at most."""

_UNSETTLED = {Disposition.IN_PROGRESS, Disposition.UNCONFIRMED}

_OUTCOME_TEXTS: dict[str | None, str] = {
    Disposition.FAILED: "not sent",
    Disposition.UNCONFIRMED: "unconfirmed: it may have been sent",
    None: "claimed, no result written",
}


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A claim of one run on a copy, and its result. The times are ISO 8601, UTC.

    docs/reference.md describes the fields of all values here, under "show".
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
    step: int = 0
    caller: Caller = field(default_factory=Caller)

    @property
    def outcome_text(self) -> str:
        """The outcome, for people."""
        return _OUTCOME_TEXTS.get(self.outcome, self.outcome or "")

    @property
    def at(self) -> datetime | None:
        """The time of the outcome; without one, that of the claim."""
        time = self.settled_at or self.claimed_at
        return datetime.fromisoformat(time) if time else None


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """One copy that was parked and drained; by more than one drain if one was interrupted."""

    message_id: str
    first_id: str
    state: str
    drain_ids: tuple[str, ...]
    drained_at: datetime | None
    queue_url: str | None
    sent_at: datetime | None
    first_seen_at: datetime | None
    source_arn: str | None
    source_queue: str | None
    message_group_id: str | None
    receive_count: int | None
    replay_count: int | None
    redriven_by: str | None
    parked_reason: str | None
    error_type: str | None
    error_code: str | None
    error_message: str | None
    error_place: str | None
    body_bytes: int
    attributes: Mapping[str, str]
    entries: tuple[LedgerEntry, ...]
    body: str | None = None
    values: Mapping[str, str] | None = None
    logged: str = ""
    frames: str = ""

    @property
    def source(self) -> str:
        """Name of the source queue, or else ARN of the queue that SQS moved it from; or empty."""
        return self.source_queue or self.source_arn or ""


@dataclass(frozen=True, slots=True)
class DeadLetterHistory:
    """All archived copies of one dead letter, in the order in which they were parked.

    There is more than one first id only if a copy has lost its context. *open_runs* are as
    ``open_run_notes`` returns them, and empty if no copy is in progress or unconfirmed.
    """

    asked_id: str
    first_ids: tuple[str, ...]
    copies: tuple[ArchivedCopy, ...]
    open_runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunHistory:
    """One run, and the outcome of each group of its plan, over all runs; empty without a plan.

    *stopped_by* is why the run ended early; None if it did not, goes on, or was killed.
    """

    run: RunRecord
    outcomes: tuple[Outcome, ...]
    stopped_by: Stop | None = None


@dataclass(frozen=True, slots=True)
class DifferingWord:
    """The words at one ``<*>`` of a group's title: *values* has the most frequent, masked."""

    distinct: int
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupPlaces:
    """The places in consumers' own code that failed on the newest messages of a group.

    Attributes:
        places: the most frequent first.
        fault: why the failure table may not have answered in full.
        words: for each ``<*>`` of the title.
        words_of: the number of messages that *words* counts.
    """

    group_id: str
    messages: int
    looked_up: int
    places: Mapping[str, int]
    fault: str | None
    words: tuple[DifferingWord, ...] = ()
    words_of: int = 0


def show_group(options: ShowOptions) -> GroupPlaces:
    """Count the places at which consumers failed on a group's messages.

    Raises:
        InputError: there is no such plan or group.
    """
    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan()
    group_id = plan.full_id(options.message_id)
    members = group_members(archive, plan, group_id)

    files, ids = _newest_of(members, NEWEST)
    rows_by_id: dict[str, Row] = {}
    for _, rows in rows_by_file(archive, files, ("message_id", "last_id"), ids):
        for row in rows.to_pylist():
            rows_by_id[row["message_id"]] = row

    frames, fault = _recorded_frames(options.failure_table, rows_by_id.values())
    reasons = read_reasons(archive, set(map(drain_of, files)))
    for message_id in rows_by_id.keys() & reasons.keys():
        frames.setdefault(message_id, frames_of(reasons[message_id]["logged"]))
    places = Counter(text.partition("\n")[0] for text in frames.values() if text)

    mask = str if options.is_unmasked else compile_masks(options.masks).text
    words, words_of = differing_words(archive, group_id, members, mask)
    return GroupPlaces(
        group_id=group_id,
        messages=len(members),
        looked_up=len(rows_by_id),
        places=dict(places.most_common()),
        fault=fault,
        words=words,
        words_of=words_of,
    )


def _newest_of(members: pa.Table, most: int) -> tuple[list[str], list[str]]:
    """Return the files and the ids of the newest of *members*."""
    newest = members.sort_by([("sent_at", "descending")]).slice(0, most)
    return sorted(set(_texts(newest["file"]))), _texts(newest["message_id"])


def _texts(column: Any) -> list[str]:  # noqa: ANN401 - an Arrow column
    return list(map(str, column.to_pylist()))


def differing_words(
    archive: Archive, group_id: str, members: pa.Table, mask: Callable[[str], str]
) -> tuple[tuple[DifferingWord, ...], int]:
    """Count the words at each ``<*>`` of a group's title, in its newest messages.

    Args:
        archive: the archive of the group.
        group_id: the group.
        members: its messages, as ``group_members`` returns them.
        mask: masks one word.

    Returns:
        The words at each ``<*>``, none for a group whose texts are equal; and the number of
        messages that were counted.
    """
    pattern = read_pattern(archive, group_id)
    if pattern is None or not has_data(pattern):
        return (), 0

    files, ids = _newest_of(members, MOST_READ)
    reasons = read_reasons(archive, set(map(drain_of, files)))
    counters: list[Counter[str]] = []
    messages = 0
    for _, rows in rows_by_file(archive, files, SIGNED, ids):
        for key in _texts(keys_of(*rows.select(SIGNED).columns, reasons=reasons)):
            if not fits(key, pattern):
                continue

            words = words_that_differ(key, pattern)
            counters = counters or [Counter() for _ in words]
            messages += 1
            for counter, differing in zip(counters, words, strict=True):
                counter[mask(differing)] += 1

    return tuple(map(_differing_word, counters)), messages


def _differing_word(counter: Counter[str]) -> DifferingWord:
    return DifferingWord(len(counter), dict(counter.most_common(_MOST_VALUES)))


def group_members(archive: Archive, plan: Plan, group_id: str) -> pa.Table:
    """Return the rows of ``shown_table`` of the messages that the plan froze in a group.

    Raises:
        InputError: the plan has no table, or the archive has another one.
    """
    table = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    return table.filter(pc.equal(table["group_id"].cast(pa.string()), pa.scalar(group_id)))


def _recorded_frames(
    table: str | None, rows: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, str], str | None]:
    """Return the frames that consumers recorded of the copies that they saw last.

    Returns:
        The frames by message id, and why the table may not have answered in full.
    """
    last_ids: dict[str, str] = {}
    for row in rows:
        last_ids[row["message_id"]] = row["last_id"] or row["message_id"]
    if not table or not last_ids:
        return {}, None

    try:
        client = aws_client("dynamodb", table_client_config())
    except BotoCoreError as error:
        return {}, describe(error)

    failures, fault = FailureTable(client, table).find([*last_ids.values()])
    frames: dict[str, str] = {}
    for message_id, last_id in last_ids.items():
        if last_id in failures:
            frames[message_id] = failures[last_id].frames
    return frames, fault


def show_run(options: ShowOptions) -> RunHistory | None:
    """Find the run whose id is that of the options; None if there is none."""
    archive = open_archive(options.archive)
    run_id = options.message_id
    # No listing for the id of a message.
    runs = find_runs(archive, run_id=run_id) if NEW_ID.fullmatch(run_id) else []
    if not runs:
        return None

    [run] = runs
    outcomes: Mapping[str, Outcome] = {}
    with suppress(InputError):
        plan = find_plan(archive, run.plan_id, takes_files=False).plan()
        outcomes = read_outcomes(archive, plan, options.failure_table, make_client=sqs_client)
    stopped_by = recorded_stop(archive, run.plan_id, run.run_id)
    return RunHistory(run, tuple(outcomes.values()), stopped_by)


def show(
    options: ShowOptions, archive: Archive | None = None, masks: Masks | None = None
) -> DeadLetterHistory:
    """Find every archived copy of a dead letter, and every run that claimed one.

    All that messages and their consumers say is masked unless *is_unmasked*. *archive* and *masks*
    are those of the options, if the caller has them already.

    Raises:
        InputError: the archive does not have the message, or a mask is no regular expression.
    """
    masks = masks or compile_masks(options.masks)
    archive = archive or open_archive(options.archive)
    copies = archived_copies(
        archive,
        _rows_of_dead_letter(archive, options.message_id),
        None if options.is_unmasked else masks,
        has_content=options.has_body or options.is_unmasked,
        failure_table=options.failure_table,
    )

    is_unsettled = any(copy.state in _UNSETTLED for copy in copies)
    return DeadLetterHistory(
        asked_id=options.message_id,
        first_ids=tuple(sorted({copy.first_id for copy in copies})),
        copies=tuple(copies),
        open_runs=tuple(open_run_notes(archive)) if is_unsettled else (),
    )


def archived_copies(
    archive: Archive,
    rows: Sequence[Row],
    masks: Masks | None,
    *,
    has_content: bool = False,
    failure_table: str | None = None,
) -> list[ArchivedCopy]:
    """Return each copy with its state and what runs did with it, in the order of parking.

    Args:
        archive: where the rows are.
        rows: rows of the archive with their ``drain_id``, as ``find_rows`` returns them.
        masks: hide what somebody else wrote; None shows it.
        has_content: whether copies have their body and the values of attributes.
        failure_table: has the frames that consumers recorded; None without one.
    """
    rows_by_id = defaultdict[str, list[Row]](list)
    for row in rows:
        rows_by_id[row["message_id"]].append(row)

    attempts = find_attempts(archive, rows_by_id, [row["sent_at"] for row in rows])
    runs = run_records(archive, {attempt.name.run for attempt in attempts})
    states = states_of(attempts)

    _add_logged_reasons(archive, rows)
    frames, _ = _recorded_frames(failure_table, rows)
    for row in rows:
        row["frames"] = frames.get(row["message_id"], "")

    copies: list[ArchivedCopy] = []
    for message_id, rows_of_copy in rows_by_id.items():
        copy = _copy(
            rows_of_copy,
            masks,
            has_content=has_content,
            state=str(states.get(message_id, PENDING)),
            entries=tuple(_entries(message_id, attempts, runs)),
        )
        copies.append(copy)
    copies.sort(key=lambda copy: (copy.sent_at is None, copy.sent_at, copy.message_id))
    return copies


def _add_logged_reasons(archive: Archive, rows: Iterable[Row]) -> None:
    """Add what was found in logs to the rows whose message has no error of its own."""
    without_error = [row for row in rows if not (row["error_type"] or row["error_message"])]
    if not without_error:
        return

    reasons = read_reasons(archive, {row["drain_id"] for row in without_error})
    for row in without_error:
        reason = reasons.get(row["message_id"])
        if reason:
            row["error_type"] = reason["log_error_type"]
            row["logged"] = reason["logged"]
            row["error_message"] = reason["log_error_message"]


def _rows_of_dead_letter(archive: Archive, asked_id: str) -> list[Row]:
    archived_id = asked_id
    rows = find_rows(archive, [archived_id])
    if not rows and (sender_id := find_sender(archive, asked_id)):
        archived_id = sender_id
        rows = find_rows(archive, [archived_id])

    if not rows:
        entry = entries_of(find_attempts(archive, [archived_id])).get(archived_id)
        if entry:
            raise InputError(
                f"message {asked_id}: gone from the archive, erased or expired; plan "
                f"{entry.plan_id}: {entry.state} at {entry.time}"
            )
        rows = find_rows(archive, [_only_id(archive, asked_id)])

    # Other copies of the same dead letter have the same first id.
    ids = set[str]()
    for row in rows:
        ids.update((row["first_id"], row["message_id"]))
    return find_rows(archive, ids)


def _only_id(archive: Archive, start: str) -> str:
    """Return the first id of the one dead letter with an id that begins with *start*.

    Raises:
        InputError: there is none, or there are several; the text names the first few.
    """
    matches = ids_that_begin(archive, start) if len(start) >= _LEAST_START else {}
    if not matches:
        drains = counted(len(drain_ids(archive)), "drain")
        raise InputError(
            f"message {start}: not in the {drains} of archive {archive.root}, under this id or as "
            "first id, and no redrive sent it; it may still be in a queue: look there with "
            "dlq find ID --queue QUEUE, or collect, then ask again"
        )
    if len(matches) > 1:
        ids = sorted(matches.values())
        more = ", …" if len(ids) > _NAMED_IDS else ""
        raise InputError(
            f"several messages begin with {start}: {', '.join(ids[:_NAMED_IDS])}{more}"
        )
    return next(iter(matches))


_OF_CONSUMER = ("error_type", "error_code", "error_message", "error_place", "logged", "frames")
"""Values that a consumer wrote: they may be any text, whatever they should be."""


def _copy(
    rows: Sequence[Row],
    masks: Masks | None,
    *,
    has_content: bool,
    state: str,
    entries: tuple[LedgerEntry, ...],
) -> ArchivedCopy:
    first = min(rows, key=lambda row: (row["drained_at"], row["drain_id"]))
    shown: Row = {}
    for column in fields(ArchivedCopy):
        if column.name in first:
            shown[column.name] = first[column.name]

    types: dict[str, str] = {}
    values: dict[str, str | bytes] = {}
    for name, attribute in from_row(first).attributes.items():
        types[name] = attribute.data_type
        values[name] = attribute.value

    shown |= {
        "state": state,
        "drain_ids": tuple(sorted({row["drain_id"] for row in rows})),
        "redriven_by": first["plan_id"],
        "attributes": types,
        "entries": entries,
        "body": None,
    }
    if has_content:
        shown["body"] = first["body"] or ""
        shown["values"] = values

    shown = _unmasked(shown) if masks is None else _masked(shown, masks)
    return ArchivedCopy(**shown)


def _unmasked(shown: Row) -> Row:
    """Format the values that are bytes."""
    if "values" not in shown:
        return shown
    texts: dict[str, str] = {}
    for name, value in shown["values"].items():
        texts[name] = value if isinstance(value, str) else value.hex()
    return {**shown, "values": texts}


def _masked(shown: Row, masks: Masks) -> Row:
    """Mask each value of a copy that somebody else wrote."""
    masked = dict(shown)
    for name in _OF_CONSUMER:
        if shown.get(name):
            masked[name] = masks.text(shown[name])
    if shown["message_group_id"]:
        masked["message_group_id"] = masks.value("message_group_id", shown["message_group_id"])
    if shown["body"] is not None:
        masked["body"] = masks.value("body", shown["body"])
        masked["values"] = {}
        for name, value in shown["values"].items():
            masked["values"][name] = masks.value(f"attribute.{name}", value)
    return masked


def _entries(
    message_id: str, attempts: Sequence[Attempt], runs: Mapping[tuple[str, str], RunRecord]
) -> Iterator[LedgerEntry]:
    for attempt in attempts:
        claim = attempt.claim
        if message_id not in claim.message_ids:
            continue

        result = _result_of(message_id, attempt.results or ())
        run = runs.get(attempt.name.run)
        yield LedgerEntry(
            plan_id=attempt.name.plan_id,
            run_id=attempt.name.run_id,
            who=claim.who,
            reason=claim.reason,
            destination=claim.destination,
            claimed_at=claim.time,
            edit=claim.edits.get(message_id, ""),
            outcome=None if attempt.results is None else str(result.outcome),
            settled_at=result.time,
            new_message_id=result.new_message_id,
            detail=result.detail,
            step=claim.step,
            caller=run.caller if run else Caller(),
        )


def _result_of(message_id: str, results: Iterable[Result]) -> Result:
    for result in results:
        if result.message_id == message_id:
            return result
    # A result without the message leaves open whether it was sent.
    return Result(message_id, Disposition.UNCONFIRMED, "")
