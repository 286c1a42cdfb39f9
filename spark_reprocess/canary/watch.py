"""The wait for the failures of a canary: from when, how long, the loop; and the verdict. No I/O.

SQS does not report when a message was received. A count without visible messages shows that every
message that was in the queue before, canaries included, has been received. SQS's counts lag, so
readings soon after the send are ignored. From then on a message that fails moves to the DLQ within
maxReceiveCount times the time for which a receive hides it, and is parked shortly after.

A consumer that stops leaves its messages visible. So a backlog that returns restarts the wait, and
the wait does not end at a reading that shows a backlog. Messages in flight do not matter: a queue
with live traffic always has some, and the wait covers all that were hidden when it began.

A driver that dies here loses nothing: the ledger has the canaries as sent, and those that fail are
parked like any other message. The next run sends a new canary of what is left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from spark_reprocess.canary.options import GRACE_SECONDS, Share
from spark_reprocess.clients import QueueCounts
from spark_reprocess.figures import duration


class Verdict(StrEnum):
    """Whether the rest of a group may be sent; unknown stops the group as failed does."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on one group.

    Attributes:
        sent: canaries of which SQS confirmed that it has them.
        returned: canaries that came back to the parked queue.
        allowed: how many may come back.
        why: why the verdict is unknown; empty for the other verdicts.
        failures: the canaries that came back, by first id: the type of the recorded error, empty
            if none was recorded.
    """

    group_id: str
    sent: int
    returned: int
    allowed: int
    verdict: Verdict
    why: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """The verdicts on all groups.

    Attributes:
        waited_seconds: from the last send to the verdict.
        archived: messages of any kind that were drained into the archive meanwhile.
        main_queue: its counts at the last reading, None if there was none.
    """

    groups: tuple[GroupVerdict, ...]
    waited_seconds: float
    archived: int = 0
    main_queue: QueueCounts | None = None

    @property
    def stopped_groups(self) -> tuple[str, ...]:
        """The groups whose rest must not be sent."""
        return tuple(one.group_id for one in self.groups if one.verdict is not Verdict.PASSED)


def joined(reports: Sequence[CanaryReport]) -> CanaryReport | None:
    """Join the reports of canaries that went to different queues; None where there is none."""
    if not reports:
        return None
    return CanaryReport(
        tuple(group for one in reports for group in one.groups),
        sum(one.waited_seconds for one in reports),
        sum(one.archived for one in reports),
        reports[0].main_queue if len(reports) == 1 else None,
    )


def judge(
    sent: Mapping[str, int],
    failures: Mapping[str, Mapping[str, str]],
    max_return: Share,
    unknown: str = "",
    never_sent: Iterable[tuple[str, str]] = (),
) -> tuple[GroupVerdict, ...]:
    """Judge each group by itself.

    Args:
        sent: by group id, how many canaries SQS confirmed.
        failures: by group id and first id, the error types of the canaries that came back.
        max_return: number or share of a group's canaries that may come back.
        unknown: why the wait gave no answer; empty if it did. Failures that were seen count in
            either case.
        never_sent: groups without a canary, and why.
    """
    judged = [
        _judge(group_id, count, failures.get(group_id, {}), max_return.at_most(count), unknown)
        for group_id, count in sent.items()
    ]
    missing = [GroupVerdict(one, 0, 0, 0, Verdict.UNKNOWN, why) for one, why in never_sent]
    return (*judged, *missing)


def _judge(
    group_id: str, sent: int, failures: Mapping[str, str], allowed: int, unknown: str
) -> GroupVerdict:
    verdict, why = Verdict.PASSED, ""
    if len(failures) > allowed:
        verdict = Verdict.FAILED
    elif why := unknown or ("" if sent else "none of its canaries is known to be sent"):
        verdict = Verdict.UNKNOWN
    return GroupVerdict(group_id, sent, len(failures), allowed, verdict, why, failures)


MOST_RESTARTS = 3
"""A backlog that returns more often ends the wait with the verdict unknown."""

_READINGS_IN_A_ROW = 2
"""SQS's counts are approximate: one reading proves nothing."""

