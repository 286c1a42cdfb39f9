"""The canary of a redrive: draw a sample, send it first, watch what comes back, judge each group.

The run's own tasks send it, and its messages stand in the ledger like any other. So a run that dies
here is repeated safely; the next one draws from what is left.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import WORK, Disposition
from spark_reprocess.archive.ledger import (
    LEDGER,
    OUTCOMES,
    Ledger,
    timestamp,
)
from spark_reprocess.canary.options import CanaryOptions, CanarySample, Redelivery, allocate
from spark_reprocess.canary.probe import Preflight, QueueProbe
from spark_reprocess.canary.watch import CanaryReport, ObservationWindow, Watch, judge
from spark_reprocess.redrive.dispositions import has_room, with_waiting
from spark_reprocess.redrive.execution import TaskRunner
from spark_reprocess.redrive.redrive_values import Sent, Tally
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.stop_signals import TIME_IS_OVER
from spark_reprocess.spark.interrupts import INTERRUPTED, asking_to_stop

_UNSETTLED = (Disposition.BUSY, Disposition.IN_DOUBT, Disposition.WAITS, Disposition.EDIT_FAILED)
_MAY_RETURN = (Disposition.SENT, Disposition.IN_DOUBT)
_NOTHING_TO_SEND_AHEAD = "none of its messages can go ahead and carry what tells its failure"
_NO_TIME = "the time that is left of its time budget is shorter than the canary's wait"
PLANNED = "_planned"
"""A column: whether the row makes work that this destination was resolved to have."""

_COLUMNS = ("message_id", "first_id", "group_id", "unit", "chunk")


@contextmanager
def drawn_sample(
    dispositions: DataFrame,
    messages: DataFrame,
    to_send: Mapping[str, int],
    context: RunContext,
    options: CanaryOptions,
    redelivery: Redelivery,
) -> Iterator[tuple[CanarySample, DataFrame]]:
    """Draw a canary, for as long as the block lasts.

    Args:
        dispositions: of the plan's messages.
        messages: their rows in the archive.
        to_send: how many are to be sent, by group id.
        context: the run's.
        options: of the canary.
        redelivery: of the destination.

    Yields:
        Its size, and its rows of *dispositions* with ``first_id``, persisted.

    Raises:
        InputError: a failure may need longer to show than the operator wants to wait.
    """
    total = options.size.at_least(sum(to_send.values()))
    candidates = _candidates(dispositions, messages, context)
    allocation = allocate(_counts(candidates), max(1, total))
    rows = _drawn(candidates, allocation, context).persist()
    try:
        counts = _counts(rows)
        allowed = max((options.max_return.at_most(count) for count in counts.values()), default=0)
        wait_seconds = options.wait(redelivery, allowed + 1 if context.to_fifo else 1)
        without = tuple(sorted(to_send.keys() - counts.keys()))
        stale_seconds = options.stale_seconds(redelivery)
        yield CanarySample(counts, without, stale_seconds, wait_seconds), rows
    finally:
        rows.unpersist()


def _candidates(dispositions: DataFrame, messages: DataFrame, context: RunContext) -> DataFrame:
    """The messages that may go ahead: those to be sent that have room for counter and context.

    For a FIFO queue whole message groups, of which every message may.
    """
    room = messages.select("message_id", "first_id", has_room(context.sizes.room).alias("room"))
    known = dispositions.join(room, on="message_id", how="inner")
    if context.to_fifo:
        whole = Window.partitionBy("message_group_id")
        is_obstacle = F.col("disposition").isin(*_UNSETTLED) | (_is_sent() & ~F.col("room"))
        known = known.withColumn("room", ~F.max(is_obstacle).over(whole))
    return known.where(_is_sent() & F.col("room")).drop("room")


def _drawn(candidates: DataFrame, allocation: Mapping[str, int], context: RunContext) -> DataFrame:
    """Draw so many messages of each group, by chance but the same for the same plan.

    For a FIFO queue it draws message groups until each group has its number; of those that are
    larger than that it takes one only where there is no smaller.
    """
    seed = context.plan_id
    spark = candidates.sparkSession
    wanted = spark.createDataFrame(list(allocation.items()), "group_id string, wanted long")
    known = candidates.join(F.broadcast(wanted), on="group_id", how="inner")
    if not context.to_fifo:
        chance = Window.partitionBy("group_id").orderBy(_chance("message_id", seed), "message_id")
        ranked = known.withColumn("rank", F.row_number().over(chance))
        return ranked.where(F.col("rank") <= F.col("wanted")).drop("rank", "wanted")
    sizes = known.groupBy("group_id", "message_group_id", "wanted").agg(F.count("*").alias("size"))
    chance = Window.partitionBy("group_id").orderBy(
        F.col("size") > F.col("wanted"), _chance("message_group_id", seed), "message_group_id"
    )
    before = F.sum("size").over(chance) - F.col("size")
    drawn = sizes.withColumn("before", before).where(F.col("before") < F.col("wanted"))
    return known.drop("wanted").join(
        drawn.select("message_group_id").distinct(), on="message_group_id", how="left_semi"
    )


def _after_canary(
    dispositions: DataFrame, settled: Sequence[str], stopped: Iterable[str], *, in_order: bool
) -> DataFrame:
    """What is left to do when a canary was judged: the rest of the groups that were not *stopped*.

    Args:
        dispositions: the whole plan.
        settled: message ids of the canaries; they are no part of the rest.
        stopped: group ids.
        in_order: whether what stands behind a message of a stopped group waits.
    """
    table = pa.table({"message_id": pa.array(settled, pa.string())})
    ids = F.broadcast(dispositions.sparkSession.createDataFrame(table))
    rest = dispositions.join(ids, on="message_id", how="left_anti")
    is_stopped = _is_sent() & F.col("group_id").isin(*stopped)
    judged = rest.withColumn(
        "disposition", F.when(is_stopped, Disposition.STOPPED).otherwise(F.col("disposition"))
    )
    return with_waiting(judged) if in_order else judged


def _counts(rows: DataFrame) -> dict[str, int]:
    found = rows.groupBy("group_id").count().collect()
    return {row["group_id"]: row["count"] for row in sorted(found)}


def _is_sent() -> Column:
    return F.col("disposition") == Disposition.SEND


def _chance(column: str, seed: str) -> Column:
    return F.xxhash64(F.lit(seed), F.col(column))


@dataclass(frozen=True, slots=True)
class Canary:
    """The canary of one destination.

    Attributes:
        preflight: of the destination.
        make_probe: makes what reads the queues to watch.
        name: of the verdict's record, and of the sends among those of the run.
    """

    runner: TaskRunner
    context: RunContext
    options: CanaryOptions
    preflight: Preflight
    make_probe: Callable[[Preflight], QueueProbe]
    name: str

    def send(self, rows: DataFrame, planned: Sequence[Tally], *, in_order: bool) -> Sent:
        """Send a sample, watch what comes back, and send the rest of the groups that pass.

        Args:
            rows: the dispositions of this destination's messages, and of those that make no work.
            planned: how many of them have which disposition.
            in_order: whether what stands behind a message of a stopped group waits.

        Raises:
            InputError: a failure may need longer to show than the operator wants to wait; nothing
                was sent.
            ArchiveError: the archive cannot be read, or the verdict cannot be written.
        """
        runner, context, to_send = self.runner, self.context, to_send_by_group(planned)
        redelivery = self.preflight.redelivery
        with drawn_sample(rows, runner.messages, to_send, context, self.options, redelivery) as (
            sample,
            drawn,
        ):
            if not sample.counts and not sample.without:
                return runner.execute(rows, planned, context, self.name)
            if sample.stale_seconds + sample.wait_seconds > runner.deadline.seconds_left:
                return Sent(not_reached(planned), _NO_TIME)
            ahead, settled = self._send_sample(sample, drawn)
        stopped = ahead.canary.stopped_groups if ahead.canary else ()
        rest = _after_canary(rows, settled, stopped, in_order=in_order)
        counts = rest.where(F.col(PLANNED)).groupBy("group_id", "disposition").count().collect()
        left = [Tally(row["group_id"], row["disposition"], row["count"]) for row in counts]
        held_back = [tally for tally in left if tally.word not in WORK]
        work = [tally for tally in left if tally.word in WORK]
        if ahead.stopped_by:
            others = Sent(not_reached(work), ahead.stopped_by)
        else:
            others = runner.execute(rest, work, context, self.name)
        tallies = (*ahead.tallies, *held_back, *others.tallies)
        return Sent(tallies, others.stopped_by, ahead.canary)

    def _send_sample(self, sample: CanarySample, rows: DataFrame) -> tuple[Sent, tuple[str, ...]]:
        """Send the sample and judge each group; write the verdict down.

        Returns:
            The result, and the ids of the messages that this run has settled.
        """
        probe = self.make_probe(self.preflight)
        probe.take_baseline()
        planned = [Tally(one, Disposition.SEND, count) for one, count in sample.counts.items()]
        context = replace(self.context, is_canary=True)
        executed = self.runner.execute(rows, planned, context, f"canary-{self.name}")
        settled = self._settled(rows.select(*_COLUMNS).collect())
        sent = dict.fromkeys(sample.counts, 0)
        for row, outcome in settled.items():
            sent[row["group_id"]] += outcome is Disposition.SENT
        sent_at = time.monotonic()
        reasons = [executed.stopped_by] if executed.stopped_by else []
        is_stopping = threading.Event()

        def stop(why: str) -> None:
            reasons.append(why)
            is_stopping.set()

        watch = Watch(
            canaries={
                row["first_id"]: row["group_id"] for row, o in settled.items() if o in _MAY_RETURN
            },
            sent=sent,
            max_return=self.options.max_return,
            window=ObservationWindow(sent_at, sample.stale_seconds, sample.wait_seconds),
            probe=probe,
            now_seconds=time.monotonic,
            pause=is_stopping.wait,
            stopped=lambda: reasons[0] if reasons else "",
            poll_seconds=self.options.reading_interval_seconds(sample.wait_seconds),
            grace_seconds=self.options.grace_seconds,
        )
        with (
            asking_to_stop(stop),
            self.runner.deadline.watched(stop),
            self.runner.progress("canary", watch.status),
        ):
            watch.run()
        missing = [(one, _NOTHING_TO_SEND_AHEAD) for one in sample.without]
        groups = judge(sent, watch.failures, watch.max_return, watch.unknown, missing)
        waited_seconds = time.monotonic() - sent_at
        report = CanaryReport(groups, waited_seconds, probe.archived, watch.main_queue)
        self._record(report)
        stopped_by = executed.stopped_by
        if watch.unknown in (INTERRUPTED, TIME_IS_OVER):
            stopped_by = stopped_by or watch.unknown
        outcomes = tuple(tally for tally in executed.tallies if tally.word in OUTCOMES)
        return Sent(outcomes, stopped_by, report), tuple(row["message_id"] for row in settled)

    def _settled(self, rows: Sequence[Row]) -> dict[Row, Disposition]:
        """Read in the ledger what this run did with its canaries."""
        ledger = Ledger(self.runner.archive, self.context.plan_id)
        found: dict[str, Disposition] = {}
        for unit, chunk in sorted({(row["unit"], row["chunk"]) for row in rows}):
            for attempt in ledger.attempts(unit, chunk):
                if attempt.claim.run_id == self.context.run_id:
                    found |= dict.fromkeys(attempt.claim.message_ids, Disposition.IN_DOUBT)
                    found |= {one.message_id: one.outcome for one in attempt.results or ()}
        return {row: found[row["message_id"]] for row in rows if row["message_id"] in found}

    def _record(self, report: CanaryReport) -> None:
        content = {
            "run_id": self.context.run_id,
            "who": self.context.who,
            "reason": self.context.request.reason,
            "time": timestamp(time.time()),
            **asdict(report),
        }
        path = f"{LEDGER}/plan_id={self.context.plan_id}/canary/{self.name}.json"
        self.runner.archive.write(path, json.dumps(content, indent=1).encode())


def to_send_by_group(planned: Sequence[Tally]) -> Mapping[str, int]:
    """Return how many messages of each group are to be sent."""
    return {tally.group_id: tally.count for tally in planned if tally.word == Disposition.SEND}


def not_reached(planned: Sequence[Tally]) -> tuple[Tally, ...]:
    """Return the result of messages that something before them kept from being sent."""
    return tuple(replace(one, word=Disposition.NOT_REACHED) for one in planned)
