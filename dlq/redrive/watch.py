"""Watches what fails again after one run of a redrive, from before its first send."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dlq.archive.ledger.stop import Stop
from dlq.archive.storage.files import Archive
from dlq.aws.clients import sqs_client
from dlq.errors import JobError
from dlq.inspect.outcomes import Outcome, read_outcomes
from dlq.plan.plan_file import find_plan
from dlq.progress import Progress
from dlq.redrive.ramping.verdict_rules import LOOKS_A_MINUTE, returns_allowed
from dlq.redrive.request import RedriveRequest
from dlq.redrive.sending.stop_signals import Clock, Deadline
from dlq.redrive.sending.waiting import look_until


@dataclass(frozen=True, slots=True)
class Watched:
    """Results of a watch.

    Attributes:
        outcomes: of the groups of which the plan has sent something, as of the last look.
        bad: ids of the groups of which more failed again since the watch began than are allowed.
        unknown: ids of the groups of which it is not known what failed again.
        stopped_by: a signal or the deadline, if one of them ended the watch early; else None.
        fault: why it could not look again, if that ended it; else empty.
    """

    outcomes: tuple[Outcome, ...]
    bad: tuple[str, ...]
    unknown: tuple[str, ...]
    stopped_by: Stop | None = None
    fault: str = ""

    @property
    def ended_early(self) -> str:
        """Why the watch ended before everything was known, for people; empty if it did not."""
        return self.stopped_by.sentence if self.stopped_by else self.fault


@dataclass
class Watch:
    """A watch of one run; it begins before the run.

    Attributes:
        outcomes: as of the last look.
    """

    archive: Archive
    request: RedriveRequest
    clock: Clock = field(default_factory=Clock)
    outcomes: tuple[Outcome, ...] = ()

    def __post_init__(self) -> None:
        """Raise JobError where there is no such plan."""
        self._deadline = Deadline.after(self.request.time_budget_seconds, self.clock)
        self._before = {outcome.group_id: outcome.returned or 0 for outcome in self._look("")}

    def run(self, plan_id: str, progress: Progress) -> Watched:
        """Look until every failure would have come back, or somebody or the deadline stops it."""

        def is_over() -> bool:
            self.outcomes = self._look(plan_id)
            now_seconds = self.clock.now_seconds()
            minute_seconds = self.request.minute_seconds
            return all(outcome.is_known(now_seconds, minute_seconds) for outcome in self.outcomes)

        def status() -> str:
            # Progress asks in a thread of its own.
            outcomes = self.outcomes
            if not outcomes:
                return ""
            worst = max(outcomes, key=lambda outcome: outcome.returned or 0)
            return f"{worst.group_id}: {worst.sentence(self.clock.now_seconds())}"

        every_seconds = self.request.minute_seconds / LOOKS_A_MINUTE
        stopped_by = None
        fault = ""
        try:
            with progress("watching", status):
                stopped_by = look_until(is_over, every_seconds, self._deadline)
        except JobError as error:
            # The answer of the run must not be lost.
            fault = str(error)

        return Watched(
            outcomes=self.outcomes,
            bad=too_many_returned(self.outcomes, self._before, self.request.allow_returns),
            unknown=_unknown_groups(self.outcomes),
            stopped_by=stopped_by,
            fault=fault,
        )

    def _look(self, plan_id: str) -> tuple[Outcome, ...]:
        plan = find_plan(self.archive, self.request.plan or plan_id or None).plan()
        if self.request.group is not None:
            plan = plan.only(self.request.group)
        outcomes = read_outcomes(
            self.archive, plan, self.request.failure_table, make_client=sqs_client
        )
        return tuple(outcome for outcome in outcomes.values() if outcome.sent)


def _unknown_groups(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """Return the groups of which it is not known what failed again."""
    unknown: list[str] = []
    for outcome in outcomes:
        if not outcome.can_be_known:
            unknown.append(outcome.group_id)
    return tuple(unknown)


def too_many_returned(
    outcomes: Sequence[Outcome], before: Mapping[str, int], allowed: str | None
) -> tuple[str, ...]:
    """Return the groups of which more failed again than allowed. Pure.

    *before* is how many had failed again of each group when the watch began; *allowed* as for
    ``returns_allowed``.
    """
    bad: list[str] = []
    for outcome in outcomes:
        failed_again = (outcome.returned or 0) - before.get(outcome.group_id, 0)
        if failed_again > returns_allowed(allowed, outcome.sent):
            bad.append(outcome.group_id)
    return tuple(bad)
