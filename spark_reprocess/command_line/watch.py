"""What came back of a redrive: ``redrive --watch``, and the lines about it."""

import threading
import time
from collections.abc import Callable, Collection

from dlq_replay.returns import Returns
from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.open_set import claimed_table, time_before
from spark_reprocess.clients import ClientFactory, sqs_client
from spark_reprocess.command_line.terminal import print_error, print_line
from spark_reprocess.command_line.verb import INTERRUPTED, STOPPED
from spark_reprocess.errors import JobError
from spark_reprocess.inspect.outcomes import Outcome, read_outcomes, read_returns, total
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.progress import Progress
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.stop_signals import Deadline

_SHOWN = 20


class Watch:
    """Watches what comes back of one run.

    Attributes:
        outcomes: of the groups of which the plan has sent something, as of the last look.
    """

    def __init__(
        self,
        options: RedriveOptions,
        make_client: ClientFactory = sqs_client,
        now_seconds: Callable[[], float] = time.time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """Begin before the run. Raises JobError.

        *wait* waits for an event, but no longer than so many seconds.
        """
        self._options, self._archive = options, open_archive(options.archive)
        self._make_client, self._now_seconds, self._wait = make_client, now_seconds, wait
        self._deadline = Deadline.after(options.time_budget_seconds, now_seconds)
        plan = self._plan("")
        ids = [one.group_id for one in plan.groups]
        self._before = read_returns(self._archive, plan.plan_id, ids, options.failure_table)
        self.outcomes: tuple[Outcome, ...] = ()
        self._ended_by, self._is_interrupted = "", False

    def run(self, plan_id: str, progress: Progress) -> None:
        """Look until every failure would have come back, or somebody or the deadline stops it."""
        from spark_reprocess.spark.interrupts import asking_to_stop

        is_stopping, rules = threading.Event(), self._options.ramp_rules

        def stop(why: str) -> None:
            self._ended_by, self._is_interrupted = why, True
            is_stopping.set()

        try:
            plan = self._plan(plan_id)
            with asking_to_stop(stop), progress("watching", self._status):
                while not (self._has_ended(plan) or self._ended_by):
                    self._wait(is_stopping, rules.minute_seconds / rules.looks)
        except JobError as error:
            # The answer of the run must not be lost.
            self._ended_by = str(error)

    def exit_code_after(self, exit_code: int) -> int:
        """Print what went wrong in the watch; return its exit code, else that of the run."""
        allowed, before = self._options.allow_returns, self._before
        bad = [
            one.group_id
            for one in self.outcomes
            if (one.returned or 0) - before.get(one.group_id, Returns()).returned
            > allowed.of_sent(one.sent)
        ]
        if self._ended_by:
            print_error(f"the watch ended early: {self._ended_by}")
        if bad:
            print_error(f"{', '.join(bad)}: more came back than may")
        if self._is_interrupted or exit_code == INTERRUPTED:
            return INTERRUPTED
        return STOPPED if bad else exit_code

    def _plan(self, plan_id: str) -> Plan:
        options = self._options
        plan = find_plan(self._archive, options.plan or plan_id or None).plan()
        return plan if options.group is None else plan.only(options.group)

    def _has_ended(self, plan: Plan) -> bool:
        now, table = self._now_seconds(), self._options.failure_table
        claimed = claimed_table(self._archive, now, since=time_before(plan.plan_id))
        found = read_outcomes(self._archive, plan, table, claimed, self._make_client) or {}
        self.outcomes = tuple(one for one in found.values() if one.sent)
        seconds, is_late = self._options.ramp_rules.minute_seconds, self._deadline.seconds_left <= 0
        return is_late or all(one.is_known(now, seconds) for one in self.outcomes)

    def _status(self) -> str:
        return total(self.outcomes).sentence(self._now_seconds()) if self.outcomes else ""


def print_outcomes(outcomes: Collection[Outcome], failure_table: str | None) -> None:
    """Print what came back of each group of which something was sent, the most first."""
    sent = sorted((one for one in outcomes if one.sent), key=lambda one: -(one.returned or 0))
    if sent and not failure_table:
        print_line("what comes back cannot be known: no --failure-table counts it")
        return
    for one in sent[:_SHOWN]:
        print_line(f"{one.group_id}: {one.sentence(time.time())}")
    if len(sent) > _SHOWN:
        print_line(f"and {len(sent) - _SHOWN:,} more groups; --json lists all")
