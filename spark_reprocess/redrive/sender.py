"""Sends what was resolved to one destination: at once, or behind a canary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from spark_reprocess.archive.disposition import WORK, Disposition
from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.probe import Preflight
from spark_reprocess.canary.verdict import CanaryReport
from spark_reprocess.clients import ClientFactory
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.canary_draw import after_canary, drawn_sample
from spark_reprocess.redrive.canary_run import CanaryRun
from spark_reprocess.redrive.dispositions import (
    DESTINATION,
)
from spark_reprocess.redrive.execution import TaskRunner
from spark_reprocess.redrive.redrive_values import RedriveOptions, Tally
from spark_reprocess.redrive.run_context import RunContext

_PLANNED = "_planned"


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the messages for one destination.

    Attributes:
        tallies: of every message that made work.
        canary: the verdict of the canary that went ahead; None without one.
        stopped_by: why the run ended early, empty where it did not.
    """

    tallies: tuple[Tally, ...]
    stopped_by: str
    canary: CanaryReport | None = None


def not_reached(planned: Sequence[Tally]) -> Sent:
    """Return what there is to say where an earlier destination stopped the run."""
    return Sent(tuple(replace(one, word=Disposition.NOT_REACHED) for one in planned), "")


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends to one destination after the other.

    Attributes:
        dispositions: of the whole plan; each evaluation gives the same rows.
    """

    runner: TaskRunner
    plan: Plan
    options: RedriveOptions
    dispositions: DataFrame
    make_client: ClientFactory

    def send(
        self, planned: Sequence[Tally], context: RunContext, preflight: Preflight | None
    ) -> Sent:
        """Settle the messages for the context's destination that make work.

        With a canary a sample goes ahead, and then the rest of the groups for which it passes.

        Args:
            planned: how many of them have which disposition.
            context: the run's, with this destination.
            preflight: of the canary; None without one.

        Raises:
            InputError: a failure may need longer to show than the operator wants to wait; nothing
                was sent to this destination.
            ArchiveError: the ledger cannot be read or written.
        """
        is_here = F.col(DESTINATION) == context.destination
        is_planned = F.coalesce(F.col("disposition").isin(*WORK) & is_here, F.lit(False))  # noqa: FBT003
        marked = self.dispositions.withColumn(_PLANNED, is_planned)
        rows = marked.where(F.col(_PLANNED) | ~F.col("disposition").isin(*WORK))
        if preflight is None or self.options.canary is None:
            return self._at_once(rows, planned, context)
        return self._behind_canary(rows, planned, context, preflight, self.options.canary)

    def _at_once(self, rows: DataFrame, planned: Sequence[Tally], context: RunContext) -> Sent:
        executed = self.runner.execute(rows, planned, context, self._name(context))
        return Sent(executed.outcomes, executed.stopped_by)

    def _name(self, context: RunContext) -> str:
        """Name a destination among those of the run; the operator's has the run's own name."""
        is_named = context.destination == self.options.destination
        queue = QueueAddress.from_url(context.destination).name
        return context.run_id if is_named else f"{context.run_id}-{queue}"

    def _behind_canary(
        self,
        rows: DataFrame,
        planned: Sequence[Tally],
        context: RunContext,
        preflight: Preflight,
        options: CanaryOptions,
    ) -> Sent:
        run = CanaryRun(
            self.runner,
            context,
            self.plan.snapshot.drain_ids,
            options,
            preflight,
            self._name(context),
            self.make_client,
        )
        messages, to_send = self.runner.messages, to_send_by_group(planned)
        with drawn_sample(
            rows, messages, to_send, context, options, preflight.redelivery
        ) as sample:
            if not sample.drawn.counts and not sample.drawn.without:
                return self._at_once(rows, planned, context)
            flight = run.fly(sample)
        in_order = context.to_fifo and not self.options.allow_reordering
        stopped = flight.report.stopped_groups
        rest = after_canary(rows, flight.settled, stopped, in_order=in_order)
        left = _counted(rest.where(_PLANNED))
        held_back = [tally for tally in left if tally.word not in WORK]
        work = [tally for tally in left if tally.word in WORK]
        if flight.stopped_by:
            tallies, stopped_by = not_reached(work).tallies, flight.stopped_by
        else:
            sent = self._at_once(rest, work, context)
            tallies, stopped_by = sent.tallies, sent.stopped_by
        return Sent((*flight.outcomes, *held_back, *tallies), stopped_by, flight.report)


def to_send_by_group(planned: Sequence[Tally]) -> Mapping[str, int]:
    """Return how many messages of each group are to be sent."""
    return {tally.group_id: tally.count for tally in planned if tally.word == Disposition.SEND}


def _counted(rows: DataFrame) -> list[Tally]:
    found = rows.groupBy("group_id", "disposition").count().collect()
    return [Tally(row["group_id"], row["disposition"], row["count"]) for row in found]
