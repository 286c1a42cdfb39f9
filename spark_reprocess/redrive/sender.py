"""A weighed plan is carried out: at once, or behind a canary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from spark_reprocess.archive.files import Archive
from spark_reprocess.canary.surroundings import Surroundings
from spark_reprocess.clients import ClientFactory
from spark_reprocess.plan.plan import Plan
from spark_reprocess.progress import Progress
from spark_reprocess.redrive.canary_draw import after_canary, drawn_sample
from spark_reprocess.redrive.canary_run import CanaryRun, Flight
from spark_reprocess.redrive.edited_rows import with_changes
from spark_reprocess.redrive.execution import Executed, execute
from spark_reprocess.redrive.plan_messages import work_rows
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary, Tally, summarize
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import WORK, Fate
from spark_reprocess.redrive.weighing import Weighed


@dataclass(frozen=True, slots=True)
class Sender:
    """Carries out what was weighed.

    Attributes:
        trouble: asked now and then; says why the run must stop, or nothing.
    """

    archive: Archive
    options: RedriveOptions
    trouble: Callable[[], str]
    make_client: ClientFactory
    make_sender: ClientFactory
    progress: Progress

    def at_once(self, plan: Plan, facts: RunFacts, whole: Weighed) -> RedriveSummary:
        """Settle everything that makes work."""
        executed = self._send(whole, whole.fates, whole.planned, facts)
        return _summary(plan, facts, whole, executed)

    def after_canary(
        self, plan: Plan, facts: RunFacts, whole: Weighed, surroundings: Surroundings
    ) -> RedriveSummary:
        """Send a sample ahead, and then the rest of the groups for which it speaks.

        Raises:
            InputError: a failure may need longer to show than the operator wants to wait; nothing
                was sent.
            ArchiveError: the ledger cannot be read or written.
        """
        if self.options.canary is None:
            raise ValueError("no canary was asked for")
        run = CanaryRun(
            self.archive,
            facts,
            plan.snapshot.drain_ids,
            self.options.canary,
            surroundings,
            lambda fates, planned, facts: self._send(whole, fates, planned, facts),
            self.make_client,
            self.progress,
        )
        with drawn_sample(whole, facts, self.options.canary, surroundings.redelivery) as sample:
            if not sample.drawn.counts and not sample.drawn.without:
                return self.at_once(plan, facts, whole)
            flight = run.fly(sample)
        stopped = flight.report.stopped_groups
        in_order = facts.to_fifo and not self.options.allow_reordering
        rest = after_canary(whole.fates, flight.settled, stopped, in_order=in_order)
        with whole.weighed_again(rest) as left:
            return self._rest(plan, facts, left, flight)

    def _rest(self, plan: Plan, facts: RunFacts, left: Weighed, flight: Flight) -> RedriveSummary:
        executed = Executed(_not_reached(left), flight.stopped_by)
        if not flight.stopped_by:
            executed = self._send(left, left.fates, left.planned, facts)
        both = replace(executed, outcomes=(*flight.outcomes, *executed.outcomes))
        return replace(_summary(plan, facts, left, both), canary=flight.report)

    def _send(
        self, whole: Weighed, fates: DataFrame, planned: Sequence[Tally], facts: RunFacts
    ) -> Executed:
        parallel = self.options.tasks or whole.spark.sparkContext.defaultParallelism
        tasks = self.options.tasks_within(parallel)
        rows = work_rows(whole.messages, fates, tasks, in_order=facts.to_fifo)
        return execute(
            with_changes(rows, facts.edits),
            planned,
            self.archive,
            facts,
            trouble=self.trouble,
            make_sender=self.make_sender,
            progress=self.progress,
        )


def _not_reached(left: Weighed) -> tuple[Tally, ...]:
    work = (tally for tally in left.planned if tally.word in WORK)
    return tuple(replace(tally, word=Fate.NOT_REACHED) for tally in work)


def _summary(plan: Plan, facts: RunFacts, whole: Weighed, executed: Executed) -> RedriveSummary:
    rest = [tally for tally in whole.planned if tally.word not in WORK]
    return summarize(
        plan,
        facts.run_id,
        facts.destination,
        [*rest, *executed.outcomes],
        [*whole.hindered, *executed.outcomes],
        executed.stopped_by,
    )
