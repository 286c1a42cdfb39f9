"""Results of a redrive or a restore, or of its dry run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import Stop
from dlq.redrive.ramping.step_records import Forecast
from dlq.redrive.ramping.verdict_rules import GroupRamp, Verdict
from dlq.redrive.resolving.editor import EditSample

EXAMPLES = 5
UNFINISHED = tuple(disposition for disposition in Disposition if disposition.is_unfinished)


@dataclass(frozen=True, slots=True)
class Tally:
    """Number of messages of a group that have a disposition.

    Attributes:
        group_id: empty for all groups.
        detail: why, empty if there is nothing to add.
        examples: the ids of the first few.
    """

    group_id: str
    disposition: str
    count: int
    detail: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group: how many of its messages met which ``Disposition``."""

    group_id: str
    title: str
    action: str
    counts: Mapping[str, int]
    is_edited: bool = False


@dataclass(frozen=True, slots=True)
class RedriveSummary:
    """Summary of what happened, or what would.

    Attributes:
        run_id: empty for a dry run.
        destinations: how many messages were sent to each queue, or would be, by its URL; empty if
            nothing has a destination.
        groups: every group of the plan, in its order.
        problems: why messages that the plan wants settled were not, over all groups.
        stopped_by: why the run ended early, None where it did not.
        notes: what else the operator should know, a sentence each.
        forecast: in a dry run, the ramp that it would be; None where everything would go at once.
        ramp: how far each group is in its ramp; empty where everything went at once.
        decisions_sha256: empty where there is no plan.
    """

    plan_id: str
    run_id: str
    destinations: Mapping[str, int]
    groups: tuple[GroupResult, ...]
    problems: tuple[Tally, ...]
    stopped_by: Stop | None = None
    samples: tuple[EditSample, ...] = ()
    notes: tuple[str, ...] = ()
    forecast: Forecast | None = None
    ramp: tuple[GroupRamp, ...] = ()
    max_rate: float | None = None
    decisions_sha256: str = ""

    @property
    def destination(self) -> str:
        """The queues, for people: one URL, or each URL with its number of messages.

        It is empty if nothing has a destination.
        """
        if len(self.destinations) == 1:
            return next(iter(self.destinations))
        return ", ".join(f"{url} ({count:,})" for url, count in self.destinations.items())

    @property
    def counts(self) -> Counter[str]:
        """Number of messages by disposition, over all groups."""
        counts = Counter[str]()
        for group in self.groups:
            # Unlike ``update``, this leaves a disposition out that no message has.
            counts += Counter(group.counts)
        return counts

    def count(self, *dispositions: str) -> int:
        """Return the number of messages that have one of these dispositions."""
        messages = 0
        for group in self.groups:
            for disposition in dispositions:
                messages += group.counts.get(disposition, 0)
        return messages

    @property
    def executed(self) -> bool:
        """True if this was more than a dry run."""
        return bool(self.run_id)

    @property
    def halted_groups(self) -> tuple[str, ...]:
        """The groups of which too much failed again: no more is sent until a person decides."""
        bad_ids: set[str] = set()
        for ramp in self.ramp:
            if ramp.verdict is Verdict.BAD:
                bad_ids.add(ramp.group_id)

        halted_ids: list[str] = []
        for group in self.groups:
            if group.group_id in bad_ids or group.counts.get(Disposition.HALTED):
                halted_ids.append(group.group_id)
        return tuple(halted_ids)

    @property
    def has_halted_groups(self) -> bool:
        """True if messages stayed because too much of their group failed again: exit code 3."""
        return self.executed and bool(self.halted_groups)

    @property
    def is_unfinished(self) -> bool:
        """True if this run should have settled messages that it could not."""
        return self.executed and self.count(*UNFINISHED) > 0


@dataclass(frozen=True, slots=True)
class Sent:
    """Results of the messages that made work.

    Attributes:
        tallies: of every one of them, what was not reached included.
        stopped_by: why the run ended early, None where it did not.
    """

    tallies: tuple[Tally, ...]
    stopped_by: Stop | None = None
    ramp: tuple[GroupRamp, ...] = ()
