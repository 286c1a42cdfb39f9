"""Carries out what was resolved: records the run, divides chunks among tasks, follows them."""

import heapq
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dlq.archive.ledger.claims import (
    POSITION,
    RunRecord,
    plan_folder,
    record_run,
    timestamp,
)
from dlq.archive.ledger.disposition import WORK
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.ledger.stop import Stop, StopCause, foremost, record_stop
from dlq.archive.lock import ArchiveLock, require_newest
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_store import FILE_MESSAGES
from dlq.archive.messages.reading import DRAIN_ID, FILE
from dlq.archive.storage.files import Archive, ArchiveProof
from dlq.archive.storage.records import values_of
from dlq.archive.storage.table_parts import (
    PARTS,
    TablePart,
    parts_of,
    read_part,
    write_whole,
)
from dlq.aws.actor import caller
from dlq.aws.clients import ClientFactory, Limit, region_of
from dlq.engine import Engine, Exchange, Work
from dlq.errors import ArchiveError
from dlq.ids.columns import (
    DESTINATION,
    DETAIL,
    DISPOSITION,
    Numbers,
    arrow,
    numbered_values,
    texts_of,
    values_among,
)
from dlq.ids.counts import counted_by
from dlq.ids.order import runs_of
from dlq.interrupts import asking_to_stop
from dlq.memory import available_bytes, require_memory_to_send
from dlq.plan.plan import PlannedGroup
from dlq.progress import Progress, ProgressLine, repeating
from dlq.redrive.request import RestoreRequest
from dlq.redrive.resolving.archived_rows import read_beside
from dlq.redrive.resolving.edits import columns_for
from dlq.redrive.resolving.resolve import ResolvedPlan
from dlq.redrive.send_run import SendRun
from dlq.redrive.sending.rate_limiter import most_tasks, share_window, window_messages
from dlq.redrive.sending.send_task import (
    SETTLED,
    TASK,
    SendTask,
    progress_folder,
    read_settled,
)
from dlq.redrive.sending.stop_signals import (
    Deadline,
    StopSignals,
    TableWatch,
    stop_marker,
    waiting_for,
)
from dlq.redrive.sending.task_context import TaskContext
from dlq.redrive.summary import RedriveSummary, Sent, Tally
from dlq.redrive.totals import not_reached, summarize

_WRITTEN_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    FILE: pa.string(),
    "group_id": pa.string(),
    DISPOSITION: pa.string(),
    DESTINATION: pa.string(),
    DETAIL: pa.string(),
    "unit": pa.string(),
    "chunk": pa.int64(),
    "position": pa.int64(),
}
_WRITTEN = pa.schema(_WRITTEN_TYPES)
"""The columns that are written of a message."""

_PART_ROWS = FILE_MESSAGES
"""The fewest rows in a file of dispositions, but for the last one: a task reads the file, and then
the messages."""

_ADDED: dict[str, pa.DataType] = {
    **dict.fromkeys((DRAIN_ID, "group_id", DISPOSITION, "unit"), pa.string()),
    **dict.fromkeys(("chunk", "position"), pa.int64()),
    TASK: pa.int32(),
}
"""The columns that a task needs of a message beside those that are archived."""

_MOST_TASKS = 30
"""As of a drain: where a cluster may grow, this number of tasks share a large redrive."""