_COUNTS_PER_READING = 3
_COUNTS_APART_SHARE = 0.2
"""Of the time between two readings. A message that no consumer receives is in every count, one of
live traffic is in few: a reading shows a backlog only if each of its counts does."""

_NOT_PARKED = "dead letters wait in the DLQ, perhaps canaries; is its replay function running?"


@dataclass(slots=True)
class ObservationWindow:
    """The wait for one canary: first until the backlog is gone, then for failures.

    Attributes:
        sent_at: when its last message was sent.
        stale_seconds: after the send; earlier readings of the main queue are ignored.
        wait_seconds: the longest wait for the backlog to be gone, and the wait for failures.
        started_at: when the backlog was gone; None while there is one.
        restarts: how often the backlog returned.
    """

    sent_at: float
    stale_seconds: float
    wait_seconds: float
    started_at: float | None = None
    restarts: int = 0
    _returned_at: float | None = None
    _clear_readings: int = 0
    _backlog_readings: int = 0

    def record(self, now: float, main: QueueCounts | None) -> None:
        """Take a reading of the main queue.

        None, where SQS did not answer, counts as a backlog.
        """
        if now < self.sent_at + self.stale_seconds:
            return
        is_clear = main is not None and not main.visible
        self._clear_readings = self._clear_readings + 1 if is_clear else 0
        self._backlog_readings = 0 if is_clear else self._backlog_readings + 1
        if self.started_at is None:
            if self._clear_readings >= _READINGS_IN_A_ROW:
                self.started_at = now
        elif self._backlog_readings >= _READINGS_IN_A_ROW:
            self.started_at = None
            self._returned_at = now
            self.restarts += 1

    def seconds_left(self, now: float) -> float:
        """Return the time until the current phase is over; at least 0."""
        since = self.sent_at + self.stale_seconds
        if self.started_at is not None:
            since = self.started_at
        elif self._returned_at is not None:
            since = self._returned_at
        return max(0.0, since + self.wait_seconds - now)

    def has_given_up(self, now: float) -> bool:
        """Whether the backlog was not gone in time, or returned too often."""
        is_late = self.seconds_left(now) == 0 or self.restarts > MOST_RESTARTS
        return self.started_at is None and is_late

    def is_over(self, now: float) -> bool:
        """Whether every failure had the time to come back, and no message waits to be received."""
        is_waited = self.started_at is not None and self.seconds_left(now) == 0
        return is_waited and self._clear_readings > 0


class Probe(Protocol):
    """Reads queues and archive. None means that SQS did not answer."""

    def main(self) -> QueueCounts | None:
        """Return the counts of the main queue."""

    def dead_letters_waiting(self) -> int | None:
        """Return how many dead letters are undecided: canaries may be among them."""

    def parked(self) -> QueueCounts | None:
        """Return the counts of the parked queue."""

    def fetch(self) -> str:
        """Drain the parked queue into the archive; return why that failed, empty if it did not."""

    def returned(self) -> Mapping[str, str]:
        """Return messages that came back with this plan's id since the baseline, by first id.

        The value is the type of the error that the consumer recorded, empty if it recorded none.
        """


