"""One task of a redrive or restore: claim messages, send them, write what became of them.

In this order: claim, look for the marker ``closing``, send, record. Nothing is sent before its
claim is durable. So wherever the task dies, the ledger names every message that may be on its way.
Nothing is sent by a run that somebody has closed, see ``claims``. Only what SQS confirmed is called
sent.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

import pyarrow as pa

from dlq.archive.ledger.claims import (
    CHUNK_END,
    Attempt,
    Claim,
    Ledger,
    Result,
    read_attempt,
    run_folder,
    sent_text,
    timestamp,
)
from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.messages.dead_letter_schema import from_row
from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import arrow_fields
from dlq.aws.clients import CONCURRENT_CALLS, ClientFactory
from dlq.engine import ATTEMPT, STOPPED
from dlq.errors import ArchiveError
from dlq.plan.edit import EditError
from dlq.redrive.resolving.editor import Editor
from dlq.redrive.sending.rate_limited_queue import GlobalErrorDetector, RateLimitedQueue
from dlq.redrive.sending.rate_limiter import WINDOW_SECONDS, RateLimiter
from dlq.redrive.sending.stop_signals import StopSignals, stop_marker
from dlq.redrive.sending.task_context import TaskContext
from dlq.redrive.summary import EXAMPLES, Tally
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.replaying.sending import (
    Confirmed,
    NotSent,
    Refused,
    SendResult,
    Shipment,
    Unconfirmed,
    WritableQueue,
    send_groups,
)
from dlq_replay.wire.message import Message

STOP_CAUSE = "stop_cause"
"""A column: the ``StopCause`` in the row that says why the task stopped, else empty."""

SETTLED = pa.schema({**arrow_fields(Tally), STOP_CAUSE: pa.string()})
"""The rows that ``SendTask.run`` yields: one for each ``Tally``, and one for a ``Stop``."""

TASK = "task"
"""A column: which task sends a row, counted from 0."""

_PROGRESS_SECONDS = 2.0
_CALLS_SECONDS = 630.0
"""Calls of a chunk may begin until this time after its claim, however often SQS throttles them."""

_ANSWERS_SECONDS = 720.0
"""A task waits for answers until this time after its claim; a send without one is unconfirmed."""


class OutgoingMessage(NamedTuple):
    """One message as it is to be sent; *disposition* is ``send``, ``discard``, or why neither.

    Attributes:
        content: the archived message with its edits.
        drain_id: of the drain that brought it.
        sent_at: its SentTimestamp; None if nobody knows it.
    """

    group_id: str
    disposition: str
    content: Message
    drain_id: str = ""
    sent_at: datetime | None = None

    @property
    def message_id(self) -> str:
        """The archived copy's id."""
        return self.content.message_id


class SettledMessage(NamedTuple):
    """One message, what became of it, and why."""

    message: OutgoingMessage
    disposition: Disposition
    detail: str = ""


class _PlannedMessage(NamedTuple):
    """A message, and why it makes no work; None if it does."""

    message: OutgoingMessage
    disposition: Disposition | None


def _merged(
    part: Iterable[_PlannedMessage], acted: Iterable[SettledMessage]
) -> list[SettledMessage]:
    """Put what became of a claim's messages between those that made no work, in their order."""
    acted_by_id = {settled.message.message_id: settled for settled in acted}
    merged: list[SettledMessage] = []
    for planned in part:
        if planned.disposition is None:
            merged.append(acted_by_id[planned.message.message_id])
        else:
            merged.append(SettledMessage(planned.message, planned.disposition))
    return merged


def _settled(message: OutgoingMessage, result: Result) -> SettledMessage:
    """Return what a result of this run says of a message."""
    if result.detail == Disposition.NOT_REACHED:
        return SettledMessage(message, Disposition.NOT_REACHED)
    return SettledMessage(message, result.outcome, result.detail)