_NO_LIMIT = Limit()
_BATCH_ROWS = 1000
_TIME_SECONDS = 2.0
_TROUBLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows of messages, in chunks: in the driver, and in the archive for the tasks."""

    rows: pa.Table
    folder: str


def write_rows(archive: Archive, rows: pa.Table, folder: str) -> WrittenRows:
    """Write what the run does with each message as the table *folder*, durably.

    Nothing of a message but its id and file is written, because an erase does not reach the ledger.
    Messages of one archived file are in one file here, where the rows are by file.

    Raises:
        ArchiveError: it cannot be written.
    """
    columns = rows.select(_WRITTEN.names)
    starts, _ = runs_of(numbered_values(rows[FILE]))
    write_whole(archive, folder, [*_slices(columns, starts, _PART_ROWS)])
    return WrittenRows(rows, folder)


def _slices(rows: pa.Table, starts: Numbers, least_rows: int) -> Iterator[pa.Table]:
    """Divide rows where a file begins, so that each slice but the last has *least_rows*."""
    begin = 0
    for end in (*starts.tolist(), rows.num_rows):
        is_last = end == rows.num_rows
        if end - begin >= least_rows or is_last:
            yield rows.slice(begin, end - begin)
            begin = end


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """Runs the sends of one run, which ``begin_run`` has recorded.

    Attributes:
        written: what the run does with each message.
        lock: the archive lock; None in tests.
        proof: what each task looks for before it sends.
        deadline: after it nothing more is sent.
    """

    engine: Engine
    run: SendRun
    written: WrittenRows
    lock: ArchiveLock | None
    proof: ArchiveProof
    make_sender: ClientFactory
    progress: Progress
    deadline: Deadline

    def context(
        self,
        destination: str,
        limit: Limit = _NO_LIMIT,
        *,
        step: int = 0,
        unproven_groups: Collection[str] = (),
    ) -> TaskContext:
        """Return what the tasks must know that send to *destination* now; see ``TaskContext``."""
        return TaskContext(
            request=self.run.request,
            plan_id=self.run.plan_id,
            destination=destination,
            run_id=self.run.run_id,
            who=self.run.who,
            editor=self.run.editor,
            step=step,
            unproven_groups=frozenset(unproven_groups),
            proof=self.proof,
            # A ramp may have given it back, and taken it again.
            lock=self.lock.view if self.lock else None,
            limit=limit,
        )

    def execute(
        self,
        dispositions: WrittenRows,
        planned: Sequence[Tally],
        context: TaskContext,
        stage: str,
        trouble: Callable[[], Stop | None] = lambda: None,
    ) -> Sent:
        """Settle the rows of *dispositions* that *planned* counts, each chunk whole in one task.

        Ctrl-C, the deadline, a queue that is gone, a disk that is full, an archive lock that is not
        renewed: open calls come to their end, results are written, and the rest is counted as not
        reached.

        *dispositions* has one row per message; *planned* counts what goes here, and what it does
        not count is left. *stage* names this call among those of the run; it is part of a path.
        *trouble* is asked every ten seconds, and returns why nothing more may be sent; None if all
        is well. So tasks need no way to its answer.
        """
        work = [tally for tally in planned if tally.disposition in WORK]
        total = sum(tally.count for tally in work)
        if not total:
            return Sent(())
        if self.deadline.seconds_left <= 0:
            return Sent(tuple(not_reached(work)), Stop(StopCause.TIME_OVER))

        archive = self.run.archive
        folder = progress_folder(context, stage)
        progress_line = ProgressLine(total)

        def status() -> str:
            # A task that is started again counts again what its first attempt did.
            settled = sum(int(archive.read(path) or 0) for path in archive.list(folder))
            line = progress_line.text(min(settled, total))
            if context.limit.sentence:
                return f"{line}; {context.limit.sentence}"
            return line

        marker = stop_marker(context.plan_id, context.run_id, stage)
        signals = StopSignals(archive, marker, None)

        def stop_all(stop: Stop) -> None:
            # In a thread: a signal handler must not wait for S3.
            threading.Thread(target=signals.stop, args=(stop,), name="stop", daemon=True).start()

        def look_at_time() -> None:
            if self.deadline.seconds_left <= 0:
                # And again until the tasks have ended: to write a marker may fail.
                stop_all(Stop(StopCause.TIME_OVER))

        def look_for_trouble() -> None:
            if stop := trouble():
                stop_all(stop)

        with (
            asking_to_stop(partial(stop_all, Stop(StopCause.INTERRUPTED))),
            repeating(look_at_time, _TIME_SECONDS, "deadline"),
            repeating(look_for_trouble, _TROUBLE_SECONDS, "trouble"),
            self.progress("redriving", status),
        ):
            to_settle = {tally.disposition for tally in work}
            settled = self._send(dispositions, to_settle, context, stage)

        outcomes, stops = read_settled(settled.to_pylist())
        return Sent((*outcomes, *not_reached(work, outcomes)), foremost(stops))

    def _send(
        self,
        dispositions: WrittenRows,
        to_settle: Collection[str],
        context: TaskContext,
        stage: str,
    ) -> pa.Table:
        """Send in tasks; return ``SETTLED``.

        Each chunk is whole and in order in one task; for a FIFO destination each unit is, so that
        its chunks follow each other. So bodies are moved once, from where their file is read to the
        task that sends them.
        """
        work = rows_here(dispositions.rows, context.destination, to_settle)
        counts = counted_by(work, "unit", "chunk")
        sizes = {(row["unit"], row["chunk"]): row["count"] for row in counts}
        rate = context.limit.least_rate(context.request.max_rate)
        most = task_count(
            work.num_rows,
            self.engine.slots,
            asked=context.request.tasks,
            rate=rate,
            may_grow=self.engine.may_grow,
        )
        tasks = divide(sizes, most, in_order=context.to_fifo)

        messages_by_task = Counter[int]()
        for chunk, task in tasks.items():
            messages_by_task[task] += sizes[chunk]

        windows = None
        if rate is not None:
            messages = [count for _, count in sorted(messages_by_task.items())]
            windows = share_window(window_messages(rate), messages)

        send_task = SendTask(
            archive=self.run.archive,
            context=context,
            make_sender=self.make_sender,
            stage=stage,
            windows=windows,
        )
        return self.engine.run_edited(
            self._reading(dispositions.folder, to_settle, context, tasks),
            context.editor.attribute_sql,
            Work((), send_task.run, SETTLED),
            Exchange(len(messages_by_task), TASK, [*POSITION, "message_id"]),
        )

    def _reading(
        self,
        folder: str,
        to_settle: Collection[str],
        context: TaskContext,
        tasks: Mapping[tuple[str, int], int],
    ) -> Work:
        """Return the work of reading the messages of these *tasks*, each with its number."""
        columns = [*columns_for(context.editor.edits)]
        if "sent_at" not in columns:
            columns.append("sent_at")
        archived = [ARROW_SCHEMA.field(name) for name in columns]
        schema = pa.schema([*archived, *pa.schema(_ADDED)])

        reader = MessageReader(
            archive=self.run.archive,
            proof=context.proof,
            folder=folder,
            destination=context.destination,
            dispositions=frozenset(to_settle),
            tasks=tasks,
            schema=schema,
        )

        parts = pa.Table.from_pylist(values_of(parts_of(self.run.archive, folder)), schema=PARTS)
        numbers = np.arange(parts.num_rows)
        readers = min(parts.num_rows, self.engine.slots)
        partitions = [parts.take(arrow(numbers[first::readers])) for first in range(readers)]
        return Work(partitions, reader.read, schema)


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Reads the messages that tasks send.

    Attributes:
        folder: of a table with ``_WRITTEN`` of each message; see ``write_rows``.
        destination, dispositions: which of them are read; see ``rows_here``.
        tasks: the task of each chunk.
        schema: the columns to read of a message, and those of ``_ADDED``.
    """

    archive: Archive
    proof: ArchiveProof | None
    folder: str
    destination: str
    dispositions: frozenset[str]
    tasks: Mapping[tuple[str, int], int]
    schema: pa.Schema

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the messages of the parts that *batches* list: rows of ``PARTS``.

        Raises:
            ArchiveError: a file is gone or damaged, or this is another archive than the driver's.
        """
        if self.proof:
            self.proof.check(self.archive)
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._read_part(TablePart(**row))

    def _read_part(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """Read the messages that one file of dispositions names, and add their tasks."""
        written = read_part(self.archive, self.folder, _WRITTEN, part)
        work = rows_here(written, self.destination, self.dispositions)
        chunks: Any = zip(texts_of(work["unit"]), work["chunk"].to_pylist(), strict=True)
        task_numbers = pa.array([self.tasks[chunk] for chunk in chunks], pa.int32())
        with_tasks = work.append_column(TASK, task_numbers)

        columns = [name for name in self.schema.names if name not in _ADDED]
        for messages in read_beside(self.archive, with_tasks, columns):
            in_schema = messages.select(self.schema.names).cast(self.schema)
            yield from in_schema.to_batches(_BATCH_ROWS)


def rows_here(rows: pa.Table, destination: str, dispositions: Collection[str]) -> pa.Table:
    """Return the rows that go to *destination* and have one of these dispositions."""
    is_here = values_among(rows[DESTINATION], [destination])
    has_disposition = values_among(rows[DISPOSITION], dispositions)
    return rows.filter(pa.array(is_here & has_disposition))


def task_count(
    messages: int, cores: int, *, asked: int | None, rate: float | None, may_grow: bool
) -> int:
    """Return how many tasks send *messages*, at most. Pure.

    Args:
        messages: at least 1.
        cores: of the engine, now.
        asked: what the operator asked for; None for nothing.
        rate: messages a second over all tasks; None for no limit.
        may_grow: whether the engine may get more cores, which it does only for tasks that wait.
            Under a rate none may wait: each task keeps its share for itself.
    """
    slots = asked or cores
    if rate is not None:
        return min(slots, most_tasks(rate))
    if asked or not may_grow:
        return slots
    return max(slots, min(_MOST_TASKS, messages // FILE_MESSAGES))


def divide(
    sizes: Mapping[tuple[str, int], int], most_tasks: int, *, in_order: bool
) -> dict[tuple[str, int], int]:
    """Divide chunks among tasks so that all have about as many messages. Pure, deterministic.

    *sizes* are the messages of each chunk, by unit and number. With *in_order* all chunks of a unit
    are in one task. Tasks are counted from 0, and each has at least one chunk.
    """
    # A part is what one task must send whole: a unit, or a chunk alone.
    chunks_by_part: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    messages_by_part = Counter[tuple[str, int]]()
    for unit, chunk in sorted(sizes):
        part = (unit, 0 if in_order else chunk)
        chunks_by_part[part].append((unit, chunk))
        messages_by_part[part] += sizes[unit, chunk]

    # The largest part first, and each to the task that has the fewest messages so far.
    tasks = [(0, task) for task in range(min(most_tasks, len(chunks_by_part)))]
    task_by_chunk: dict[tuple[str, int], int] = {}
    for part in sorted(chunks_by_part, key=lambda part: (-messages_by_part[part], part)):
        messages, task = heapq.heappop(tasks)
        task_by_chunk |= dict.fromkeys(chunks_by_part[part], task)
        heapq.heappush(tasks, (messages + messages_by_part[part], task))
    return task_by_chunk


def look_until(
    is_over: Callable[[], bool],
    every_seconds: float,
    deadline: Deadline,
) -> Stop | None:
    """Look until *is_over*; return what ended that before: a signal or the deadline; else None."""
    is_stopping = threading.Event()
    with asking_to_stop(is_stopping.set):
        while not (is_over() or is_stopping.is_set()):
            if deadline.seconds_left <= 0:
                return Stop(StopCause.TIME_OVER)
            deadline.clock.wait(is_stopping, min(every_seconds, deadline.seconds_left))
    return Stop(StopCause.INTERRUPTED) if is_stopping.is_set() else None


def wait_for_limit(
    watch: TableWatch, every_seconds: float, deadline: Deadline
) -> tuple[Limit, Stop | None]:
    """Read the limit of a destination until it is known, as far as it must be known.

    Return also why nothing may be sent there now; None if something may.
    """
    limit = Limit()

    def is_over() -> bool:
        nonlocal limit
        limit = watch.limit()
        return not (limit.fault and watch.is_needed) or bool(watch.lost())

    stopped_by = look_until(is_over, every_seconds, deadline)
    return limit, stopped_by or watch.lost() or waiting_for(limit)


def begin_run(
    engine: Engine,
    run: SendRun,
    resolved: ResolvedPlan,
    lock: ArchiveLock | None,
    *,
    make_sender: ClientFactory,
    progress: Progress,
    deadline: Deadline,
) -> TaskRunner:
    """Record the run, its edits and its dispositions; return what sends its messages.

    Raises:
        InputError: the plan is sealed, or its messages do not fit into memory. Nothing was claimed.
        ArchiveError: something cannot be recorded, or another run has taken the lock, which has
            maybe not seen the record. Nothing was claimed.
    """
    if engine.holds_rows:
        require_memory_to_send(resolved.work_bytes, available_bytes(engine.reserved_bytes))
    region = region_of(run.destination, "us-east-1")
    record = RunRecord(
        run_id=run.run_id,
        plan_id=run.plan_id,
        verb="restore" if isinstance(run.request, RestoreRequest) else "redrive",
        actor=run.who,
        caller=caller(engine.application_id, region),
        reason=run.request.reason,
        time=timestamp(time.time()),
        destination=run.destination,
        destinations=[*resolved.work],
        policy_sha256=run.policy_sha256,
    )
    proof = record_and_fence(run, record, lock)
    _record_edits(run, record)

    # An engine may run a task again. From the ledger alone it would then decide once more.
    written = write_rows(run.archive, resolved.dispositions, f"{run.folder}/dispositions")
    return TaskRunner(
        engine=engine,
        run=run,
        written=written,
        lock=lock,
        proof=proof,
        make_sender=make_sender,
        progress=progress,
        deadline=deadline,
    )


def record_and_fence(run: SendRun, record: RunRecord, lock: ArchiveLock | None) -> ArchiveProof:
    """Write the record of the run; return what each task looks for before it sends.

    Raises:
        InputError: the plan is sealed.
        ArchiveError: it cannot be written, or another run has taken the lock, which has maybe not
            seen the record.
    """
    proof = record_run(run.archive, record)
    if lock:
        require_newest(run.archive, lock.view)
    return proof


def _record_edits(run: SendRun, record: RunRecord) -> None:
    """Write the text of each edit, whose digest each claim names for each message."""
    for group_id, edit in run.editor.edits.items():
        path = f"{plan_folder(run.plan_id)}/edits/{group_id}.{edit.digest}.json"
        content = {
            "run_id": record.run_id,
            "who": record.actor,
            "time": record.time,
            "text": edit.text,
        }
        # The first run that used the edit stays.
        run.archive.create(path, json.dumps(content).encode())


def end_run(
    runner: TaskRunner,
    groups: Sequence[PlannedGroup],
    resolved: ResolvedPlan,
    sent: Mapping[str, Sent],
) -> RedriveSummary:
    """Close the run, and say what became of the messages *sent* to each destination."""
    run = runner.run
    with runner.progress("putting the results into one file", str):
        notes = write_result_files(run.archive, (run.plan_id, run.run_id))
    summary = replace(summarize(run, groups, resolved, sent), notes=notes)
    if summary.stopped_by:
        # For people alone: what was sent must be answered.
        with suppress(ArchiveError):
            record_stop(run.archive, run.plan_id, run.run_id, summary.stopped_by)
    return summary
