"""How long a dead letter waits before it is back in main, computed with the rules. Pure.

For each possible delay the rules decide at every receive from the DLQ, until they replay or park.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlq_cli.simulate.jitter import Jitter
from dlq_replay.decision import Decision, Hold, Replay, decide
from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import held_entry, replay_entry
from dlq_replay.policy import ReplayPolicy

_ENTERED_SECONDS = 1_700_000_000
"""When each dead letter enters the DLQ. Any time works: the rules use differences only."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The results for the dead letters with one replay count. Shares are 0 to 1.

    Attributes:
        delays: share that is back in main, by seconds since it entered the DLQ.
        receives: share that is received from the DLQ, by seconds since it entered the DLQ. It is
            then sent to main, to the parked queue, or to the DLQ again to be held.
        parked: share that is parked.
    """

    delays: Mapping[int, float]
    receives: Mapping[int, float]
    parked: float

    @property
    def mean_seconds(self) -> float:
        """Average wait of those that are not parked; 0 if all are parked."""
        return sum(seconds * share for seconds, share in self.delays.items())


def waits_by_replay_count(policy: ReplayPolicy, jitter: Jitter) -> list[Waits]:
    """Return the waits of dead letters with 0, 1, 2, ... replays, until all are parked."""
    letter = Message("first", "x")
    table = [_waits_of(letter, policy, jitter)]
    while table[-1].parked < 1:
        entry = replay_entry(letter, len(table), 0, _ENTERED_SECONDS, policy)
        letter = _received(entry)
        table.append(_waits_of(letter, policy, jitter))
    return table


def _waits_of(letter: Message, policy: ReplayPolicy, jitter: Jitter) -> Waits:
    parts = jitter.parts(_ceiling_seconds(letter, policy))
    delays: Counter[int] = Counter()
    receives: Counter[int] = Counter()
    for part in parts:
        middle = part[len(part) // 2]
        for received_seconds, decision in _receives(letter, policy, middle):
            receives[received_seconds] += len(part)
            if isinstance(decision, Replay):
                waited_seconds = received_seconds + decision.delay_seconds
                delays.update(waited_seconds + draw - middle for draw in part)
    drawn = sum(map(len, parts))
    return Waits(
        delays={seconds: count / drawn for seconds, count in delays.items()},
        receives={seconds: count / drawn for seconds, count in receives.items()},
        parked=1 - delays.total() / drawn,
    )


def _receives(letter: Message, policy: ReplayPolicy, draw: int) -> Iterator[tuple[int, Decision]]:
    """Yield time and decision of each receive of a dead letter that draws *draw*."""
    waited_seconds = 0
    while True:
        now_seconds = _ENTERED_SECONDS + waited_seconds
        decision = decide(letter, policy, now_seconds, lambda _: draw)
        yield waited_seconds, decision
        if not isinstance(decision, Hold):
            return
        due, wait = decision.due_seconds, decision.wait_seconds
        letter = _received(held_entry(letter, due, wait, now_seconds, policy))
        waited_seconds += wait


def _ceiling_seconds(letter: Message, policy: ReplayPolicy) -> int:
    """Return the ceiling of the draw; 0 if the rules park without a draw."""
    asked = [0]

    def record(ceiling_seconds: int) -> int:
        asked.append(ceiling_seconds)
        return ceiling_seconds

    decide(letter, policy, _ENTERED_SECONDS, record)
    return asked[-1]


def _received(entry: SendEntry) -> Message:
    """Return the copy that a send makes."""
    return Message("copy", entry.body, entry.attributes)