@dataclass(slots=True)
class ChunkSender:
    """Settles chunks, one after the other, in the order in which they are given.

    Attributes:
        queue_until: makes the queue for calls that may begin until then, epoch seconds.
        claim_messages: asked before each claim: how many messages it may have, at least 1.
        ledger: of this run.
    """

    queue_until: Callable[[float], WritableQueue]
    claim_messages: Callable[[], float]
    executor: Executor
    ledger: Ledger
    context: TaskContext
    signals: StopSignals
    now_seconds: Callable[[], float]
    _blocked_groups: set[str] = field(default_factory=set)

    def settle_all(
        self, chunks: Iterable[tuple[str, int, Sequence[OutgoingMessage]]]
    ) -> Iterator[list[SettledMessage]]:
        """Settle chunk after chunk, see ``settle``, until all are done or the task must stop.

        Where the ledger cannot be used, the whole run stops.
        """
        for unit, chunk, messages in chunks:
            if not self.signals.look():
                return
            try:
                yield from self.settle(unit, chunk, messages)
            except ArchiveError as error:
                self.signals.stop(Stop(StopCause.ARCHIVE, str(error)))
                return

    def settle(
        self, unit: str, chunk: int, messages: Sequence[OutgoingMessage]
    ) -> Iterator[list[SettledMessage]]:
        """Send or discard the messages of one chunk, claim by claim, in their order.

        The messages follow from the run's dispositions, so each task that is started for them sees
        the same ones. A claim of this run that is there already was made by an earlier start of
        this task, or by one that goes on: what it says counts, and what it may be sending is left.

        On a FIFO queue the first message of a group that is not confirmed blocks the group, here
        and in every later chunk. An error that concerns more than this chunk stops the whole run.

        Yields:
            What became of the messages, in their order. What is not yielded was not reached.

        Raises:
            ArchiveError: the ledger cannot be read or written; nothing more was sent.
        """
        first = 0
        while first < len(messages):
            if not self.signals.may_go_on():
                return

            part = self._next_part(messages[first:])
            work = [planned.message for planned in part if planned.disposition is None]
            end = first + len(part)
            claim_end = CHUNK_END if end == len(messages) else end

            if not work:
                settled = _merged(part, ())
                self._block_groups(settled)
                yield settled
            elif self.ledger.claim(unit, chunk, self._claim(work, claim_end), first):
                record = partial(self.ledger.record, unit, chunk, first=first)
                settled = _merged(part, self._act(work, record))
                self._block_groups(settled)
                yield settled
            else:
                attempt = read_attempt(self.ledger.archive, self.ledger.name(unit, chunk, first))
                if attempt is None or attempt.results is None:
                    # Whoever made it may be sending now, and goes on with this chunk.
                    yield self._in_progress(messages[first:])
                    return
                end = min(attempt.claim.end, len(messages))
                yield self._recorded(messages[first:end], attempt)

            first = end

    def _next_part(self, left: Sequence[OutgoingMessage]) -> list[_PlannedMessage]:
        """Return as many messages as one claim may have, and those between them that it has not."""
        part: list[_PlannedMessage] = []
        room = self.claim_messages()
        blocked = set(self._blocked_groups)
        for message in left:
            if room <= 0:
                break
            disposition = self._reason_to_leave(message, blocked)
            part.append(_PlannedMessage(message, disposition))
            if disposition is None:
                room -= 1
            elif self._blocks_group(message, disposition):
                blocked.add(self._group_of(message))
        return part

    def _in_progress(self, messages: Iterable[OutgoingMessage]) -> list[SettledMessage]:
        settled = [SettledMessage(message, Disposition.IN_PROGRESS) for message in messages]
        self._block_groups(settled)
        return settled

    def _recorded(
        self, messages: Iterable[OutgoingMessage], attempt: Attempt
    ) -> list[SettledMessage]:
        """Return what an earlier start of this task recorded of these messages."""
        results = {result.message_id: result for result in attempt.results or ()}
        settled: list[SettledMessage] = []
        for message in messages:
            result = results.get(message.message_id)
            if result:
                settled.append(_settled(message, result))
                continue
            # It was left out of the claim, so it was not sent; why may have been another reason.
            reason = self._reason_to_leave(message, self._blocked_groups)
            settled.append(SettledMessage(message, reason or Disposition.NOT_REACHED))
        self._block_groups(settled)
        return settled

    def _reason_to_leave(
        self, message: OutgoingMessage, blocked_groups: Collection[str]
    ) -> Disposition | None:
        """Return why a message makes no work; None if it does."""
        if message.disposition not in WORK:
            return Disposition(message.disposition)
        is_sent = message.disposition == Disposition.SEND
        if is_sent and blocked_groups and self._group_of(message) in blocked_groups:
            return Disposition.WAITS
        return None

    def _claim(self, work: Sequence[OutgoingMessage], end: int) -> Claim:
        edits = self.context.editor.edits
        digests: dict[str, str] = {}
        sent_times: list[str] = []
        for message in work:
            if message.disposition == Disposition.SEND and message.group_id in edits:
                digests[message.message_id] = edits[message.group_id].digest
            if message.sent_at:
                sent_times.append(sent_text(message.sent_at))

        # A span that lacks a message would say that it is not in it.
        has_all_times = len(sent_times) == len(work)
        return Claim(
            who=self.context.who,
            reason=self.context.request.reason,
            destination=self.context.destination,
            time=timestamp(self.now_seconds()),
            message_ids=tuple(message.message_id for message in work),
            edits=digests,
            step=self.context.step,
            end=end,
            lock=self.context.lock.number if self.context.lock else 0,
            drain_ids=tuple(message.drain_id for message in work),
            first_sent_at=min(sent_times) if has_all_times else "",
            last_sent_at=max(sent_times) if has_all_times else "",
        )

    def _act(
        self, work: Sequence[OutgoingMessage], record: Callable[[list[Result]], None]
    ) -> list[SettledMessage]:
        """Send or discard what was claimed just now, unless the run is closed; record it."""
        if self._is_closing():
            answers: Mapping[str, SendResult] = {message.message_id: NotSent() for message in work}
        else:
            answers = self._send(work)

        time = timestamp(self.now_seconds())
        results = [self._result(message, answers.get(message.message_id), time) for message in work]
        try:
            record(results)
        except ArchiveError as error:
            why = str(error)
            self.signals.stop(Stop(StopCause.ARCHIVE, why))
            return [SettledMessage(message, Disposition.UNCONFIRMED, why) for message in work]

        return [_settled(message, result) for message, result in zip(work, results, strict=True)]

    def _result(self, message: OutgoingMessage, answer: SendResult | None, time: str) -> Result:
        result = partial(Result, message.message_id, time=time)
        match answer:
            case Confirmed(new_message_id):
                is_restore = self.context.is_restore
                confirmed = Disposition.RESTORED if is_restore else Disposition.SENT
                return result(confirmed, new_message_id=new_message_id)
            case Refused(code):
                return result(Disposition.FAILED, detail=code)
            case Unconfirmed(cause):
                return result(Disposition.UNCONFIRMED, detail=cause)
            case NotSent():
                return result(Disposition.FAILED, detail=Disposition.NOT_REACHED)
        if message.disposition == Disposition.DISCARD:
            return result(Disposition.DISCARDED)
        # Each send has an answer. A message without one must not count as decided.
        return result(Disposition.UNCONFIRMED, detail="no answer")

    def _is_closing(self) -> bool:
        """Return whether another run closes this one, and may have missed the claim made just now.

        Return true, too, if the ledger cannot be read.
        """
        try:
            is_closing = self.ledger.is_closing()
        except ArchiveError as error:
            self.signals.stop(Stop(StopCause.ARCHIVE, str(error)))
            return True

        if is_closing:
            why = "another run has closed this one, which seemed dead"
            self.signals.stop_task(Stop(StopCause.LOCK_LOST, why))
        return is_closing

    def _send(self, work: Sequence[OutgoingMessage]) -> Mapping[str, SendResult]:
        began_at = self.now_seconds()
        queue = self.queue_until(began_at + _CALLS_SECONDS)
        until_seconds = began_at + _ANSWERS_SECONDS

        groups: defaultdict[str, list[Shipment]] = defaultdict(list)
        for message in work:
            if message.disposition == Disposition.SEND:
                entry = self.context.entry(message.content, message.group_id)
                groups[self._group_of(message)].append(Shipment(message.message_id, queue, entry))

        return send_groups(
            groups.values(), self.executor, lambda: until_seconds - self.now_seconds()
        )

    def _group_of(self, message: OutgoingMessage) -> str:
        """Return the name of what must arrive in order: a FIFO message group, or one message."""
        message_group = message.content.message_group_id
        if message_group is None or not self.context.to_fifo:
            return message.message_id
        return message_group

    def _block_groups(self, settled: Iterable[SettledMessage]) -> None:
        for settled_message in settled:
            message = settled_message.message
            if self._blocks_group(message, settled_message.disposition):
                self._blocked_groups.add(self._group_of(message))

    def _blocks_group(self, message: OutgoingMessage, disposition: Disposition) -> bool:
        """Return whether later messages of its FIFO message group must wait for this one."""
        is_discard = message.disposition == Disposition.DISCARD
        return self.context.to_fifo and not is_discard and disposition.blocks_group


