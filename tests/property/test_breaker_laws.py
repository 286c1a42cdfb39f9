"""Laws of the circuit breaker, whatever its workers see, and in whatever order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.rules.batch_plan import plan_batch
from dlq_replay.rules.breaker import BreakerRules, BreakerView, Update, apply
from dlq_replay.rules.decision import Hold, Replay
from dlq_replay.rules.policy import EXPIRY_MARGIN_SECONDS
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message
from tests.property.strategies import messages
from tests.support.builders import NOW, context_of, policy

RULES = BreakerRules()
MINUTE = NOW // 60
minutes = st.integers(MINUTE - 70, MINUTE)


@st.composite
def states(draw: st.DrawFn) -> BreakerView:
    """A breaker with or without a limit, with any counts."""
    counts = draw(
        st.dictionaries(
            st.tuples(st.sampled_from("nbxg"), minutes).map(lambda pair: f"{pair[0]}{pair[1]}"),
            st.integers(0, 100),
            max_size=20,
        )
    )
    limit = st.fixed_dictionaries(
        {"limit": st.sampled_from([1, 20, 90]), "since": st.integers(NOW - 9000, NOW)},
        optional={
            "full": st.integers(20, 500),
            "usual": st.integers(0, 9000),
            "silent_since": st.integers(NOW - 9000, NOW),
            "read": minutes,
            "judged": minutes,
        },
    )
    limits: dict[str, int] = draw(limit) if draw(st.booleans()) else {}
    return BreakerView({**counts, **limits}, NOW, RULES)


@st.composite
def views(draw: st.DrawFn) -> BreakerView:
    limit = draw(st.sampled_from([None, 1, 20]))
    numbers = {"since": draw(st.integers(NOW - 9000, NOW)), f"x{MINUTE}": 1}
    numbers |= {"limit": limit} if limit else {}
    numbers |= {"silent_since": NOW - 9000} if draw(st.booleans()) else {}
    return BreakerView(numbers, NOW, RULES, draw(st.integers(0, 2)))


@given(states(), st.integers(1, 1000))
def test_a_consumer_that_deletes_as_usual_is_never_limited(
    state: BreakerView, per_minute: int
) -> None:
    """Whatever producers make of the counters: promise 7."""
    deleted = dict.fromkeys(range(MINUTE - 130, MINUTE), per_minute)
    put = (state.judge(deleted) or Update()).put

    # One that was set before may stay until there are minutes to judge.
    assert not ("since" in put and put.get("limit") == 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 59), st.integers(1, 40)), max_size=40))
def test_workers_that_saw_any_earlier_state_never_grant_more_than_the_limit(
    turns: list[tuple[int, int, int]],
) -> None:
    numbers = {"limit": 20, "since": NOW - 60}
    seen = dict.fromkeys(range(6), numbers)
    granted = 0
    for worker, second, wanted in sorted(turns, key=lambda turn: turn[1]):
        view = BreakerView(seen[worker], MINUTE * 60 + second, RULES)
        count, claim = view.grant_claim(wanted)
        changed = apply(numbers, claim)
        if changed is not None:
            numbers = dict(changed)
            granted = granted + count
        seen[worker] = numbers

    assert granted <= 20


@given(messages(), views(), st.integers(0, 2**32), st.booleans())
def test_the_breaker_only_turns_replays_into_holds(
    message: Message, view: BreakerView, number: int, is_fifo: bool
) -> None:
    ours = policy("main.fifo" if is_fifo else "main", max_age_seconds=5000)

    def planned(breaker: BreakerView | None) -> Any:
        breakers = {ours.main_queue: breaker} if breaker else {}
        (planned,) = plan_batch([message], ours, NOW, lambda top: number % (top + 1), {}, breakers)
        return planned

    without = planned(None)
    held = planned(view)
    if isinstance(held.decision, Replay) and held.decision.is_granted:
        assert held.decision.number == without.decision.number
        assert held.decision.is_counted is (view.limit != 1)
        return
    if not (isinstance(held.decision, Hold) and held.decision.by_breaker):
        assert held.decision == without.decision
        return
    assert view.limit is not None
    assert isinstance(without.decision, Replay)
    assert held.decision.number == without.decision.number
    assert 1 <= held.decision.wait_seconds <= 900
    if held.entry is not None:
        counter = message.attributes.get(REPLAY_COUNT_ATTRIBUTE)
        counter_of_copy = held.entry.attributes.get(REPLAY_COUNT_ATTRIBUTE)
        assert counter_of_copy == (None if message.history.is_inherited else counter)


@given(messages(), views(), st.integers(0, 2**32), st.booleans())
def test_nothing_is_held_past_twelve_hours_or_its_retention(
    message: Message, view: BreakerView, number: int, is_fifo: bool
) -> None:
    ours = policy("main.fifo" if is_fifo else "main", dlq_retention_seconds=30_000)
    breakers = {ours.main_queue: view}
    (planned,) = plan_batch([message], ours, NOW, lambda top: number % (top + 1), {}, breakers)
    if not (isinstance(planned.decision, Hold) and planned.decision.by_breaker):
        return
    assert isinstance(message.sent_seconds, float) or not is_fifo
    ends = NOW + planned.decision.wait_seconds
    since = message.history.context.held_seconds
    if is_fifo:
        entered = int(message.sent_seconds or 0)
        assert ends <= entered + 30_000 - EXPIRY_MARGIN_SECONDS
        since = entered if since is None else since
    else:
        assert planned.entry is not None
        since = NOW if since is None else since
        assert context_of(planned.entry).held_seconds == since
    assert ends <= min(since, NOW) + 12 * 3600
