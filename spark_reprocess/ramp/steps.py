"""The records of a ramp's steps, in ``ledger/plan_id=<id>/steps/<queue>/``. No Spark.

- ``00003.json``: the third step to this queue, created if absent before its first claim. Of several
  runs the first one's counts for all. The table with its messages is in ``00003-<run id>``.
- ``00003.sent.json``: the same, once everything of it that could be sent is sent; made by a run
  that saw that. Its time may be later than the last send, so that a wait is never too short.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlq_replay.replaying.returns import Returns
from spark_reprocess.archive.ledger.claims import plan_folder
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.records import read_record, record_bytes
from spark_reprocess.figures import counted
from spark_reprocess.ramp.rule import GroupRamp, Verdict, returns_allowed, step_sizes


@dataclass(frozen=True, slots=True)
class Step:
    """One step to one queue. Groups begin at different steps.

    Attributes:
        number: from 1.
        run_id: of the run that made it.
        began_at: before its first claim; epoch seconds.
        messages: how many it has, by group id.
        returned_before: by group id, how many had been counted as returned when it was made.
        stops: by group id, how often the group had been stopped before.
        sent_at: when its last message was sent, or a little later; epoch seconds; None as long as
            some of it may still be sent.
        sent: by group id, the messages that SQS confirmed.
    """

    number: int
    run_id: str
    began_at: float
    messages: Mapping[str, int]
    returned_before: Mapping[str, int]
    stops: Mapping[str, int]
    sent_at: float | None = None
    sent: Mapping[str, int] | None = None

    def sent_of(self, group_id: str) -> int:
        """Return how many messages of a group SQS confirmed; of a step that still goes on, all."""
        return (self.messages if self.sent is None else self.sent).get(group_id, 0)

    def expected(self, returns: Mapping[str, Returns]) -> int:
        """Return how many messages of a sent step have succeeded if nothing else comes back."""
        back = sum(
            max(0, returns[one].returned - before)
            for one, before in self.returned_before.items()
            if one in returns
        )
        return sum((self.sent or {}).values()) - back


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one plan to one queue."""

    archive: Archive
    plan_id: str
    queue: str

    def read(self) -> list[Step]:
        """Return all steps, in order; only the last one may not be sent. Raises ArchiveError."""
        paths = {*self.archive.list(self._folder)}
        steps: list[Step] = []
        while (path := self._path(len(steps) + 1)) in paths:
            ended = self._path(len(steps) + 1, ".sent")
            step = read_record(self.archive, ended if ended in paths else path, Step)
            if step is None:
                break
            steps.append(step)
        return steps

    def create(self, step: Step) -> bool:
        """Write the record of a new step durably; return False where there is one already."""
        return self.archive.create(self._path(step.number), record_bytes(step))

    def end(self, step: Step, sent_at: float, sent: Mapping[str, int]) -> bool:
        """Write down durably that the step is sent; return False where another run did."""
        ended = replace(step, sent_at=sent_at, sent=sent)
        return self.archive.create(self._path(step.number, ".sent"), record_bytes(ended))

    def table(self, number: int, run_id: str) -> str:
        """Return the folder with the table of a step's messages; see ``frames.read_table``."""
        return f"{self._folder}/{number:05d}-{run_id}"

    @property
    def _folder(self) -> str:
        return f"{plan_folder(self.plan_id)}/steps/{self.queue}"

    def _path(self, number: int, suffix: str = "") -> str:
        return f"{self._folder}/{number:05d}{suffix}.json"


def ended_steps(steps: Sequence[Step]) -> int:
    """Return how many of the steps are sent."""
    return sum(step.sent is not None for step in steps)


def group_ramp(
    group_id: str,
    own: Sequence[Step],
    left: int,
    returns: Returns | None,
    allowed: str | None,
    blocker: str,
    *,
    in_order: bool,
) -> GroupRamp:
    """Say how far a group is. Pure.

    Args:
        group_id: of the group.
        own: its steps since it was last stopped, at least one.
        left: how many of its messages this run is to send beside them.
        returns: what is counted; None if nothing is known.
        allowed: see ``returns_allowed``.
        blocker: why nobody can tell yet whether the last step is good; empty if one can.
        in_order: whether what came back must go before what follows.
    """
    sent = sum(step.sent_of(group_id) for step in own)
    before = own[0].returned_before[group_id]
    returned = None if returns is None else max(0, returns.returned - before)
    most = returns_allowed(allowed, sent)
    verdict, why = Verdict.UNKNOWN, blocker
    if returned is not None and returned > most:
        verdict = Verdict.BAD
        why = f"{returned:,} of {counted(sent, 'message')} came back, {most:,} may"
    elif own[-1].sent is not None and not left:
        verdict, why = Verdict.SENT, ""
    elif returned is None:
        why = "it is not known what came back"
    elif in_order and returned and not blocker:
        why = "what came back must go first: collect again"
    elif not blocker:
        verdict = Verdict.GOOD
    steps = len(step_sizes(left + sum(step.messages[group_id] for step in own)))
    return GroupRamp(group_id, len(own), steps, sent, returned, most, verdict, why)