@dataclass(slots=True)
class Watch:
    """Waits for one canary.

    Attributes:
        canaries: by first id, the group of each canary that may have been sent.
        sent: by group id, how many of them SQS confirmed.
        now_seconds: a monotonic clock: setting the time of day must not shorten the wait.
        pause: sleeps so many seconds, or less.
        stopped: why the wait must end now, empty if it need not.
        unknown: after the wait, why canaries that did not come back may have failed, too; empty if
            they did not.
        main_queue: its counts at the last reading, None if SQS did not answer.
    """

    canaries: Mapping[str, str]
    sent: Mapping[str, int]
    max_return: Share
    window: ObservationWindow
    probe: Probe
    now_seconds: Callable[[], float]
    pause: Callable[[float], object]
    stopped: Callable[[], str]
    poll_seconds: float = 5.0
    grace_seconds: float = GRACE_SECONDS
    unknown: str = ""
    main_queue: QueueCounts | None = None
    _returned: dict[str, str] = field(default_factory=dict)
    _trouble: str = ""

    def run(self) -> None:
        """Wait until every group has failed, the wait is over, or it must end."""
        self.unknown = self._wait() or self._settle()

    @property
    def failures(self) -> Mapping[str, Mapping[str, str]]:
        """The canaries that came back, by group id and first id: the type of the error."""
        failures: dict[str, dict[str, str]] = {group_id: {} for group_id in self.sent}
        for first_id, error in sorted(self._returned.items()):
            failures[self.canaries[first_id]][first_id] = error
        return failures

    def status(self) -> str:
        """Return the progress line."""
        counts = self.main_queue
        backlog = (
            f"main queue: {counts.visible:,} waiting, {counts.in_flight:,} in flight"
            if counts
            else "main queue cannot be asked"
        )
        left = duration(self.window.seconds_left(self.now_seconds()))
        phase = (
            f"at most {left} until its backlog is gone"
            if self.window.started_at is None
            else f"verdict in {left}"
        )
        total = sum(self.sent.values())
        return f"{backlog}; {phase}; {len(self._returned):,} of {total:,} came back"

    def _wait(self) -> str:
        while not (why := self.stopped()):
            self.main_queue = self._read_main_queue()
            now = self.now_seconds()
            self.window.record(now, self.main_queue)
            self._fetch()
            if self._is_decided() or self.window.is_over(now):
                return ""
            if self.window.has_given_up(now):
                return self._backlog_sentence()
            self.pause(self.poll_seconds)
        return why

    def _read_main_queue(self) -> QueueCounts | None:
        counts = self.probe.main()
        for _ in range(_COUNTS_PER_READING - 1):
            if counts is not None and not counts.visible:
                break
            self.pause(self.poll_seconds * _COUNTS_APART_SHARE)
            counts = self.probe.main() or counts
        return counts

    def _settle(self) -> str:
        """Wait until no canary can be on its way: the DLQ first, then the parked queue."""
        until = self.now_seconds() + self.grace_seconds
        has_seen_no_dead_letters = False
        while not self._is_decided():
            has_seen_no_dead_letters |= self.probe.dead_letters_waiting() == 0
            self._fetch(is_last=True)
            parked = self.probe.parked()
            is_empty = parked is not None and parked.total == 0 and not self._trouble
            if has_seen_no_dead_letters and is_empty:
                self._count_returned()
                return ""
            if why := self.stopped():
                return why
            if self.now_seconds() >= until:
                return self._unsettled_sentence(parked) if has_seen_no_dead_letters else _NOT_PARKED
            self.pause(self.poll_seconds)
        return ""

    def _fetch(self, *, is_last: bool = False) -> None:
        parked = self.probe.parked()
        if parked is None or not (parked.visible or is_last):
            return
        self._trouble = self.probe.fetch()
        self._count_returned()

    def _count_returned(self) -> None:
        found = self.probe.returned()
        self._returned |= {one: found[one] for one in found.keys() & self.canaries.keys()}

    def _is_decided(self) -> bool:
        verdicts = judge(self.sent, self.failures, self.max_return)
        return all(one.verdict is Verdict.FAILED for one in verdicts)

    def _backlog_sentence(self) -> str:
        if self.main_queue is None:
            return "the main queue could not be asked for its backlog"
        restarts = self.window.restarts
        what = (
            f"came back {restarts:,} times"
            if restarts > MOST_RESTARTS
            else f"was not gone within {duration(self.window.wait_seconds)}"
        )
        return (
            f"the main queue's backlog {what}: "
            f"{self.main_queue.visible:,} messages wait and "
            f"{self.main_queue.in_flight:,} are in flight"
        )

    def _unsettled_sentence(self, parked: QueueCounts | None) -> str:
        if self._trouble:
            return f"the parked queue could not be fetched: {self._trouble}"
        left = "cannot be asked" if parked is None else f"still holds {parked.total:,} messages"
        return f"the parked queue {left}, perhaps canaries"
