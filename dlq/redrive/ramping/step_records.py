"""The steps of a ramp: their sizes, and their records in the archive. No Spark, no AWS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlq.archive.ledger.claims import list_runs, plan_folder
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import read_record, record_bytes
from dlq.explain.triage import GroupState

_RETURNED = "returned.json"

_GROWTH = 2

EARLIER_PLANS = 7
"""A group goes on with its ramp of one of this many plans before: a week of nights."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The sizes of the steps of the largest group, and the shortest time for the steps of all.

    Ramps to several queues wait together: it is that of the longest one.
    """

    sizes: tuple[int, ...]
    seconds: float


def step_size(proven: int, left: int) -> int:
    """Return the size of the next step, of *left* messages, after *proven* ones in good steps."""
    return min(left, max(1, _GROWTH * proven))


def step_sizes(messages: int, proven: int = 0) -> list[int]:
    """Return the sizes of the steps of *messages*, after *proven* ones, if all steps are good.

    Each step is twice as large as all before it.

    >>> step_sizes(85)
    [1, 2, 6, 18, 54, 4]
    >>> step_sizes(messages=20, proven=3)
    [6, 14]
    """
    sizes: list[int] = []
    while (left := messages - sum(sizes)) > 0:
        sizes.append(step_size(proven + sum(sizes), left))
    return sizes


@dataclass(frozen=True, slots=True)
class Step:
    """One step to one queue. Groups begin at different steps. Counts are by group id.

    Attributes:
        number: from 1.
        run_id: of the run that made it.
        began_at: a time before its first claim; epoch seconds.
        messages: the number of its messages; when it is sent, of those that SQS confirmed.
        returned_before: the number of messages that had been counted as returned when it was made.
        halts: how often the group had been halted before.
        proven: the number of messages in good steps before it, in this plan and in earlier ones
            whose ramp it goes on with.
        left: the number of messages that the run had to send beside it.
        sent_at: when its last message was sent, or a little later, so that a wait is never too
            short; epoch seconds; None as long as some of it may still be sent.
    """

    number: int
    run_id: str
    began_at: float
    messages: Mapping[str, int]
    returned_before: Mapping[str, int]
    halts: Mapping[str, int]
    proven: Mapping[str, int]
    left: Mapping[str, int]
    sent_at: float | None = None

    def expected(self, returned: Mapping[str, int]) -> int:
        """Return how many messages of a sent step have succeeded if no more fail again."""
        returned_since = 0
        for group_id, returned_before in self.returned_before.items():
            returned_since += max(0, returned.get(group_id, 0) - returned_before)
        return sum(self.messages.values()) - returned_since


@dataclass(frozen=True, slots=True)
class LastCount:
    """The last count of the messages that failed again.

    Attributes:
        at: the time of the count; epoch seconds.
        returned: the counters of the plan, by group id.
    """

    at: float
    returned: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Steps:
    """The records of one plan's steps to one queue, in ``ledger/plan_id=<id>/steps/<queue>/``.

    ``00003.json`` is the third step, written before its first claim. ``00003.sent.json`` is the
    same step, written by a run when all its messages that could be sent are sent. ``returned.json``
    is for later readers without the failure table.
    """

    archive: Archive
    plan_id: str
    queue: str

    def read(self) -> list[Step]:
        """Return all steps, in order; only the last one may not be sent. Raises ArchiveError."""
        steps: list[Step] = []
        while (step := self._read_step(len(steps) + 1)) is not None:
            steps.append(step)
        return steps

    def _read_step(self, number: int) -> Step | None:
        """Read a step, as it was sent if it was; None where there is none."""
        for end in (".sent.json", ".json"):
            step = read_record(self.archive, self._path(number, end), Step)
            if step is not None:
                return step
        return None

    def create(self, step: Step) -> bool:
        """Write the record of a step that begins, or of one that is sent, durably.

        Return False if there is one already: of several runs, the record of the first one counts.
        """
        end = ".json" if step.sent_at is None else ".sent.json"
        return self.archive.create(self._path(step.number, end), record_bytes(step))

    def note_returns(self, count: LastCount) -> None:
        """Write the count of the messages that failed again. Raises ArchiveError."""
        path = f"{_steps_folder(self.plan_id)}/{self.queue}/{_RETURNED}"
        self.archive.write(path, record_bytes(count))

    def table(self, number: int, run_id: str) -> str:
        """Return the folder with the table of a step's messages; see ``table_parts.read_whole``."""
        return self._path(number, f"-{run_id}")

    def _path(self, number: int, end: str) -> str:
        return f"{_steps_folder(self.plan_id)}/{self.queue}/{number:05d}{end}"


def _steps_folder(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/steps"


def step_queues(archive: Archive, plan_id: str) -> list[str]:
    """Return the names of the queues to which a plan has gone by ramp. Raises ArchiveError."""
    folder = f"{_steps_folder(plan_id)}/"
    queues: set[str] = set()
    for path in archive.list(folder.rstrip("/")):
        queues.add(path.removeprefix(folder).partition("/")[0])
    return sorted(queues)


def last_counts(archive: Archive, plan_id: str) -> dict[str, LastCount]:
    """Read how many messages of a plan had failed again when its ramps counted last, by group id.

    Groups without a count are missing. Raises ArchiveError.
    """
    counts: dict[str, LastCount] = {}
    for path in archive.list(_steps_folder(plan_id)):
        if not path.endswith(f"/{_RETURNED}"):
            continue
        count = read_record(archive, path, LastCount)
        if count is None:
            continue
        for group_id in count.returned:
            # The queues of a plan share the counters of a group.
            other = counts.get(group_id)
            if other is None or other.at < count.at:
                counts[group_id] = count
    return counts


def ended_steps(steps: Sequence[Step]) -> int:
    """Return the number of steps that are sent."""
    return sum(step.sent_at is not None for step in steps)


def earlier_steps(archive: Archive, plan_id: str, queue: str) -> dict[str, list[Step]]:
    """Read the steps to one queue of the last plans before *plan_id* that were carried out.

    By plan id, the newest first; plans without a ramp to this queue are missing.
    """
    earlier_plans = {plan for plan, _ in list_runs(archive) if plan < plan_id}
    newest_first = sorted(earlier_plans, reverse=True)

    steps_by_plan = {}
    for plan in newest_first[:EARLIER_PLANS]:
        steps = Steps(archive, plan, queue).read()
        if steps:
            steps_by_plan[plan] = steps
    return steps_by_plan


def own_steps(steps: Sequence[Step], group_id: str, halts: int) -> list[Step]:
    """Return the steps of a group since it was halted last, of *halts* times in all."""
    return [step for step in steps if step.halts.get(group_id) == halts]


def unfinished_plan(
    earlier: Mapping[str, Sequence[Step]], group_id: str, state: GroupState
) -> str | None:
    """Return the plan whose ramp a group without a step goes on with; None to begin a ramp. Pure.

    That is the newest of the *earlier* plans (newest first) with a step of the group. But the group
    begins a ramp if that plan left none of its messages, or if a person decided the group since.
    """
    for plan_id, steps in earlier.items():
        own = own_steps(steps, group_id, state.halts)
        if own:
            is_unfinished = own[-1].left[group_id] > 0
            is_decided_since = (state.plan_id or "") > plan_id
            return plan_id if is_unfinished and not is_decided_since else None
    return None