@dataclass(frozen=True, slots=True)
class SendTask:
    """The work of each task, with all that it needs; an engine calls ``run``.

    Attributes:
        stage: names the sends among those of the run.
        windows: of each task, the messages that it may send in ten seconds; None for no limit.
    """

    archive: Archive
    context: TaskContext
    make_sender: ClientFactory
    stage: str
    windows: Sequence[int] | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle the rows of one task, sorted by ``POSITION`` and id; yield the counts.

        A row has ``SENDING_COLUMNS``, ``sent_at``, ``CHANGES``, ``DRAIN_ID``, ``group_id``,
        ``disposition``, ``POSITION`` and ``TASK``; others do not matter. What is not counted was
        not reached. ``read_settled`` reads the rows. Never raises for what SQS or the archive does.
        """
        rows = _rows(batches)
        first_row = next(rows, None)
        if first_row is None:
            return

        context = self.context
        task = first_row[TASK]
        marker = stop_marker(context.plan_id, context.run_id, self.stage)
        signals = StopSignals(self.archive, marker, context.lock, is_abandoned=STOPPED.get())
        folder = progress_folder(context, self.stage)
        counts = _Counts(self.archive, f"{folder}/task-{task:05d}.json")

        if self._may_start(signals):
            chunks = self._chunks(chain([first_row], rows))
            window = None if self.windows is None else self.windows[task]
            limiter = RateLimiter(window, waits_first=context.limit.per_minute is not None)
            with ThreadPoolExecutor(CONCURRENT_CALLS, "send") as executor:
                sender = self._sender(signals, limiter, executor)
                for settled in sender.settle_all(chunks):
                    counts.add(settled)

        rows_settled = settled_rows(counts.tallies(), signals.stopped_by)
        yield pa.RecordBatch.from_pylist(rows_settled, schema=SETTLED)

    def _chunks(
        self, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[str, int, Sequence[OutgoingMessage]]]:
        """Yield the unit, the number and the messages of each chunk, made when it is reached."""
        rows_by_chunk = groupby(rows, lambda row: (row["unit"], row["chunk"]))
        for (unit, chunk), rows_of_chunk in rows_by_chunk:
            messages = [_outgoing(row, self.context.editor) for row in rows_of_chunk]
            # A stage has messages of its own, in chunks of its own.
            yield f"{self.stage}.{unit}", chunk, messages

    def _may_start(self, signals: StopSignals) -> bool:
        """Check the archive, and wait where an earlier attempt counts against the rate."""
        if self.context.proof:
            try:
                self.context.proof.check(self.archive)
            except ArchiveError as error:
                # A claim on this machine's own disk would keep nobody else from sending, and a stop
                # marker would reach nobody.
                signals.stop_task(Stop(StopCause.ARCHIVE, str(error)))

        if ATTEMPT.get() > 1 and self.windows is not None:
            # What the attempt before this one sent last still counts against the rate.
            signals.wait(WINDOW_SECONDS)
        return not signals.stopped_by

    def _sender(
        self, signals: StopSignals, limiter: RateLimiter, executor: Executor
    ) -> ChunkSender:
        url = self.context.destination
        sqs_queue = SqsQueue(self.make_sender(url), url, tries_once=True)
        errors = GlobalErrorDetector()

        def queue_until(until_seconds: float) -> RateLimitedQueue:
            return RateLimitedQueue(
                queue=sqs_queue,
                signals=signals,
                limiter=limiter,
                errors=errors,
                until_seconds=until_seconds,
                now_seconds=time.time,
                uniform=random.uniform,
                is_fifo=self.context.to_fifo,
            )

        return ChunkSender(
            queue_until=queue_until,
            claim_messages=lambda: limiter.claim_messages,
            executor=executor,
            ledger=Ledger(self.archive, self.context.plan_id, self.context.run_id),
            context=self.context,
            signals=signals,
            now_seconds=time.time,
        )


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _outgoing(row: Mapping[str, Any], editor: Editor) -> OutgoingMessage:
    disposition = row["disposition"]
    try:
        content = editor.message(row) if disposition == Disposition.SEND else from_row(row)
    except EditError:
        # Resolving the plan found no fault, so an expression gave another value now: leave it.
        content = from_row(row)
        disposition = Disposition.EDIT_FAILED
    return OutgoingMessage(
        group_id=row["group_id"],
        disposition=disposition,
        content=content,
        drain_id=row["drain_id"],
        sent_at=row["sent_at"],
    )


class _Counts:
    """The numbers of a task's messages, by group, disposition and detail."""

    def __init__(self, archive: Archive, progress_file: str) -> None:
        self._archive = archive
        self._progress_file = progress_file
        self._published_at = time.monotonic()
        self._counts = Counter[tuple[str, str, str]]()
        self._examples: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)

    def add(self, settled: Iterable[SettledMessage]) -> None:
        """Count the messages of a claim, and keep the ids of the first few."""
        for settled_message in settled:
            message = settled_message.message
            key = (message.group_id, settled_message.disposition, settled_message.detail)
            self._counts[key] += 1
            if len(self._examples[key]) < EXAMPLES:
                self._examples[key].append(message.message_id)

        if time.monotonic() - self._published_at >= _PROGRESS_SECONDS:
            self._published_at = time.monotonic()
            # For the operator's eyes alone: an archive that cannot be written stops the next claim.
            with suppress(ArchiveError):
                self._archive.write(self._progress_file, str(self._counts.total()).encode())

    def tallies(self) -> Iterator[Tally]:
        """Yield one for each group, disposition and detail."""
        for (group_id, disposition, detail), count in self._counts.items():
            examples = tuple(self._examples[group_id, disposition, detail])
            yield Tally(group_id, disposition, count, detail, examples)


