"""The waits that messages really have, from arrival in the DLQ to availability in main."""

from collections.abc import Sequence

import numpy as np
import pytest

from dlq_replay.backoff import Backoff
from dlq_replay.wire.message import Message
from tests.simulation.event_source import EventSource, run
from tests.simulation.stack import Stack
from tests.support.builders import counter, entry

MESSAGES = 100
BINS = 10
CHI_SQUARE_LIMIT = 27.88
"""9 degrees of freedom, p = 0.001: one in a thousand fair seeds would be above."""

RATE_SECONDS = 10
HOUR = 3600


def waits(*, is_fifo: bool, number: int, cap_seconds: int) -> list[int]:
    """Seconds from arrival in the DLQ to availability in main, each message a group of its own."""
    stack = Stack(
        is_fifo=is_fifo, backoff=Backoff(RATE_SECONDS, cap_seconds), max_attempts=99, seed=number
    )
    arrived: dict[str, int] = {}
    taken: list[int] = []

    def consume(batch: Sequence[Message]) -> set[str]:
        taken.extend(stack.now_seconds() - arrived[message.body] for message in batch)
        return set()

    sources = [stack.replay_source(), EventSource(stack.main, consume)]
    for index in range(MESSAGES):
        run(stack.model, sources, until_ms=stack.clock.now_ms() + index % 3 * 1000)
        arrived[str(index)] = stack.now_seconds()
        letter = entry(str(index), f"group-{index}" if is_fifo else "")
        stack.dlq.send([letter._replace(attributes=counter(str(number - 1)))])
    run(stack.model, sources)
    return taken


def chi_square(values: Sequence[int], ceiling: int) -> float:
    """Return the distance of the values from uniform over 0..ceiling, in equal bins."""
    bins = min(BINS, ceiling + 1)
    counts = np.bincount(np.array(values) * bins // (ceiling + 1), minlength=bins)
    sizes = np.bincount(np.arange(ceiling + 1) * bins // (ceiling + 1), minlength=bins)
    expected = len(values) * sizes / (ceiling + 1)
    return float(((counts - expected) ** 2 / expected).sum())


CASES = [
    *((number, cap) for number in (1, 5, 9, 15) for cap in (900, 6 * HOUR)),
    *((number, 48 * HOUR) for number in (*range(1, 12), 13, 15)),
]


@pytest.mark.parametrize("is_fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize(("number", "cap_seconds"), CASES)
def test_waits_are_uniform_up_to_the_ceiling(
    *, is_fifo: bool, number: int, cap_seconds: int
) -> None:
    ceiling = Backoff(RATE_SECONDS, cap_seconds).ceiling_seconds(number)
    taken = waits(is_fifo=is_fifo, number=number, cap_seconds=cap_seconds)

    assert len(taken) == MESSAGES
    assert 0 <= min(taken)
    assert max(taken) <= ceiling
    assert chi_square(taken, ceiling) < CHI_SQUARE_LIMIT
