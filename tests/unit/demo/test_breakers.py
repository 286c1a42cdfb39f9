import random
from collections import Counter
from collections.abc import Callable

import pytest

from demo.arguments import DEFAULT_MESSAGES
from demo.breakers import NotifyingBreakers, rules
from demo.business import Payments, Shop
from demo.environment import MAX_ATTEMPTS
from demo.workload import BROKEN_SHARE, FIFO_BROKEN_SHARE, invent
from dlq_replay.breaker import (
    BreakerRules,
    BreakerState,
    Phase,
    Update,
    closing,
    opening,
    probe_claim,
    probe_returned,
    probe_sent,
    return_time_counter,
    tripping_windows,
)
from dlq_replay.errors import BreakerTableError
from tests.breaker_tables import FakeBreakers, denied

NAME = "TimeoutError"
NOW = 1000
RULES = BreakerRules(slot_seconds=1, open_count=20, return_seconds=2, probe_seconds=1)


class Scene:
    """A table that shows what changes, and what it showed."""

    def __init__(self) -> None:
        self.inner = FakeBreakers()
        self.told: list[str] = []
        self.openings = 0
        self.returned: list[str] = []
        self.table = NotifyingBreakers(
            self.inner, self.told.append, self._count_opening, self.returned.append
        )

    def _count_opening(self) -> None:
        self.openings += 1

    @property
    def state(self) -> BreakerState:
        return self.inner.states.get(NAME, BreakerState())

    def do(self, update: Update | None) -> bool:
        assert update is not None
        return self.table.update(NAME, update)[0]

    def open(self) -> Callable[[], bool]:
        """Open the breaker; return how a worker does it again that has not seen the change."""
        self.do(Update(add={f"s{NOW - 1}": 22, f"b{NOW - 1}": 20}))
        update = opening(self.state, next(tripping_windows(self.state, NOW, RULES)), NOW)
        self.do(update)
        return lambda: self.do(update)


def test_opening_says_how_many_first_replays_returned() -> None:
    scene = Scene()
    scene.open()

    assert scene.state.phase is Phase.OPEN
    assert len(scene.told) == 1
    assert scene.told[0].startswith(
        "circuit breaker opened for TimeoutError: 90 % of 22 first replays returned"
    )
    assert scene.openings == 1


def test_probes_and_their_returns_are_shown_and_passed_on() -> None:
    scene = Scene()
    scene.open()
    del scene.told[:]

    scene.do(probe_claim(scene.state, NOW, RULES))
    assert scene.told == []
    scene.do(probe_sent(scene.state, "probe-1", NOW))
    scene.do(probe_returned(scene.state, NOW))

    assert scene.told == [
        "the breaker sends probes for TimeoutError, one a second",
        "a probe for TimeoutError came back: the breaker stays open",
    ]
    assert scene.returned == [NAME]


def test_closing_says_how_fast_the_held_messages_go_back() -> None:
    scene = Scene()
    scene.open()
    for second in range(RULES.good_probes):
        scene.do(probe_sent(scene.state, f"probe-{second}", NOW + second))
    scene.do(closing(scene.state, NOW + 60, RULES))

    assert scene.state.phase is Phase.RAMP
    assert scene.told[-1] == (
        "circuit breaker closed for TimeoutError: its probes stayed away; what was held goes "
        "back, 60 a second at first"
    )


def test_refused_and_failed_changes_show_nothing() -> None:
    scene = Scene()
    open_again = scene.open()
    del scene.told[:]
    scene.openings = 0

    assert not open_again()
    scene.inner.faults = denied
    with pytest.raises(BreakerTableError):
        scene.do(probe_returned(scene.state, NOW))

    assert scene.told == []
    assert scene.openings == 0
    assert scene.returned == []


@pytest.mark.parametrize("return_seconds", [1, 5, 20])
def test_breaker_closes_before_its_messages_may_be_held_no_longer(return_seconds: int) -> None:
    demo_rules = rules(invent(DEFAULT_MESSAGES, random.Random(1)))
    scene = Scene()
    returns = return_time_counter(return_seconds, demo_rules)
    scene.open()
    scene.do(Update(add={returns: demo_rules.open_count}))

    # Payments is back when the first probe has returned; each probe before that returns.
    for now in range(NOW, NOW + demo_rules.hold_limit_seconds):
        if return_seconds <= now - NOW < 2 * return_seconds:
            scene.do(probe_returned(scene.state, now - return_seconds))
        if update := closing(scene.state, now, demo_rules):
            scene.do(update)
            break
        scene.do(probe_claim(scene.state, now, demo_rules))
        scene.do(probe_sent(scene.state, f"probe-{now}", now))

    assert scene.state.phase is Phase.RAMP
    assert scene.returned


@pytest.mark.parametrize("share", [BROKEN_SHARE, FIFO_BROKEN_SHARE])
@pytest.mark.parametrize("seed", range(5))
def test_no_bug_of_the_generated_messages_opens_a_breaker(seed: int, share: float) -> None:
    for count in (1, 10, 24, DEFAULT_MESSAGES, 500):
        messages = invent(count, random.Random(seed), share)
        shop = Shop(Payments(lambda _: None))
        types = Counter[str]()
        for message in messages:
            try:
                shop.process(message, MAX_ATTEMPTS)
            except Exception as error:  # noqa: BLE001 - whatever stands in the way
                types[type(error).__name__] += 1

        assert max(types.values()) < rules(messages).open_count


@pytest.mark.parametrize("seed", range(5))
def test_the_outage_of_a_run_can_open_a_breaker(seed: int) -> None:
    messages = invent(DEFAULT_MESSAGES, random.Random(seed))
    shop = Shop(Payments(lambda _: None))
    down = 0
    for message in messages:
        try:
            shop.process(message)
        except TimeoutError:
            down += 1
        except Exception:  # noqa: BLE001, S112 - a bug
            continue

    # So early that most messages need not fail as first replays.
    assert down > 1.3 * rules(messages).open_count
