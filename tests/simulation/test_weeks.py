"""Weeks of traffic with outages: at the end every message is accounted for."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from dlq_replay.decision import Hold, Replay
from dlq_replay.message import Message
from tests.builders import entry
from tests.simulation.event_source import EventSource, run
from tests.simulation.stack import Stack

HOUR = 3600
DAY = 24 * HOUR
WEEKS = 3
MESSAGES = 750
GROUPS = 7


@dataclass
class Consumer:
    """Needs a dependency that is down now and then, and can never handle some messages."""

    stack: Stack
    outages: Sequence[tuple[int, int]]
    poison: frozenset[str]
    handled: Counter[str] = field(default_factory=Counter)
    archived: Counter[str] = field(default_factory=Counter)

    def archive(self, batch: Sequence[Message]) -> set[str]:
        """What drains the parked queue, whose retention ends before the simulation does."""
        self.archived.update(message.body for message in batch)
        return set()

    def handle(self, batch: Sequence[Message]) -> set[str]:
        if self._is_down():
            return {message.message_id for message in batch}
        left = {message.message_id for message in batch if message.body in self.poison}
        self.handled.update(m.body for m in batch if m.message_id not in left)
        return left

    def _is_down(self) -> bool:
        now = self.stack.now_seconds()
        return any(start <= now < end for start, end in self.outages)


def simulate(*, is_fifo: bool, seed: int) -> tuple[Stack, Consumer]:
    randomness = random.Random(seed)
    stack = Stack(
        is_fifo=is_fifo, rate_seconds=30, cap_seconds=12 * HOUR, max_attempts=10, seed=seed
    )
    began = stack.now_seconds()
    starts = [began + randomness.randrange(WEEKS * 7 * DAY) for _ in range(6)]
    outages = [(start, start + randomness.choice([60, HOUR, 6 * HOUR, DAY])) for start in starts]
    poison = frozenset(str(n) for n in range(MESSAGES) if randomness.random() < 0.02)
    consumer = Consumer(stack, outages, poison)
    sources = [
        EventSource(stack.main, consumer.handle),
        stack.replay_source(batch_size=10 if is_fifo else 100),
        EventSource(stack.parked, consumer.archive),
    ]
    moments = sorted(randomness.randrange(WEEKS * 7 * DAY) for _ in range(MESSAGES))
    for index, moment in enumerate(moments):
        run(stack.model, sources, until_ms=(began + moment) * 1000)
        stack.main.send([entry(str(index), f"group-{index % GROUPS}" if is_fifo else "")])
    run(stack.model, sources)
    return stack, consumer


@pytest.mark.parametrize("is_fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize("seed", [1, 2])
def test_weeks_with_outages_lose_nothing_and_repeat_nothing(*, is_fifo: bool, seed: int) -> None:
    stack, consumer = simulate(is_fifo=is_fifo, seed=seed)

    assert set(consumer.handled) | set(consumer.archived) == {str(n) for n in range(MESSAGES)}
    assert set(consumer.handled) & set(consumer.archived) == set()
    assert {*consumer.handled.values(), *consumer.archived.values()} == {1}
    assert set(consumer.archived) >= consumer.poison
    assert len(stack.main.queue.messages()) == 0
    assert len(stack.dlq.queue.messages()) == 0
    fates = Counter(type(one.fate) for batch in stack.outcomes for one in batch.outcomes)
    assert fates[Hold] > 0
    assert fates[Replay] > 100


def test_fifo_dead_letters_go_back_in_the_order_they_came() -> None:
    stack, _ = simulate(is_fifo=True, seed=3)

    entered: dict[str | None, list[float]] = defaultdict(list)
    for letter in stack.replayed:
        entered[letter.message_group_id].append(letter.sent_seconds or 0)
    assert len(stack.replayed) > 100
    assert set(entered) == {f"group-{n}" for n in range(GROUPS)}
    for times in entered.values():
        assert times == sorted(times)
