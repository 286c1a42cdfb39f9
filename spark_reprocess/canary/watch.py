"""The loop that waits for canaries to come back: look, fetch, look again. Pure but for its eyes.

Whoever dies here loses nothing: the canaries stand in the ledger as sent, and those that fail are
parked like any other message. The next run takes a new canary of what is left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spark_reprocess.canary.share import Share
from spark_reprocess.canary.verdict import Verdict, judge
from spark_reprocess.canary.vigil import MOST_RESTARTS, Vigil
from spark_reprocess.figures import duration
from spark_reprocess.queue_counts import QueueCounts

GRACE_SECONDS = 120.0
"""How long, after the wait, dead letters that are under way may take to be parked."""

_READS_IN_A_LOOK = 3
_READS_APART_SHARE = 0.2
"""Of the time between two looks. A message that nobody receives is in every count, one of live
traffic is in few: a look shows a backlog only where each of its reads does."""

_NOT_PARKED = "dead letters wait in the DLQ, perhaps canaries; is its replay function running?"


class Eyes(Protocol):
    """What can be seen of the canaries. None is a queue that could not be asked just now."""

    def main(self) -> QueueCounts | None:
        """The main queue."""

    def dead_letters_waiting(self) -> int | None:
        """Dead letters that nobody has decided about yet: a canary may be among them."""

    def parked(self) -> QueueCounts | None:
        """The parked queue."""

    def fetch(self) -> str:
        """Bring the parked queue into the archive; say why that failed, or nothing."""

    def returned(self) -> Mapping[str, str]:
        """The messages that came back with this plan's id since ``remember``, by first id.

        With each the type of the error that its consumer recorded, empty where it recorded none.
        """


@dataclass(frozen=True, slots=True)
class Seen:
    """What the wait brought.

    Attributes:
        failures: by group id and first id, the canaries that came back, with the type of each
            one's error.
        unknown: why the wait tells nothing about those that did not; empty where it does.
        main_queue: its counts at the last look, None where it could not be asked.
    """

    failures: Mapping[str, Mapping[str, str]]
    unknown: str
    main_queue: QueueCounts | None = None

    @property
    def returned(self) -> dict[str, int]:
        """By group id, how many canaries came back."""
        return {group_id: len(of_group) for group_id, of_group in self.failures.items()}


@dataclass(slots=True)
class Watch:
    """Waits for one canary.

    Attributes:
        canaries: by first id, the group of each canary that may have been sent.
        sent: by group id, how many of them SQS confirmed.
        now_seconds: on a clock that nobody sets: the waits must not be cut short.
        pause: sleeps so many seconds, or less.
        stopped: why the waiting must end now, empty while it may go on.
    """

    canaries: Mapping[str, str]
    sent: Mapping[str, int]
    max_return: Share
    vigil: Vigil
    eyes: Eyes
    now_seconds: Callable[[], float]
    pause: Callable[[float], object]
    stopped: Callable[[], str]
    poll_seconds: float = 5.0
    grace_seconds: float = GRACE_SECONDS
    _returned: dict[str, str] = field(default_factory=dict)
    _main: QueueCounts | None = None
    _trouble: str = ""

    def run(self) -> Seen:
        """Wait until every group has failed, the time is over, or something is in the way."""
        unknown = self._wait() or self._settle()
        return self._seen(unknown)

    def status(self) -> str:
        """What to show while it goes on."""
        counts = self._main
        held = (
            f"main queue: {counts.visible:,} waiting, {counts.in_flight:,} in flight"
            if counts
            else "main queue cannot be asked"
        )
        left = duration(self.vigil.seconds_left(self.now_seconds()))
        phase = (
            f"at most {left} until its backlog is gone"
            if self.vigil.started_at is None
            else f"verdict in {left}"
        )
        total = sum(self.sent.values())
        return f"{held}; {phase}; {len(self._returned):,} of {total:,} came back"

    def _wait(self) -> str:
        while not (why := self.stopped()):
            self._main = self._look_at_main()
            now = self.now_seconds()
            self.vigil.see(now, self._main)
            self._fetch()
            if self._is_decided() or self.vigil.is_over(now):
                return ""
            if self.vigil.has_given_up(now):
                return self._backlog_sentence()
            self.pause(self.poll_seconds)
        return why

    def _look_at_main(self) -> QueueCounts | None:
        counts = self.eyes.main()
        for _ in range(_READS_IN_A_LOOK - 1):
            if counts is not None and not counts.visible:
                break
            self.pause(self.poll_seconds * _READS_APART_SHARE)
            counts = self.eyes.main() or counts
        return counts

    def _settle(self) -> str:
        """Look until nothing that might be a canary is on its way; the DLQ first, as they come."""
        until = self.now_seconds() + self.grace_seconds
        has_seen_no_dead_letters = False
        while not self._is_decided():
            has_seen_no_dead_letters |= self.eyes.dead_letters_waiting() == 0
            self._fetch(is_last=True)
            parked = self.eyes.parked()
            is_empty = parked is not None and parked.total == 0 and not self._trouble
            if has_seen_no_dead_letters and is_empty:
                self._look()
                return ""
            if why := self.stopped():
                return why
            if self.now_seconds() >= until:
                return self._unsettled_sentence(parked) if has_seen_no_dead_letters else _NOT_PARKED
            self.pause(self.poll_seconds)
        return ""

    def _fetch(self, *, is_last: bool = False) -> None:
        parked = self.eyes.parked()
        if parked is None or not (parked.visible or is_last):
            return
        self._trouble = self.eyes.fetch()
        self._look()

    def _look(self) -> None:
        found = self.eyes.returned()
        self._returned |= {one: found[one] for one in found.keys() & self.canaries.keys()}

    def _seen(self, unknown: str = "") -> Seen:
        failures: dict[str, dict[str, str]] = {group_id: {} for group_id in self.sent}
        for first_id, error in sorted(self._returned.items()):
            failures[self.canaries[first_id]][first_id] = error
        return Seen(failures, unknown, self._main)

    def _is_decided(self) -> bool:
        verdicts = judge(self.sent, self._seen().returned, self.max_return)
        return all(one.verdict is Verdict.FAILED for one in verdicts)

    def _backlog_sentence(self) -> str:
        if self._main is None:
            return "the main queue could not be asked for its backlog"
        restarts = self.vigil.restarts
        what = (
            f"came back {restarts:,} times"
            if restarts > MOST_RESTARTS
            else f"was not gone within {duration(self.vigil.wait_seconds)}"
        )
        return (
            f"the main queue's backlog {what}: "
            f"{self._main.visible:,} messages wait and {self._main.in_flight:,} are in flight"
        )

    def _unsettled_sentence(self, parked: QueueCounts | None) -> str:
        if self._trouble:
            return f"the parked queue could not be fetched: {self._trouble}"
        left = "cannot be asked" if parked is None else f"still holds {parked.total:,} messages"
        return f"the parked queue {left}, perhaps canaries"
