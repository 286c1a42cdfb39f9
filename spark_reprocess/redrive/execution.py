"""Carries out what was resolved: records the run, divides chunks among tasks, follows them."""

import heapq
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

from spark_reprocess.actor import caller
from spark_reprocess.archive.disposition import WORK, Disposition
from spark_reprocess.archive.files import Archive, damage_named
from spark_reprocess.archive.frames import DRIVER_ROWS, FILE, read_table, write_table
from spark_reprocess.archive.ledger import (
    POSITION,
    RunRecord,
    plan_folder,
    record_run,
    run_folder,
    timestamp,
)
from spark_reprocess.archive.ledgers import close_runs
from spark_reprocess.clients import ClientFactory, region_of
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.plan import Plan, PlannedGroup
from spark_reprocess.progress import HowFar, Progress
from spark_reprocess.redrive.breaker_gate import is_waiting
from spark_reprocess.redrive.dispositions import ORDER_COLUMNS
from spark_reprocess.redrive.edits import with_changes
from spark_reprocess.redrive.rate_limiter import most_tasks, share_window, window_messages
from spark_reprocess.redrive.redrive_values import RedriveSummary, Sent, Tally, summarize
from spark_reprocess.redrive.resolve import ResolvedPlan
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.send_task import (
    SETTLED,
    TASK,
    TASK_COLUMNS,
    SendTask,
    progress_folder,
    read_progress,
)
from spark_reprocess.redrive.stop_signals import (
    TIME_IS_OVER,
    Deadline,
    stop_marker,
    write_stop_marker,
)
from spark_reprocess.repeating import repeating
from spark_reprocess.spark.interrupts import asking_to_stop

_TROUBLE_SECONDS = 10.0
_TROUBLE = {
    Disposition.FAILED: "failed",
    Disposition.IN_DOUBT: "in doubt",
    Disposition.BUSY: "busy",
    Disposition.WAITS: "waiting",
}


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """Runs the sends of one run.

    Attributes:
        messages: the archive's rows of the plan's messages, at least.
        tasks: how many chunks are sent side by side at most; None for Spark's default parallelism.
        deadline: when nothing more is sent.
    """

    archive: Archive
    messages: DataFrame
    make_sender: ClientFactory
    progress: Progress
    tasks: int | None = None
    deadline: Deadline = field(default_factory=Deadline)

    def execute(
        self,
        dispositions: DataFrame,
        planned: Sequence[Tally],
        context: RunContext,
        stage: str,
        trouble: Callable[[], str] = lambda: "",
    ) -> Sent:
        """Settle the rows of *dispositions* that make work, each chunk whole in one task.

        Ctrl-C, the deadline, a queue that is gone, a disk that is full, a plan lock that is not
        renewed: open calls come to their end, results are written, and the rest is counted as not
        reached.

        Each evaluation of *dispositions*, one row per message, must give the same rows; *planned*
        counts them. *stage* names this call among those of the run; it is part of a path. *trouble*
        is asked every ten seconds, and says why nothing more may be sent; empty if all is well.
        """
        work = [tally for tally in planned if tally.word in WORK]
        total = sum(tally.count for tally in work)
        if not total:
            return Sent(())
        if self.deadline.seconds_left <= 0:
            return Sent(tuple(_not_reached(work, ())), TIME_IS_OVER)
        rows, windows, free_windows = self._rows(dispositions, context)
        task = SendTask(self.archive, context, self.make_sender, stage, windows, free_windows)
        folder = progress_folder(context, stage)
        how_far = HowFar(total)

        def status() -> str:
            line = status_line(how_far, total, read_progress(self.archive, folder))
            return "; ".join(filter(None, (line, context.limit.sentence)))

        stop = partial(self._stop, stop_marker(context.plan_id, context.run_id, stage))

        def look() -> None:
            if why := trouble():
                stop(why)

        with (
            asking_to_stop(stop),
            self.deadline.watched(stop),
            repeating(look, _TROUBLE_SECONDS, "trouble"),
            self.progress("redriving", status),
        ):
            # One action, once; a second evaluation would find every chunk claimed.
            sends = rows.select(*TASK_COLUMNS).mapInArrow(task.run, from_arrow_schema(SETTLED))
            settled = sends.collect()
        outcomes = [
            Tally(row["group_id"], row["word"], row["count"], row["detail"], tuple(row["examples"]))
            for row in settled
            if row["count"]
        ]
        stopped_by = next((row["detail"] for row in settled if not row["count"]), "")
        return Sent((*outcomes, *_not_reached(work, outcomes)), stopped_by)

    def _rows(
        self, dispositions: DataFrame, context: RunContext
    ) -> tuple[DataFrame, list[int] | None, list[int] | None]:
        """Return the messages to settle, in the partitions of their tasks; the tasks' windows.

        The windows twice: with the limit of the circuit breaker, and without.

        Each chunk is whole and in order in one partition; for a FIFO destination each unit is, so
        that its chunks follow each other in one task.
        """
        spark = dispositions.sparkSession
        work = dispositions.where(F.col("disposition").isin(*WORK)).select(
            "message_id", FILE, "group_id", "disposition", *POSITION
        )
        chunks = work.groupBy("unit", "chunk").count().collect()
        sizes = {(row["unit"], row["chunk"]): row["count"] for row in chunks}
        slots, rate = self.tasks or spark.sparkContext.defaultParallelism, context.max_rate
        most = slots if rate is None else min(slots, most_tasks(rate))
        tasks = divide(sizes, most, in_order=context.to_fifo)
        table = pa.table(
            {
                "unit": [unit for unit, _ in tasks],
                "chunk": [chunk for _, chunk in tasks],
                TASK: pa.array(tasks.values(), pa.int32()),
            }
        )
        assigned = work.join(F.broadcast(spark.createDataFrame(table)), on=["unit", "chunk"])
        messages = Counter[int]()
        for chunk, task in tasks.items():
            messages[task] += sizes[chunk]
        if sum(sizes.values()) <= DRIVER_ROWS:
            # Otherwise Spark, which does not know how few they are, shuffles the bodies for a join.
            assigned = F.broadcast(assigned)
        rows = self.messages.join(assigned, on=["message_id", FILE])
        spread = rows.repartitionById(len(messages), F.col(TASK)).sortWithinPartitions(*POSITION)
        changed = with_changes(spread, context.edits)
        of_tasks = [messages[task] for task in sorted(messages)]
        return (
            changed,
            _windows(context.max_rate, of_tasks),
            _windows(context.request.max_rate, of_tasks),
        )

    def _stop(self, marker: str, why: str) -> None:
        """Write the stop marker, in a thread: a signal handler must not wait for S3."""

        def write() -> None:
            # Tasks that cannot write to the archive either end by themselves.
            with suppress(ArchiveError):
                write_stop_marker(self.archive, marker, why)

        threading.Thread(target=write, name="stop", daemon=True).start()


