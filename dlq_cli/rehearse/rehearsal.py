"""A rehearsal: a consumer's code over the archived messages of one group. Nothing is sent.

Each message reaches the handler as a redrive of the plan would deliver it: edited, and with the
attributes that a redrive adds. The verdicts go into the archive when all messages have one.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq_cli.rehearse.endpoint import Endpoint, Forward
from dlq_cli.rehearse.events import Source, event_of
from dlq_cli.rehearse.sandbox import Code, Sandbox, image_id
from dlq_cli.rehearse.stubs import Stub
from dlq_cli.rehearse.verdicts import (
    Failure,
    Kind,
    doubt_of,
    failure_of,
    kinds_of,
    network_reason,
    verdict_of,
)
from dlq_replay.addresses import QueueAddress
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import redriven_entry
from spark_reprocess.actor import actor
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.signature import has_error, signature_of
from spark_reprocess.archive.dead_letter_schema import from_row
from spark_reprocess.archive.disposition import DECIDED
from spark_reprocess.archive.erasures import erasures, unfinished
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledgers import claimed_table
from spark_reprocess.archive.lookup import find_rows
from spark_reprocess.archive.message_index import Member, read_members
from spark_reprocess.archive.message_store import rows_of_file
from spark_reprocess.archive.rehearsals import (
    MessageVerdict,
    Rehearsal,
    Verdict,
    new_rehearsal_id,
    remove_verdicts,
    write_rehearsal,
)
from spark_reprocess.clients import region_of
from spark_reprocess.editing.edit import AttributeChange, Edit, EditError
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.progress import HowFar, Progress

Row = Mapping[str, Any]
AttributeChanges = Callable[[Sequence[Row], Edit], Mapping[str, Sequence[AttributeChange]]]
"""Evaluates an edit's ``set_attributes`` on rows; by message id."""

_BATCH_MESSAGES = 500
_CLAIM_TTL_SECONDS = 900.0
_OTHER_FILES = ".git", "__pycache__", ".venv", "node_modules"