def settled_rows(tallies: Iterable[Tally], stopped_by: Stop | None) -> list[dict[str, Any]]:
    """Return the rows of ``SETTLED``: counts of one task, and why it stopped, if it did."""
    rows = [{**asdict(tally), STOP_CAUSE: ""} for tally in tallies]
    if stopped_by:
        nothing = Tally("", Disposition.NOT_REACHED, 0, stopped_by.detail)
        rows.append({**asdict(nothing), STOP_CAUSE: stopped_by.cause.value})
    return rows


def read_settled(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Tally], list[Stop]]:
    """Read rows of ``SETTLED`` of any number of tasks: what they counted, and why some stopped."""
    tallies: list[Tally] = []
    stops: list[Stop] = []
    for row in rows:
        if row[STOP_CAUSE]:
            stops.append(Stop(StopCause(row[STOP_CAUSE]), row["detail"]))
            continue
        tally = Tally(
            group_id=row["group_id"],
            disposition=row["disposition"],
            count=row["count"],
            detail=row["detail"],
            examples=tuple(row["examples"]),
        )
        tallies.append(tally)
    return tallies, stops


def progress_folder(context: TaskContext, stage: str) -> str:
    """Return where each task writes how many messages it has settled, every two seconds."""
    return f"{run_folder(context.plan_id, context.run_id)}/progress/{stage}"