def _windows(rate: float | None, messages: Sequence[int]) -> list[int] | None:
    """The window of each task, which has so many messages, at a rate over all tasks."""
    return None if rate is None else share_window(window_messages(rate), messages)


def divide(
    sizes: Mapping[tuple[str, int], int], most_tasks: int, *, in_order: bool
) -> dict[tuple[str, int], int]:
    """Divide chunks among tasks so that all have about as many messages. Pure, deterministic.

    Args:
        sizes: messages of each chunk, by unit and number.
        most_tasks: at least 1.
        in_order: whether all chunks of a unit must be in one task.

    Returns:
        The task of each chunk, counted from 0. Each of the tasks has at least one chunk.
    """
    parts: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for unit, chunk in sorted(sizes):
        parts[unit, 0 if in_order else chunk].append((unit, chunk))
    weights = {part: sum(sizes[chunk] for chunk in chunks) for part, chunks in parts.items()}
    tasks = [(0, task) for task in range(min(most_tasks, len(parts)))]
    divided: dict[tuple[str, int], int] = {}
    for part in sorted(parts, key=lambda part: (-weights[part], part)):
        messages, task = heapq.heappop(tasks)
        divided |= dict.fromkeys(parts[part], task)
        heapq.heappush(tasks, (messages + weights[part], task))
    return divided


def status_line(how_far: HowFar, total: int, counts: Mapping[str, int]) -> str:
    """Say how far a run is, of whose *total* messages so many are settled, by word."""
    # A task that Spark starts again counts again what its first attempt did.
    settled = min(sum(counts.values()), total)
    sent = min(counts.get(Disposition.SENT, 0), settled)
    parts = [how_far.line(settled)]
    parts += [f"{sent:,} sent"] if sent != settled else []
    parts += [f"{counts[word]:,} {name}" for word, name in _TROUBLE.items() if counts.get(word)]
    return ", ".join(parts)


def _not_reached(work: Sequence[Tally], outcomes: Sequence[Tally]) -> list[Tally]:
    left = Counter[str]()
    for tally in work:
        left[tally.group_id] += tally.count
    for tally in outcomes:
        left[tally.group_id] -= tally.count
    return [
        Tally(group, Disposition.NOT_REACHED, count) for group, count in left.items() if count > 0
    ]


def dry_summary(
    groups: Sequence[PlannedGroup], resolved: ResolvedPlan, context: RunContext
) -> RedriveSummary:
    """Say what would be done."""
    counts = {
        url: sum(tally.count for tally in of if tally.word == Disposition.SEND)
        for url, of in resolved.work.items()
    }
    return summarize(context.plan_id, "", groups, counts, resolved.planned, resolved.hindered)


