"""The records of a ramp's steps, in ``ledger/plan_id=<id>/steps/<queue>/``. No Spark.

- ``00003.json``: the third step to this queue, created if absent before its first claim. Of several
  runs the first one's counts for all. It names the table with its messages, ``00003-<run id>``.
- ``00003.sent.json``: everything of it that could be sent is sent; made by a run that saw that. Its
  time may be later than the last send, so that a wait from it on is never too short.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlq_replay.returns import Returns
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import plan_folder
from spark_reprocess.archive.records import damage_named
from spark_reprocess.figures import counted
from spark_reprocess.ramp.rule import AllowedReturns, GroupRamp, Verdict, step_sizes


@dataclass(frozen=True, slots=True)
class GroupStep:
    """The part that one group has in a step.

    Attributes:
        number: which step of the group it is, from 1.
        messages: of the group in it.
        is_last: whether no message of the group was left behind it.
        returned_before: how many had been counted as returned when it was made.
        stops: how often the group had been stopped before: steps before a stop no longer count.
    """

    number: int
    messages: int
    is_last: bool
    returned_before: int
    stops: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step to one queue.

    Attributes:
        number: of the record, from 1.
        began_at: before its first claim; epoch seconds.
        table: folder of its table below the archive's root; see ``frames.read_table``.
        groups: by id; groups begin at different steps.
        sent_at: when its last message was sent, or a little later; epoch seconds; None as long as
            some of it may still be sent.
        sent: by group id, the messages that SQS confirmed.
    """

    number: int
    run_id: str
    who: str
    began_at: float
    table: str
    groups: Mapping[str, GroupStep]
    sent_at: float | None = None
    sent: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one plan to one queue."""

    archive: Archive
    plan_id: str
    queue: str

    def read(self) -> list[Step]:
        """Return all steps, in order. Raises ArchiveError."""
        paths = set(self.archive.list(self._folder))
        found = []
        for number in range(1, len(paths) + 1):
            if self._path(number) not in paths:
                break
            found.append(self._step(number, has_ended=self._path(number, ".sent") in paths))
        return found

    def ended(self) -> int:
        """Return how many steps are sent; they are the first ones. Raises ArchiveError."""
        return sum(step.sent_at is not None for step in self.read())

    def create(self, step: Step) -> bool:
        """Write the record of a new step durably; return False where there is one already."""
        return self.archive.create(
            self._path(step.number), json.dumps(asdict(step), indent=1).encode()
        )

    def end(self, step: Step, sent_at: float, sent: Mapping[str, int]) -> Step:
        """Write down durably that the step is sent; return it as the first such record says."""
        ended = {"sent_at": sent_at, "sent": dict(sent)}
        if self.archive.create(self._path(step.number, ".sent"), json.dumps(ended).encode()):
            return replace(step, sent_at=sent_at, sent=sent)
        return self._step(step.number, has_ended=True)

    def table(self, number: int, run_id: str) -> str:
        """Return the folder for the table of a new step."""
        return f"{self._folder}/{number:05d}-{run_id}"

    @property
    def _folder(self) -> str:
        return f"{plan_folder(self.plan_id)}/steps/{self.queue}"

    def _path(self, number: int, suffix: str = "") -> str:
        return f"{self._folder}/{number:05d}{suffix}.json"

    def _step(self, number: int, *, has_ended: bool) -> Step:
        raw = self._load(self._path(number))
        ended = self._load(self._path(number, ".sent")) if has_ended else {}
        with damage_named(self.archive, self._path(number)):
            groups = {group: GroupStep(**one) for group, one in raw.pop("groups").items()}
            return Step(**{**raw, **ended, "groups": groups})

    def _load(self, path: str) -> dict[str, Any]:
        with damage_named(self.archive, path):
            return dict(json.loads(self.archive.read(path) or b""))


def of_group(steps: Iterable[Step], group_id: str, stops: int) -> Iterator[Step]:
    """Yield the steps of a group since it was last stopped."""
    for step in steps:
        if (part := step.groups.get(group_id)) and part.stops == stops:
            yield step


def messages_of(steps: Sequence[Step], group_id: str) -> int:
    """Return how many messages of a group these steps have together."""
    return sum(step.groups[group_id].messages for step in steps)


def sent_of(steps: Iterable[Step], group_id: str) -> int:
    """Return how many messages of a group SQS confirmed; of a step that still goes on, all."""
    return sum(
        step.groups[group_id].messages if step.sent is None else step.sent.get(group_id, 0)
        for step in steps
    )


def group_ramp(
    group_id: str,
    own: Sequence[Step],
    left: int,
    returns: Returns | None,
    allowed: AllowedReturns,
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
        allowed: how many may come back.
        blocker: why nobody can tell yet whether the last step is good; empty if one can.
        in_order: whether what came back must go before what follows.
    """
    part, messages = own[-1].groups[group_id], messages_of(own, group_id)
    sent = sent_of(own, group_id)
    before = own[0].groups[group_id].returned_before
    returned = None if returns is None else max(0, returns.returned - before)
    most = allowed.of_sent(sent)
    verdict, why = Verdict.UNKNOWN, blocker
    if returned is not None and returned > most:
        verdict, why = (
            Verdict.BAD,
            f"{returned:,} of {counted(sent, 'message')} came back, {most:,} may",
        )
    elif part.is_last and own[-1].sent is not None and not left:
        verdict, why = Verdict.SENT, ""
    elif returned is None:
        why = "it is not known what came back"
    elif in_order and returned and not blocker:
        why = "what came back must go first: drain and analyze again"
    elif not blocker:
        verdict = Verdict.GOOD
    steps = len(step_sizes(messages + left))
    return GroupRamp(group_id, part.number, steps, sent, returned, most, verdict, why)
