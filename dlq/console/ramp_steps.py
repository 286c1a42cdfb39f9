"""The steps of a ramp as a row, for people: those that were sent, the current one, and the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest

from dlq.archive.storage.files import Archive
from dlq.redrive.ramping.step_records import Step, Steps, step_queues, step_sizes

MOST_QUEUES = 5
"""Queues whose steps are read: a page asks each second."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step: its messages, and when they were sent; None before that.

    *is_current*: it is being sent, or its verdict is awaited.
    """

    messages: int
    sent_at: datetime | None = None
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class StepRow:
    """The ramp to one queue. The sizes of steps that are still to come are a forecast."""

    queue: str
    steps: tuple[ShownStep, ...]

    @property
    def sent(self) -> int:
        """Messages of the steps that are sent."""
        return sum(step.messages for step in self.steps if step.sent_at)

    @property
    def total(self) -> int:
        """Messages of all steps."""
        return sum(step.messages for step in self.steps)


def read_step_rows(
    archive: Archive, plan_id: str, group_id: str | None, since: datetime
) -> list[StepRow]:
    """Read the ramps of a plan in which a step began after *since*, of ``MOST_QUEUES`` at most.

    *group_id*: of this group alone. Raises ArchiveError.
    """
    rows: list[StepRow] = []
    for queue in step_queues(archive, plan_id)[:MOST_QUEUES]:
        steps = Steps(archive, plan_id, queue).read()
        if steps and steps[-1].began_at >= since.timestamp():
            rows.append(StepRow(queue, shown_steps(steps, group_id)))
    return rows


def shown_steps(steps: Sequence[Step], group_id: str | None) -> tuple[ShownStep, ...]:
    """Return the steps of a ramp, of one group or of all, and those that are to come. Pure.

    A group that was halted began again with step one: only what came since is shown.
    """
    last_steps: dict[str, Step] = {}
    for step in steps:
        for sent_id in step.messages:
            if group_id in (None, sent_id):
                last_steps[sent_id] = step

    shown: list[ShownStep] = []
    for step in steps:
        messages = 0
        for sent_id, last_step in last_steps.items():
            if step.halts.get(sent_id) == last_step.halts.get(sent_id):
                messages += step.messages.get(sent_id, 0)
        if messages:
            sent_at = None if step.sent_at is None else datetime.fromtimestamp(step.sent_at, UTC)
            shown.append(ShownStep(messages, sent_at))

    to_come = _to_come(last_steps)
    if shown and (to_come or shown[-1].sent_at is None):
        shown[-1] = ShownStep(shown[-1].messages, shown[-1].sent_at, is_current=True)
    return (*shown, *map(ShownStep, to_come))


def _to_come(last_steps: Mapping[str, Step]) -> list[int]:
    """Return the sizes of the next steps, if all are good, after the last step of each group."""
    sizes: list[int] = []
    for group_id, step in last_steps.items():
        proven = step.proven.get(group_id, 0) + step.messages[group_id]
        of_group = step_sizes(step.left.get(group_id, 0), proven)
        sizes = [sum(pair) for pair in zip_longest(sizes, of_group, fillvalue=0)]
    return sizes