def carry_out(
    verb: str,
    groups: Sequence[PlannedGroup],
    resolved: ResolvedPlan,
    context: RunContext,
    runner: TaskRunner,
    send: Callable[[RunContext, DataFrame], Mapping[str, Sent]],
) -> RedriveSummary:
    """Record the run, its edits and its dispositions, then send, summarize and close the run.

    *send* settles the messages of these dispositions; it returns the results by destination.

    Raises:
        InputError: the plan is sealed; then nothing was claimed.
        ArchiveError: something cannot be recorded; then nothing was claimed.
    """
    archive = runner.archive
    region = region_of(context.destination, "us-east-1")
    spark = resolved.messages.sparkSession
    record = RunRecord(
        run_id=context.run_id,
        plan_id=context.plan_id,
        verb=verb,
        actor=context.who,
        **asdict(caller(spark.sparkContext.applicationId, region)),
        reason=context.request.reason,
        time=timestamp(time.time()),
        destination=context.destination,
        destinations=[*resolved.work],
        policy_sha256=context.policy_sha256,
    )
    context = replace(context, probe=record_run(archive, record))
    record_edits(archive, context)
    sent = send(context, write_dispositions(archive, resolved, context))
    hindered = [tally for tally in resolved.planned if tally.word not in WORK]
    outcomes = [tally for one in sent.values() for tally in one.tallies]
    reasons = sorted((one.stopped_by for one in sent.values() if one.stopped_by), key=is_waiting)
    stopped_by = next(iter(reasons), "")
    counts = {
        url: sum(tally.count for tally in one.tallies if tally.word == context.confirmed)
        for url, one in sent.items()
    }
    summary = summarize(
        context.plan_id,
        context.run_id,
        groups,
        counts or {context.destination: 0},
        [*hindered, *outcomes],
        [*resolved.hindered, *outcomes],
        stopped_by,
    )
    with runner.progress("putting the results into one file", str):
        notes = close_runs(archive, (context.plan_id, context.run_id), time.time())
    return replace(summary, notes=notes, ramp=tuple(g for one in sent.values() for g in one.ramp))


def write_dispositions(archive: Archive, resolved: ResolvedPlan, context: RunContext) -> DataFrame:
    """Write what the run does with each message, durably; return what the driver holds, or wrote.

    Spark computes a lost partition again. From the ledger alone it would then decide anew. Nothing
    of a message but its id and file is written, because an erase does not reach the ledger.
    """
    held, order = resolved.dispositions, ORDER_COLUMNS[1:]
    folder = f"{run_folder(context.plan_id, context.run_id)}/dispositions"
    if held.table is not None:
        write_table(held.table.drop_columns([*order]), archive, folder)
        return held.frame
    kept = held.frame.drop(*order)
    write_table(kept, archive, folder)
    written = read_table(kept.sparkSession, archive, folder, kept.schema.toDDL())
    if not context.to_fifo:
        return written
    return written.join(resolved.messages.select(FILE, *ORDER_COLUMNS), on=["message_id", FILE])


def record_edits(archive: Archive, context: RunContext) -> None:
    """Write down the edits of a run before its first message is sent.

    ``ledger/plan_id=<id>/edits/<group>.<digest>.json`` holds an edit, and the run that first used
    it. Each claim names the digests of its groups.

    Raises:
        ArchiveError: they cannot be written; nothing may be sent then.
    """
    head = {"run_id": context.run_id, "who": context.who, "time": timestamp(time.time())}
    for group_id, edit in context.edits.items():
        content = json.dumps({**head, **json.loads(edit.text)}, indent=1)
        path = f"{_edits_folder(context.plan_id)}/{group_id}.{edit.digest}.json"
        archive.create(path, content.encode())


def other_edits(archive: Archive, plan: Plan, planned: Iterable[Tally]) -> Iterator[str]:
    """Name the groups of which earlier runs sent messages with another edit than the plan's.

    Raises:
        ArchiveError: the record of an edit cannot be read, or somebody changed it.
    """
    records: list[tuple[str, str, str]] = []
    for path in archive.list(_edits_folder(plan.plan_id)):
        group_id, digest, _ = path.rsplit("/", 1)[1].split(".")
        with damage_named(archive, path):
            raw = json.loads(archive.read(path) or b"")
            records.append((group_id, digest, f"run {raw['run_id']}, {raw['who']}"))
    for tally in planned:
        if tally.word != Disposition.SENT_BEFORE:
            continue
        group_id = tally.group_id
        now = plan.edits[group_id].digest if group_id in plan.edits else None
        of_group = [(digest, run) for of, digest, run in records if of == group_id]
        others = [f"edit {digest} ({run})" for digest, run in of_group if digest != now]
        if now is not None and not of_group:
            others = ["no edit"]
        if others:
            yield (
                f"group {group_id}: {tally.count:,} messages were sent before, by runs with "
                f"{', '.join(others)}; the rest goes with {f'edit {now}' if now else 'no edit'}"
            )


def _edits_folder(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/edits"
