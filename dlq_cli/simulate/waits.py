"""How long a dead letter waits before it is back in main: what the rules answer, tabulated. Pure.

The rules are asked about every delay that may be drawn, look by look, until they replay or park.
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
"""When every dead letter here enters the DLQ; any time will do, the rules go by differences."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What becomes of the dead letters with one replay count.

    Attributes:
        delays: share of them by seconds from becoming a dead letter to being back in main.
        looks: share of them by seconds at which they are received from the DLQ and sent on: to
            main, to the parked queue, or to the DLQ itself to wait on.
        parked: share of them that ends in the parked queue instead.
    """

    delays: Mapping[int, float]
    looks: Mapping[int, float]
    parked: float

    @property
    def mean_seconds(self) -> float:
        """How long those wait on average that are not parked; 0 where all are."""
        return sum(seconds * share for seconds, share in self.delays.items())


def waits_by_replay_count(policy: ReplayPolicy, jitter: Jitter) -> list[Waits]:
    """The waits of dead letters that were replayed 0, 1, 2, ... times, until all are parked."""
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
    looks: Counter[int] = Counter()
    for part in parts:
        middle = part[len(part) // 2]
        for look_seconds, decision in _looks(letter, policy, middle):
            looks[look_seconds] += len(part)
            if isinstance(decision, Replay):
                waited_seconds = look_seconds + decision.delay_seconds
                delays.update(waited_seconds + draw - middle for draw in part)
    drawn = sum(map(len, parts))
    return Waits(
        delays={seconds: count / drawn for seconds, count in delays.items()},
        looks={seconds: count / drawn for seconds, count in looks.items()},
        parked=1 - delays.total() / drawn,
    )


def _looks(letter: Message, policy: ReplayPolicy, draw: int) -> Iterator[tuple[int, Decision]]:
    """Each time that the Lambda sees a dead letter which draws *draw*, and what it decides."""
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
    """What the rules draw below; 0 where they park without a draw."""
    asked = [0]

    def record(ceiling_seconds: int) -> int:
        asked.append(ceiling_seconds)
        return ceiling_seconds

    decide(letter, policy, _ENTERED_SECONDS, record)
    return asked[-1]


def _received(entry: SendEntry) -> Message:
    """The copy that a send makes."""
    return Message("copy", entry.body, entry.attributes)
