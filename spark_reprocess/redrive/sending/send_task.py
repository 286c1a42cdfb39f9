"""One Spark task of a redrive or restore: claim messages, send them, write what became of them.

Nothing is sent before its claim is durable. So wherever the task dies, the ledger names every
message that may be on its way. Only what SQS confirmed is called sent.
"""

import gc
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.replaying.sending import (
    Confirmed,
    InDoubt,
    NotSent,
    Queue,
    Refused,
    SendResult,
    Shipment,
    send_groups,
)
from dlq_replay.wire.message import Message
from spark_reprocess.archive.ledger.claims import (
    POSITION,
    Attempt,
    Claim,
    Ledger,
    Result,
    open_ranges,
    run_folder,
    sent_text,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import BEFORE, DECIDED, WORK, Disposition
from spark_reprocess.archive.ledger.message_state import states_of
from spark_reprocess.archive.ledger.run_results import without_late
from spark_reprocess.archive.ledger.stop import Stop, StopCause
from spark_reprocess.archive.messages.dead_letter_schema import SENDING_COLUMNS, from_row
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.table_parts import arrow_fields
from spark_reprocess.aws.clients import CONCURRENT_CALLS, ClientFactory
from spark_reprocess.editing.edit import EditError
from spark_reprocess.errors import ArchiveError
from spark_reprocess.redrive.redrive_values import EXAMPLES, RestoreOptions, Tally
from spark_reprocess.redrive.resolving.editor import CHANGES, Editor
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.rate_limited_queue import GlobalErrorDetector, RateLimitedQueue
from spark_reprocess.redrive.sending.rate_limiter import WINDOW_SECONDS, RateLimiter
from spark_reprocess.redrive.sending.stop_signals import StopSignals, stop_marker

STOP_CAUSE = "stop_cause"
"""A column: the ``StopCause`` in the row that says why the task stopped, else empty."""

SETTLED = pa.schema({**arrow_fields(Tally), STOP_CAUSE: pa.string()})
"""What ``SendTask.run`` yields: a row for each ``Tally``, and one for a ``Stop``."""

TASK = "task"
"""A column: which task sends a row, counted from 0."""

TASK_COLUMNS = (
    *(*SENDING_COLUMNS, "sent_at", CHANGES, "drain_id"),
    *("group_id", "disposition", *POSITION, TASK),
)
"""What ``SendTask.run`` needs of a row; the others stay where they are."""

_PROGRESS_SECONDS = 2.0
_LIMIT_SECONDS = 10.0
"""How often a task reads the circuit breaker's limit."""

# Shares of a claim's life, which begins at the claim's own time. Calls may begin until the first,
# answers are waited for until the second. When the life is over, others may take the messages for
# lost.
_CALLS_SHARE = 0.7
_ANSWERS_SHARE = 0.8


class Item(NamedTuple):
    """One message as it is to be sent; *disposition* is ``send``, ``discard``, or why neither.

    Attributes:
        place: in its chunk; others may have the same.
        drain_id: of the drain that brought it.
        sent_at: its SentTimestamp; None if nobody knows it.
    """

    group_id: str
    place: int
    disposition: str
    message: Message
    drain_id: str = ""
    sent_at: datetime | None = None

    @property
    def message_id(self) -> str:
        """The archived copy's id."""
        return self.message.message_id


class Settled(NamedTuple):
    """What became of one item, and why."""

    item: Item
    word: Disposition
    detail: str = ""


@dataclass(slots=True)
class ChunkSender:
    """Settles chunks, one after the other, in the order in which they are given.

    Attributes:
        queue_until: makes the queue for a claim whose calls may begin until then, epoch seconds.
        claim_messages: asked before each claim: how many messages it may have, at least 1.
    """

    queue_until: Callable[[float], Queue]
    claim_messages: Callable[[], float]
    executor: Executor
    ledger: Ledger
    context: RunContext
    signals: StopSignals
    now_seconds: Callable[[], float]
    _blocked_groups: set[str] = field(default_factory=set)

    def settle_all(
        self, chunks: Iterable[tuple[str, int, Sequence[Item]]]
    ) -> Iterator[list[Settled]]:
        """Settle chunk after chunk, see ``settle``, until all are done or the task must stop.

        Where the ledger cannot be used, the whole run stops.
        """
        for unit, chunk, items in chunks:
            if not self.signals.look():
                return
            try:
                yield from self.settle(unit, chunk, items)
            except ArchiveError as error:
                self.signals.stop(Stop(StopCause.ARCHIVE, str(error)))
                return

    def settle(self, unit: str, chunk: int, items: Sequence[Item]) -> Iterator[list[Settled]]:
        """Send or discard the items of one chunk that are still open, claim by claim.

        Items stand in the order of their places, in which they must arrive. On a FIFO queue the
        first message of a group that is not confirmed blocks the group, here and in every later
        chunk. An error that concerns more than this chunk stops the whole run.

        Yields:
            What became of the items, in their order. What is not yielded was not reached.

        Raises:
            ArchiveError: the ledger cannot be read or written; nothing more was sent.
        """
        all_attempts = self.ledger.attempts(unit, chunk)
        attempts = without_late(self.ledger.archive, all_attempts)
        now, ttl = self.now_seconds(), self.context.request.claim_ttl_seconds
        left = deque(items)
        if any(self._may_be_sent(attempt, now, ttl) for attempt in attempts):
            yield self._busy(left)
            return
        # Another run may have acted since this one was resolved.
        states = states_of(attempts, now, ttl)
        ours = states_of((a for a in attempts if a.claim.run_id == self.context.run_id), now, ttl)
        for number, first, most_end in open_ranges(all_attempts):
            begin = first
            while left and left[0].place < most_end:
                if not self.signals.may_go_on():
                    return
                part = self._next_part(left, most_end, states, ours)
                work = [item for item, word in part if word is None]
                done: Mapping[str, Settled] = {}
                if work:
                    end = left[0].place if left and left[0].place < most_end else most_end
                    # Others count the claim's age from this moment, so the deadlines below do too:
                    # writing the claim takes time, and may take long.
                    claimed_at = self.now_seconds()
                    claim = self._claim(work, end, claimed_at)
                    if not self.ledger.claim(unit, chunk, number, claim, begin):
                        # Another run goes on with this chunk.
                        yield self._busy([*(item for item, _ in part), *left])
                        return
                    record = partial(self.ledger.record, unit, chunk, number, first=begin)
                    done = {one.item.message_id: one for one in self._act(work, claimed_at, record)}
                    self._block_groups(done.values())
                    begin = end
                yield [
                    Settled(item, word) if word else done[item.message_id] for item, word in part
                ]

    def _may_be_sent(self, attempt: Attempt, now: float, ttl: float) -> bool:
        """Whether somebody may be sending the messages of this attempt at this moment."""
        # An executor that seems lost may still work for this run, and its clock may be off.
        is_ours = attempt.results is None and attempt.claim.run_id == self.context.run_id
        return is_ours or attempt.is_busy(now, ttl)

    def _next_part(
        self,
        left: deque[Item],
        end: int,
        states: Mapping[str, Disposition],
        ours: Mapping[str, Disposition],
    ) -> list[tuple[Item, Disposition | None]]:
        """Take as many items before *end* as one claim may have; None is for those that it has.

        One claim has all items of one place, even if they are more.
        """
        part: list[tuple[Item, Disposition | None]] = []
        room = self.claim_messages()
        # A claim ends between two places, so those at one place go together.
        while left and left[0].place < end and (room > 0 or left[0].place == part[-1][0].place):
            item = left.popleft()
            word = self._word(item, states.get(item.message_id), ours.get(item.message_id))
            part.append((item, word))
            if word:
                self._block_groups([Settled(item, word)])
            else:
                room -= 1
        return part

    def _busy(self, items: Iterable[Item]) -> list[Settled]:
        settled = [Settled(item, Disposition.BUSY) for item in items]
        self._block_groups(settled)
        return settled

    def _word(
        self, item: Item, state: Disposition | None, ours: Disposition | None
    ) -> Disposition | None:
        if item.disposition not in WORK:
            return Disposition(item.disposition)
        if state in DECIDED:
            # Spark runs a lost task again: what its first attempt did counts as this run's.
            if item.disposition == Disposition.RECORD and ours is state:
                return Disposition.ARRIVED
            return state if ours is state else BEFORE[state]
        is_sent = item.disposition == Disposition.SEND
        if is_sent and state is Disposition.IN_DOUBT and self.context.request.in_doubt != "send":
            return Disposition.IN_DOUBT
        if is_sent and self._blocked_groups and self._group_of(item) in self._blocked_groups:
            return Disposition.WAITS
        return None

    def _claim(self, work: Sequence[Item], end: int, claimed_at: float) -> Claim:
        edits = self.context.editor.edits
        edited = (i for i in work if i.disposition == Disposition.SEND and i.group_id in edits)
        known = sorted(sent_text(item.sent_at) for item in work if item.sent_at)
        is_known = len(known) == len(work)
        return Claim(
            run_id=self.context.run_id,
            who=self.context.who,
            reason=self.context.request.reason,
            destination=self.context.destination,
            time=timestamp(claimed_at),
            message_ids=tuple(item.message_id for item in work),
            ttl_seconds=self.context.request.claim_ttl_seconds,
            edits={item.message_id: edits[item.group_id].digest for item in edited},
            step=self.context.step,
            end=end,
            lock=self.context.lock.number if self.context.lock else 0,
            drain_ids=tuple(item.drain_id for item in work),
            first_sent_at=known[0] if is_known else "",
            last_sent_at=known[-1] if is_known else "",
        )

    def _act(
        self, work: Sequence[Item], claimed_at: float, record: Callable[[list[Result]], None]
    ) -> list[Settled]:
        if self._is_closing():
            answers: Mapping[str, SendResult] = {item.message_id: NotSent() for item in work}
        else:
            answers = self._send(claimed_at, work)
        time = timestamp(self.now_seconds())
        results = [self._result(item, answers.get(item.message_id), time) for item in work]
        try:
            record(results)
        except ArchiveError as error:
            self.signals.stop(Stop(StopCause.ARCHIVE, str(error)))
            return [Settled(item, Disposition.IN_DOUBT, str(error)) for item in work]
        return [
            Settled(item, Disposition(result.detail))
            if result.detail in (Disposition.NOT_REACHED, Disposition.ARRIVED)
            else Settled(item, result.outcome, result.detail)
            for item, result in zip(work, results, strict=True)
        ]

    def _result(self, item: Item, answer: SendResult | None, time: str) -> Result:
        result = partial(Result, item.message_id, time=time)
        match answer:
            case Confirmed(new_message_id):
                is_restore = isinstance(self.context.request, RestoreOptions)
                confirmed = Disposition.RESTORED if is_restore else Disposition.SENT
                return result(confirmed, new_message_id=new_message_id)
            case Refused(code):
                return result(Disposition.FAILED, detail=code)
            case InDoubt(cause):
                return result(Disposition.IN_DOUBT, detail=cause)
            case NotSent():
                return result(Disposition.FAILED, detail=Disposition.NOT_REACHED)
        if item.disposition == Disposition.RECORD:
            return result(Disposition.SENT, detail=Disposition.ARRIVED)
        return result(Disposition.DISCARDED)

    def _is_closing(self) -> bool:
        """Whether the claim that was made just now may be missing in the run's result file."""
        try:
            is_closing = self.ledger.is_closing(self.context.run_id)
        except ArchiveError as error:
            self.signals.stop(Stop(StopCause.ARCHIVE, str(error)))
            return True
        if is_closing:
            why = "another run has closed this one, which seemed dead"
            self.signals.stop_task(Stop(StopCause.LOCK_LOST, why))
        return is_closing

    def _send(self, claimed_at: float, work: Sequence[Item]) -> Mapping[str, SendResult]:
        ttl = self.context.request.claim_ttl_seconds
        queue = self.queue_until(claimed_at + ttl * _CALLS_SHARE)
        until = claimed_at + ttl * _ANSWERS_SHARE
        groups: defaultdict[str, list[Shipment]] = defaultdict(list)
        for item in work:
            if item.disposition == Disposition.SEND:
                entry = self.context.entry(item.message, item.group_id)
                groups[self._group_of(item)].append(Shipment(item.message_id, queue, entry))
        return send_groups(groups.values(), self.executor, lambda: until - self.now_seconds())

    def _group_of(self, item: Item) -> str:
        """What must arrive in order: a FIFO message group; elsewhere each message by itself."""
        group = item.message.message_group_id
        return item.message_id if group is None or not self.context.to_fifo else group

    def _block_groups(self, settled: Iterable[Settled]) -> None:
        if self.context.to_fifo:
            self._blocked_groups |= {
                self._group_of(one.item)
                for one in settled
                if one.item.disposition != Disposition.DISCARD and one.word.blocks_group
            }


@dataclass(frozen=True, slots=True)
class SendTask:
    """What each task carries; ``run`` is what Spark calls.

    Attributes:
        stage: names the sends among those of the run.
        windows: of each task, the messages that it may send in ten seconds; None for no limit.
    """

    archive: Archive
    context: RunContext
    make_sender: ClientFactory
    stage: str
    windows: Sequence[int] | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle the rows of one partition, sorted by ``POSITION``; yield the counts.

        What is not counted was not reached. ``read_settled`` reads the rows. Never raises for what
        SQS or the archive does.
        """
        # As in the replay function: garbage collections took much time and found nothing.
        gc.set_threshold(50_000)
        rows = (row for batch in batches for row in batch.to_pylist())
        first = next(rows, None)
        if first is None:
            return
        context, task = self.context, first[TASK]
        marker = stop_marker(context.plan_id, context.run_id, self.stage)
        signals = StopSignals(self.archive, marker, context.lock)
        folder = progress_folder(context, self.stage)
        counts = _Counts(self.archive, f"{folder}/task-{task:05d}.json")
        if self._may_start(signals):
            window = None if self.windows is None else self.windows[task]
            of_chunks = groupby(chain([first], rows), lambda row: (row["unit"], row["chunk"]))
            chunks = (
                (unit, chunk, [_item(row, context.editor) for row in of_chunk])
                for (unit, chunk), of_chunk in of_chunks
            )
            limiter = RateLimiter(window, waits_first=context.limit.per_minute is not None)
            with ThreadPoolExecutor(CONCURRENT_CALLS, "send") as executor:
                for settled in self._sender(signals, limiter, executor).settle_all(chunks):
                    counts.add(settled)
        rows_settled = settled_rows(counts.tallies(), signals.stopped_by)
        yield pa.RecordBatch.from_pylist(rows_settled, schema=SETTLED)

    def _may_start(self, signals: StopSignals) -> bool:
        if self.context.probe:
            try:
                self.context.probe.check(self.archive)
            except ArchiveError as error:
                # A claim on this machine's own disk would keep nobody else from sending, and a stop
                # marker would reach nobody.
                signals.stop_task(Stop(StopCause.ARCHIVE, str(error)))
        spark_task = TaskContext.get()
        if spark_task and spark_task.attemptNumber() > 0 and self.windows is not None:
            # What the attempt before this one sent last still counts against the rate.
            signals.wait(WINDOW_SECONDS)
        return not signals.stopped_by

    def _sender(
        self, signals: StopSignals, limiter: RateLimiter, executor: Executor
    ) -> ChunkSender:
        url, is_fifo = self.context.destination, self.context.to_fifo
        queue, errors = SqsQueue(self.make_sender(url), url, tries_once=True), GlobalErrorDetector()
        return ChunkSender(
            claim_messages=lambda: limiter.claim_messages,
            queue_until=lambda until: RateLimitedQueue(
                *(queue, signals, limiter, errors, until, time.time, random.uniform), is_fifo
            ),
            executor=executor,
            ledger=Ledger(self.archive, self.context.plan_id),
            context=self.context,
            signals=signals,
            now_seconds=time.time,
        )


def _item(row: dict[str, Any], editor: Editor) -> Item:
    disposition = row["disposition"]
    try:
        message = editor.message(row) if disposition == Disposition.SEND else from_row(row)
    except EditError:
        # Resolving the plan found no fault, so an expression gave another value now: leave it.
        message, disposition = from_row(row), Disposition.EDIT_FAILED
    return Item(
        row["group_id"], row["place"], disposition, message, row["drain_id"], row["sent_at"]
    )


class _Counts:
    """What became of a task's messages, by group, word and detail."""

    def __init__(self, archive: Archive, progress_file: str) -> None:
        self._archive = archive
        self._progress_file = progress_file
        self._published_at = time.monotonic()
        self._counts = Counter[tuple[str, str, str]]()
        self._examples: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)

    def add(self, settled: Iterable[Settled]) -> None:
        """Count the messages of a claim, and keep the ids of the first few."""
        for one in settled:
            key = (one.item.group_id, one.word, one.detail)
            self._counts[key] += 1
            if len(self._examples[key]) < EXAMPLES:
                self._examples[key].append(one.item.message_id)
        if time.monotonic() - self._published_at >= _PROGRESS_SECONDS:
            self._published_at = time.monotonic()
            # For the operator's eyes alone: an archive that cannot be written stops the next claim.
            with suppress(ArchiveError):
                self._archive.write(self._progress_file, str(self._counts.total()).encode())

    def tallies(self) -> Iterator[Tally]:
        """Yield one for each group, word and detail."""
        for (group_id, word, detail), count in self._counts.items():
            examples = tuple(self._examples[group_id, word, detail])
            yield Tally(group_id, word, count, detail, examples)


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
        values = {name: value for name, value in row.items() if name != STOP_CAUSE}
        tallies.append(Tally(**{**values, "examples": tuple(row["examples"])}))
    return tallies, stops


def progress_folder(context: RunContext, stage: str) -> str:
    """Return where each task writes how many messages it has settled, every two seconds."""
    return f"{run_folder(context.plan_id, context.run_id)}/progress/{stage}"
