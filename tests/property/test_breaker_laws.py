"""What holds for the circuit breaker whatever its workers see, and in whatever order."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from dlq_replay.breaker import (
    BreakerRules,
    BreakerState,
    BreakerView,
    Phase,
    Update,
    apply,
    closing,
    opening,
    probe_claim,
    probe_returned,
    probe_sent,
    ramp_step,
    release_claim,
    tripping_windows,
)
from dlq_replay.breaker_worker import BreakerWorker
from dlq_replay.decision import Hold, Park, Replay
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message
from dlq_replay.plan import Passage, plan_batch
from dlq_replay.policy import EXPIRY_MARGIN_SECONDS
from dlq_replay.replay import Replayer
from dlq_replay.sending import forever
from tests.breaker_tables import FakeBreakers, denied
from tests.builders import NOW, FakeQueue, context_of, policy
from tests.property.strategies import messages

RULES = BreakerRules()
MINUTE = NOW // 60
moments = st.integers(NOW - 50_000, NOW + 300)
minutes = st.integers(MINUTE - 70, MINUTE)


@st.composite
def states(draw: st.DrawFn) -> BreakerState:
    """A breaker in any phase, with any counts."""
    counts = draw(
        st.dictionaries(
            st.tuples(st.sampled_from("sbng"), minutes).map(lambda pair: f"{pair[0]}{pair[1]}"),
            st.integers(0, 100),
            max_size=20,
        )
    )
    names = ("opened_at", "closed_at", "probe_at", "returned_at", "turned_away_at")
    marks = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, moments)))
    ramp = draw(st.none() | st.integers(1, 5000))
    ramps = {} if ramp is None else {"ramp": ramp, "ramp_max": 2 * ramp, "ramp_at": draw(moments)}
    probes = draw(st.dictionaries(moments, st.text(min_size=1, max_size=3), max_size=5))
    return BreakerState({**counts, **marks, **ramps}, probes)


def view_of(message: Message, state: BreakerState, grants: int = 0) -> BreakerView:
    one = message.message_id
    return BreakerView(
        RULES, NOW, {one: "unknown"}, {one: "unknown"}, {"unknown": state}, {"unknown": grants}
    )


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 45)), max_size=60))
def test_workers_that_saw_any_earlier_state_never_send_two_probes_in_a_minute(
    turns: list[tuple[int, int]],
) -> None:
    """Each worker acts on a view that may be as old as its last turn."""
    state = BreakerState({"opened_at": NOW - 100})
    views = dict.fromkeys(range(8), state)
    now, claims = NOW, []
    for worker, passes in turns:
        now += passes
        claim = probe_claim(views[worker], now, RULES)
        changed = apply(state, claim) if claim else None
        if changed is not None:
            state = changed
            claims.append(now)
        views[worker] = state

    assert all(later - earlier >= 60 for earlier, later in pairwise(claims))


@given(states())
def test_a_change_of_phase_is_made_once(state: BreakerState) -> None:
    window = next(tripping_windows(state, NOW, RULES), None)
    for change in (
        opening(state, window, NOW) if window else None,
        closing(state, NOW, RULES),
        ramp_step(state, NOW, RULES),
    ):
        if change is not None:
            changed = apply(state, change)
            assert changed is not None
            assert apply(changed, change) is None


@given(states(), st.lists(st.integers(1, 400), max_size=30))
def test_a_ramp_never_releases_more_than_its_limit_in_a_minute(
    state: BreakerState, wishes: list[int]
) -> None:
    assume(state.phase is Phase.RAMP)
    limit, slot = state.numbers["ramp"], f"g{MINUTE}"
    before = state.numbers.get(slot, 0)
    for second, wanted in enumerate(wishes):
        _, claim = release_claim(state, wanted, MINUTE * 60 + second, RULES)
        state = apply(state, claim) or state

    assert state.numbers.get(slot, 0) <= max(limit, before)


@given(states(), moments)
def test_a_probe_that_returned_ends_every_row_before_it(state: BreakerState, sent_at: int) -> None:
    assume(state.phase is Phase.OPEN)
    sent = apply(state, probe_sent(state, "probe", sent_at))
    assert sent is not None
    returned = apply(sent, probe_returned(sent, sent_at))
    assert returned is not None

    assert all(at > sent_at for at in returned.probes)


@given(messages(), states(), st.integers(0, 2**32), st.booleans())
def test_the_breaker_only_turns_replays_into_holds(
    message: Message, state: BreakerState, number: int, is_fifo: bool
) -> None:
    ours = policy("main.fifo" if is_fifo else "main", max_age_seconds=5000)

    def fate(breakers: BreakerView | None) -> Any:
        views = {ours.main_queue: breakers} if breakers else {}
        (step,) = plan_batch([message], ours, NOW, lambda top: number % (top + 1), {}, views)
        return step

    without, held = fate(None), fate(view_of(message, state))
    if held.passage is not Passage.HELD:
        assert held.fate == without.fate
        return
    assert state.phase is not Phase.CLOSED
    assert isinstance(without.fate, Replay)
    assert isinstance(held.fate, Hold)
    assert held.fate.number == without.fate.number
    assert 1 <= held.fate.wait_seconds <= 900
    if held.entry is not None:
        counters = [
            one.get(REPLAY_COUNT_ATTRIBUTE) for one in (message.attributes, held.entry.attributes)
        ]
        assert counters[1] == (None if message.history.is_inherited else counters[0])


@given(messages(), states(), st.integers(0, 2**32), st.booleans())
def test_nothing_is_held_past_twelve_hours_or_its_retention(
    message: Message, state: BreakerState, number: int, is_fifo: bool
) -> None:
    ours = policy("main.fifo" if is_fifo else "main", dlq_retention_seconds=30_000)
    views = {ours.main_queue: view_of(message, state)}
    (step,) = plan_batch([message], ours, NOW, lambda top: number % (top + 1), {}, views)
    if step.passage is not Passage.HELD:
        return
    assert isinstance(step.fate, Hold)
    assert isinstance(message.sent_seconds, float) or not is_fifo
    ends = NOW + step.fate.wait_seconds
    since = message.history.context.held_seconds
    if is_fifo:
        entered = int(message.sent_seconds or 0)
        assert ends <= entered + 30_000 - EXPIRY_MARGIN_SECONDS
        since = entered if since is None else since
    else:
        assert step.entry is not None
        since = NOW if since is None else since
        assert context_of(step.entry).held_seconds == min(since, since)
    assert ends <= min(since, NOW) + RULES.hold_limit_seconds


@given(st.lists(messages(), max_size=8, unique_by=lambda one: one.message_id), st.booleans())
def test_a_table_that_fails_changes_no_message(batch: list[Message], is_fifo: bool) -> None:
    def sent_by(breakers: BreakerWorker | None) -> tuple[object, ...]:
        main, dlq, parked = (FakeQueue(f"https://q/{name}") for name in ("main", "dlq", "parked"))
        ours = policy("main.fifo" if is_fifo else "main")
        with ThreadPoolExecutor(1) as executor:
            replayer = Replayer(
                ours,
                main,
                dlq,
                parked,
                lambda: NOW,
                lambda top: top,
                executor,
                breakers={ours.main_queue: breakers} if breakers else {},
            )
            outcome = replayer.replay(batch, forever)
        return (outcome.outcomes, *((one.sent, one.visibility) for one in (main, dlq, parked)))

    silent = BreakerWorker(FakeBreakers(faults=denied), RULES, _no_metric)
    assert sent_by(None) == sent_by(silent)


def _no_metric(_: int, __: int) -> Mapping[int, int]:
    return {}


@given(states(), st.lists(messages(), max_size=8, unique_by=lambda one: one.message_id))
def test_on_fifo_nothing_of_a_group_goes_past_one_that_is_held(
    state: BreakerState, batch: list[Message]
) -> None:
    names = {one.message_id: "unknown" for one in batch}
    view = BreakerView(RULES, NOW, names, names, {"unknown": state}, {"unknown": 1})
    ours = policy("main.fifo")
    steps = plan_batch(batch, ours, NOW, lambda top: top, {}, {ours.main_queue: view})
    stopped = set()
    for step in steps:
        if step.group in stopped:
            assert not isinstance(step.fate, Replay | Hold | Park)
        if not isinstance(step.fate, Replay):
            stopped.add(step.group)


@given(states(), st.dictionaries(st.sampled_from(["opened_at", "closed_at"]), st.none() | moments))
def test_an_update_is_made_as_a_whole_or_not_at_all(
    state: BreakerState, expect: dict[str, int | None]
) -> None:
    update = Update(add={"s1": 2}, put={"probe_at": 5, "p9": "m"}, expect=expect)
    changed = apply(state, update)

    if changed is None:
        assert any(state.numbers.get(name) != value for name, value in expect.items())
    else:
        assert changed.numbers["s1"] == state.numbers.get("s1", 0) + 2
        assert (changed.numbers["probe_at"], changed.probes[9]) == (5, "m")
