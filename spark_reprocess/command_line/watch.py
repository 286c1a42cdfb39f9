"""What came back of a redrive: ``redrive --watch``, and the lines about it."""

import threading
import time
from collections.abc import Callable, Collection

from dlq_replay.replaying.returns import Returns
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.aws.clients import sqs_client
from spark_reprocess.command_line.terminal import print_error, print_line
from spark_reprocess.command_line.verb import INTERRUPTED, STOPPED
from spark_reprocess.errors import JobError
from spark_reprocess.inspect.outcomes import Outcome, read_outcomes, read_returns, total
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.progress import Progress
from spark_reprocess.ramp.rule import LOOKS_A_MINUTE, returns_allowed
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.sending.stop_signals import Deadline


class Watch:
    """Watches what comes back of one run.

    Attributes:
        outcomes: of the groups of which the plan has sent something, as of the last look.
    """

    def __init__(
        self,
        options: RedriveOptions,
        now_seconds: Callable[[], float] = time.time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """Begin before the run; *wait* waits for an event, but no longer than so many seconds.

        Raises:
            JobError: there is no such plan.
        """
        self._options, self._archive = options, open_archive(options.archive)
        self._now_seconds, self._wait = now_seconds, wait
        self._deadline = Deadline.after(options.time_budget_seconds, now_seconds)
        plan = self._plan("")
        ids = [one.group_id for one in plan.groups]
        self._before = read_returns(self._archive, plan.plan_id, ids, options.failure_table)
        self.outcomes: tuple[Outcome, ...] = ()

    def run(self, plan_id: str, progress: Progress, exit_code: int) -> int:
        """Look until every failure would have come back, or somebody or the deadline stops it.

        Print what went wrong, and return the exit code of the watch, else that of the run.
        """
        from spark_reprocess.redrive.execution import look_until
        from spark_reprocess.spark.interrupts import INTERRUPTED as BY_SIGNAL

        def status() -> str:
            return total(self.outcomes).sentence(self._now_seconds()) if self.outcomes else ""

        every_seconds = self._options.minute_seconds / LOOKS_A_MINUTE
        try:
            plan = self._plan(plan_id)
            with progress("watching", status):
                ended_by = look_until(
                    lambda: self._has_ended(plan), every_seconds, self._deadline, self._wait
                )
        except JobError as error:
            # The answer of the run must not be lost.
            ended_by = str(error)
        if ended_by:
            print_error(f"the watch ended early: {ended_by}")
        bad = []
        for one in self.outcomes:
            before = self._before.get(one.group_id, Returns()).returned
            allowed = returns_allowed(self._options.allow_returns, one.sent)
            if (one.returned or 0) - before > allowed:
                bad.append(one.group_id)
        if bad:
            print_error(f"{', '.join(bad)}: more came back than may")
        if ended_by == BY_SIGNAL:
            return INTERRUPTED
        return STOPPED if bad else exit_code

    def _plan(self, plan_id: str) -> Plan:
        options = self._options
        plan = find_plan(self._archive, options.plan or plan_id or None).plan()
        return plan if options.group is None else plan.only(options.group)

    def _has_ended(self, plan: Plan) -> bool:
        now, options = self._now_seconds(), self._options
        table = options.failure_table
        found = read_outcomes(self._archive, plan, table, make_client=sqs_client)
        self.outcomes = tuple(one for one in found.values() if one.sent)
        return all(one.is_known(now, options.minute_seconds) for one in self.outcomes)


def print_outcomes(outcomes: Collection[Outcome], failure_table: str | None) -> None:
    """Print what came back of each group of which something was sent, the most first."""
    sent = sorted((one for one in outcomes if one.sent), key=lambda one: -(one.returned or 0))
    if sent and not failure_table:
        print_line("what comes back cannot be known: no --failure-table counts it")
        return
    for one in sent:
        print_line(f"{one.group_id}: {one.sentence(time.time())}")