@dataclass(frozen=True, slots=True)
class RehearsalOptions:
    """What to rehearse, and with what.

    Attributes:
        plan: a file, or the id of its report; None for that of the newest report.
        main_queue_url: the source queue of messages that do not name theirs; None if unknown.
        stubs: answers to reads.
        allowed: reads that are made at AWS.
        limit: rehearse at most so many undecided messages, the first of the plan's order.
    """

    archive: str
    plan: str | None
    group: str
    main_queue_url: str | None
    code: Code
    stubs: Sequence[Stub] = ()
    allowed: Collection[str] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """A finished rehearsal.

    Attributes:
        verdicts: in the order of the plan.
        missing_messages: how many of the group the archive does not hold any more.
    """

    rehearsal: Rehearsal
    verdicts: Sequence[MessageVerdict]
    missing_messages: int

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The verdicts, added up by reason."""
        return kinds_of(self.verdicts)


def rehearse(
    options: RehearsalOptions,
    forward: Forward,
    attribute_changes: AttributeChanges,
    masks: Masks,
    progress: Progress,
    log: IO[bytes] | None = None,
) -> RehearsalResult:
    """Rehearse what is undecided of a group, and store the verdicts. Sends nothing to any queue.

    Interrupted, it stores nothing.

    Raises:
        InputError: the plan has no such group, the archive lacks its messages, all of them are
            decided, the handler cannot be imported, or this machine cannot isolate it.
        ArchiveError: the archive cannot be read or written.
    """
    archive = open_archive(options.archive)
    plan = read_plan(find_plan(archive, options.plan).read()).only(options.group)
    known_erasures = {one.erase_id for one in erasures(archive)}
    # What these name may still be read here, after they have looked for verdicts. They are listed
    # last: one that begins in between is in neither list, and new in the end.
    known_erasures.difference_update(one.erase_id for one in unfinished(archive))
    members = _members(archive, plan, options)
    edit = plan.edits.get(options.group)
    endpoint = Endpoint(options.stubs, options.allowed, forward)
    how_far, verdicts = HowFar(len(members)), list[MessageVerdict]()
    recorded = Counter[str]()
    with Sandbox(options.code, endpoint.answer, log) as sandbox:
        started = sandbox.start()
        digest = code_digest(options.code)
        at_import = [network_reason(host) for host in started.hosts]
        at_import += endpoint.take_traffic().missing
        rehearser = _Rehearser(options, plan.plan_id, endpoint, sandbox, masks, at_import)
        with progress("rehearsing", lambda: how_far.line(len(verdicts))):
            for rows in _batches(archive, members):
                changes = {} if edit is None else _changes(attribute_changes, rows, edit)
                own_kinds = _own_kinds(rows)
                for row in rows:
                    verdict = rehearser.verdict(row, edit, changes, own_kinds)
                    verdicts.append(verdict)
                    recorded += rehearser.recorded
    if not verdicts:
        raise InputError(f"group {options.group}: the archive holds none of its messages any more")
    # They came file by file.
    places = {member.message_id: place for place, member in enumerate(members)}
    verdicts.sort(key=lambda one: places[one.message_id])
    counts = Counter(one.verdict for one in verdicts)
    rehearsal = Rehearsal(
        rehearsal_id=new_rehearsal_id(archive, plan.plan_id, options.group, time.time()),
        plan_id=plan.plan_id,
        group_id=options.group,
        handler=options.code.handler,
        code=digest,
        edit="" if edit is None else edit.digest,
        who=actor(),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        counts={verdict.value: counts[verdict] for verdict in Verdict},
        recorded=dict(sorted(recorded.items())),
        is_isolated=options.code.is_isolated,
        python=started.python,
    )
    stored = write_rehearsal(archive, rehearsal, verdicts)
    _require_not_erased(archive, known_erasures, {one.message_id for one in verdicts})
    return RehearsalResult(stored, verdicts, len(members) - len(verdicts))


def code_digest(code: Code) -> str:
    """Return the image's id, or a digest of the files in the folder with the code.

    A folder's digest is that of the paths and contents of its files, but for version control,
    environments and caches.
    """
    if code.folder is None:
        return f"image {image_id(code.image or '')}"
    total = hashlib.sha256()
    for path in sorted(_files(code.folder)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(code.folder)} {content}\n".encode())
    return f"sha256 {total.hexdigest()}"


def _require_not_erased(
    archive: Archive, known_erasures: Collection[str], message_ids: Collection[str]
) -> None:
    """Remove the verdicts again if an erasure, which removes verdicts, may have missed them.

    Args:
        archive: where they are.
        known_erasures: that had ended before the first message was read.
        message_ids: that have a verdict.

    Raises:
        InputError: some of the messages were erased meanwhile.
    """
    new = (one for one in erasures(archive) if one.erase_id not in known_erasures)
    erased = {message_id for erasure in new for message_id in erasure.drains}
    if remove_verdicts(archive, erased & set(message_ids)):
        raise InputError("messages of the group were erased meanwhile: rehearse it again")


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in _OTHER_FILES]
        yield from (path for name in names if (path := Path(root, name)).is_file())


def _members(archive: Archive, plan: Plan, options: RehearsalOptions) -> list[Member]:
    digest = plan.snapshot.table_sha256
    if digest is None:
        raise InputError(
            f"plan {plan.plan_id}: was made by an older version and names no table of its "
            "messages: analyze again"
        )
    members = read_members(archive, plan.plan_id, digest, options.group)
    decided = _decided(archive)
    left = [member for member in members if member.message_id not in decided]
    if members and not left:
        raise InputError(f"group {options.group}: each of its messages is redriven or discarded")
    return left[: options.limit]


def _decided(archive: Archive) -> frozenset[str]:
    """Return the ids of messages that no redrive sends any more."""
    claimed = claimed_table(archive, time.time(), _CLAIM_TTL_SECONDS)
    is_decided = pc.is_in(claimed["state"], value_set=pa.array([str(one) for one in DECIDED]))
    return frozenset(map(str, claimed.filter(is_decided)["message_id"].to_pylist()))


def _batches(archive: Archive, members: Sequence[Member]) -> Iterator[list[Row]]:
    """Yield the rows of *members*, each once, at most as many at a time as one file has.

    A file with several of them is read once. A file that an erasure has replaced is searched for.
    """
    files: dict[str, list[str]] = {}
    for member in members:
        files.setdefault(member.file, []).append(member.message_id)
    for path, ids in files.items():
        of_file = rows_of_file(archive, path, ids)
        if of_file is None:
            found = find_rows(archive, ids)
            rows = [one.row for one in found if one.row["message_id"] in set(ids)]
        else:
            rows = of_file.to_pylist()
        by_id: dict[str, Row] = {row["message_id"]: row for row in rows}
        in_order = [by_id[one] for one in ids if one in by_id]
        for start in range(0, len(in_order), _BATCH_MESSAGES):
            yield in_order[start : start + _BATCH_MESSAGES]


def _changes(
    attribute_changes: AttributeChanges, rows: Sequence[Row], edit: Edit
) -> Mapping[str, Sequence[AttributeChange]]:
    return attribute_changes(rows, edit) if edit.set_attributes else {}


def _own_kinds(rows: Iterable[Row]) -> frozenset[str] | None:
    """Return the ids of the signatures of recorded failures, None where none was recorded."""
    found = {
        signature_of(row["body"], row["parked_reason"], *error).group_id
        for row in rows
        if has_error(*(error := (row["error_type"], row["error_message"])))
    }
    return frozenset(found) or None


@dataclass(slots=True)
class _Rehearser:
    """Rehearses one message after the other.

    Attributes:
        at_import: what the import of the handler asked for and did not get: it concerns each.
        recorded: what the last message would have written.
    """

    options: RehearsalOptions
    plan_id: str
    endpoint: Endpoint
    sandbox: Sandbox
    masks: Masks
    at_import: Sequence[str]
    recorded: Mapping[str, int] = field(default_factory=dict)

    def verdict(
        self,
        row: Row,
        edit: Edit | None,
        changes: Mapping[str, Sequence[AttributeChange]],
        own_kinds: frozenset[str] | None,
    ) -> MessageVerdict:
        """Return the verdict on the message of an archived row."""
        self.recorded = {}
        message_id, code = row["message_id"], self.options.code
        try:
            source = source_of(row, self.options.main_queue_url, code.region)
            message, entry = delivered(
                row, self.plan_id, edit, changes.get(message_id, ()), to_fifo=source.is_fifo
            )
        except InputError as error:
            return verdict_of(message_id, row["body"], None, [str(error)], None, self.masks)
        except EditError as error:
            failure = Failure("EditFailed", str(error))
            return verdict_of(message_id, row["body"], failure, (), None, self.masks)
        event = event_of(message, entry, source, int(time.time() * 1000))
        outcome = self.sandbox.run(event)
        traffic = self.endpoint.take_traffic()
        missing = [*self.at_import, *traffic.missing, *map(network_reason, outcome.hosts)]
        missing += filter(None, [doubt_of(outcome.result)])
        failure_found = failure_of(outcome.result, message_id, code.timeout_seconds)
        self.recorded = traffic.written
        return verdict_of(message_id, entry.body, failure_found, missing, own_kinds, self.masks)


def delivered(
    row: Row,
    plan_id: str,
    edit: Edit | None,
    changes: Sequence[AttributeChange],
    *,
    to_fifo: bool,
) -> tuple[Message, SendEntry]:
    """Return an archived message, edited, and the copy of it that a redrive of the plan sends.

    Raises:
        EditError: the edit does not fit it; a redrive leaves it.
    """
    message = from_row(row)
    if edit is not None:
        message = edit.apply(message, changes)
    entry = redriven_entry(message, plan_id, to_fifo=to_fifo)
    if edit is not None and CONTEXT_ATTRIBUTE not in entry.attributes:
        raise EditError(f"it has no room for {CONTEXT_ATTRIBUTE}, which names its origin")
    return message, entry


def source_of(row: Row, main_queue_url: str | None, region: str) -> Source:
    """Return the queue that a message goes back to.

    Raises:
        InputError: nothing says which it is.
    """
    parked = row["queue_url"] or main_queue_url or ""
    name = row["source_queue"]
    if name is None and main_queue_url is None and row["source_arn"]:
        name = row["source_arn"].rpartition(":")[2]
    if name is None and main_queue_url is None:
        raise InputError("its source queue is not recorded: give --main-queue-url")
    try:
        address = QueueAddress.from_url(main_queue_url or parked)
    except ValueError as error:
        raise InputError(f"queue {main_queue_url or parked}: {error}") from error
    region = region_of(main_queue_url or parked, region)
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    queue = name or address.name
    return Source(f"arn:{partition}:sqs:{region}:{address.account_id}:{queue}", region)
