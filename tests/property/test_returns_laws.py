"""The laws of what fails again after a redrive, whatever the table of counters and SQS do."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.backoff import Backoff
from dlq_replay.errors import TableError
from dlq_replay.rules.batch_plan import PlannedRecord, RecordDecision
from dlq_replay.rules.decision import Park, Replay
from dlq_replay.rules.outgoing import redriven_entry
from dlq_replay.wire.message import Message
from local_sqs.faults import Effect, Fault
from tests.simulation.event_source import EventSource, collect, run
from tests.simulation.stack import Stack
from tests.support.builders import MAIN, MAIN_FIFO, message
from tests.support.returns_counters import FakeCounters

PLAN = "plan"
MAX_ATTEMPTS = 2
VISIBILITY_SECONDS = 180
WAIT_SECONDS = 900


@dataclass(frozen=True)
class Sent:
    """One message of a redrive.

    Attributes:
        group: of the plan, whose counters exist unless it is "nobody".
        lane: the message group on FIFO.
        deaths: how often it comes to the DLQ before the consumer handles it.
    """

    group: str
    lane: str
    deaths: int
    in_step: bool


@dataclass(frozen=True)
class Scenario:
    """A redrive, and what goes wrong with it.

    Attributes:
        table_faults: for each moment of a call of the table, before and after the change, whether
            it fails then; at the end all do, or none does.
        stays_down: whether the table fails after that.
        sqs_faults: of the function's own sends.
    """

    is_fifo: bool
    sent: Sequence[Sent]
    table_faults: Sequence[bool] = ()
    stays_down: bool = False
    sqs_faults: Sequence[Fault] = ()


sends = st.builds(
    Sent,
    group=st.sampled_from(["g-1", "g-2", "nobody"]),
    lane=st.sampled_from("ab"),
    deaths=st.integers(0, MAX_ATTEMPTS + 1),
    in_step=st.booleans(),
)
scenarios = st.builds(
    Scenario,
    is_fifo=st.booleans(),
    sent=st.lists(sends, min_size=1, max_size=12),
    table_faults=st.lists(st.booleans(), max_size=12),
    stays_down=st.booleans(),
    sqs_faults=st.lists(
        st.builds(
            Fault,
            effect=st.sampled_from([Effect.THROTTLE, Effect.LOSE, Effect.FAIL_ENTRIES]),
            operation=st.just("SendMessageBatch"),
            nth=st.integers(1, 6),
            entries=st.lists(st.integers(0, 9), max_size=2, unique=True).map(tuple),
        ),
        max_size=2,
    ),
)


@dataclass
class Ending:
    """Where everything is once nothing moves any more.

    Attributes:
        died: ids of the copies that SQS moved to the DLQ, by body; and of all in their order.
        outcomes: of the messages that the function had, with the time in ms.
    """

    scenario: Scenario
    stack: Stack
    counters: FakeCounters
    handled: list[Message] = field(default_factory=list)
    parked: list[Message] = field(default_factory=list)
    died: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    died_in_order: list[str] = field(default_factory=list)
    outcomes: list[tuple[int, PlannedRecord]] = field(default_factory=list)

    def sent_of(self, body: str) -> Sent:
        return self.scenario.sent[int(body)]

    def lost_sends(self) -> int:
        records = self.stack.front.log.records("SendMessageBatch")
        return sum(r.entry_count for r in records if "lose" in r.effects)


def play(scenario: Scenario, *, counts: bool = True) -> Ending:
    """Redrive, and run a virtual clock until every wait is over."""
    stack = Stack(
        is_fifo=scenario.is_fifo,
        backoff=Backoff(300, 2400),
        max_attempts=MAX_ATTEMPTS,
        max_receive_count=1,
    )
    fails = iter(scenario.table_faults)

    def table_faults() -> None:
        if next(fails, scenario.stays_down):
            raise TableError("denied")

    counters = FakeCounters.of([(PLAN, "g-1"), (PLAN, "g-2")], table_faults)
    settings = {"max_receive_count": 1, "dlq_visibility_seconds": VISIBILITY_SECONDS}
    stack.count_returns(counters.add if counts else None, **settings)
    for place, sent in enumerate(scenario.sent):
        lane: dict[str, Any] = {"MessageGroupId": sent.lane} if scenario.is_fifo else {}
        archived = message(f"first-{place}", f"{place:02d}", **lane)
        own: dict[str, Any] = {"group_id": sent.group, "in_step": sent.in_step}
        stack.main.send(
            [redriven_entry(archived, PLAN, MAIN_FIFO if scenario.is_fifo else MAIN, **own)]
        )
    stack.front.log.clear()
    stack.front.faults.add(*scenario.sqs_faults)
    ending = Ending(scenario, stack, counters)

    def consume(batch: Sequence[Message]) -> set[str]:
        left = set[str]()
        for received in batch:
            deaths = ending.died[received.body]
            if len(deaths) < ending.sent_of(received.body).deaths:
                left.add(received.message_id)
                deaths.append(received.message_id)
                ending.died_in_order.append(received.message_id)
            else:
                ending.handled.append(received)
        return left

    def replay(batch: Sequence[Message]) -> set[str]:
        left = stack.replay(batch)
        now_ms = stack.clock.now_ms()
        ending.outcomes += [(now_ms, outcome) for outcome in stack.outcomes[-1].outcomes]
        return left

    sources = [EventSource(stack.main, consume, 1), EventSource(stack.dlq, replay)]
    run(stack.model, [*sources, EventSource(stack.parked, collect(ending.parked))])
    return ending


# The laws. Each takes an ending and asserts.


def each_return_counts_once_or_is_missed(ending: Ending) -> None:
    failed_again = defaultdict(set)
    for body, copies in ending.died.items():
        if copies:
            failed_again[ending.sent_of(body).group].add(f"first-{int(body)}")
    missed = sum(outcome.uncounted_returns for outcome in ending.stack.outcomes)
    counters = ending.counters
    uncounted = set()
    for (_, group), returns in counters.items.items():
        assert returns.returned_ids <= failed_again[group]
        assert returns.parked_ids <= failed_again[group]
        uncounted |= failed_again[group] - returns.returned_ids
    assert len(uncounted) <= missed
    if not ending.scenario.sqs_faults:
        in_steps = {f"first-{n}" for n, letter in enumerate(ending.scenario.sent) if letter.in_step}
        plain = [first_id for first_id in counters.confirmed if first_id not in in_steps]
        assert len(plain) == len({*plain})


def no_message_of_a_step_is_replayed(ending: Ending) -> None:
    for _, outcome in ending.outcomes:
        in_step = (
            isinstance(outcome.record, Message) and ending.sent_of(outcome.record.body).in_step
        )
        assert not (in_step and isinstance(outcome.decision, Replay))


def nothing_is_lost_or_sent_twice(ending: Ending) -> None:
    arrived = [message.body for message in (*ending.handled, *ending.parked)]
    assert {*arrived} == {f"{n:02d}" for n in range(len(ending.scenario.sent))}
    assert len(arrived) - len({*arrived}) <= ending.lost_sends()
    assert not ending.stack.dlq.queue.messages()


def lanes_keep_their_order(ending: Ending) -> None:
    """The messages of a message group leave the DLQ in the order in which they came there."""
    if ending.scenario.is_fifo:
        for lane in "ab":
            left = [s.message_id for _, s in ending.outcomes if s.group == lane and not s.is_left]
            assert left == sorted(left, key=ending.died_in_order.index)


def uncounted_canaries_wait_for_a_quarter_of_an_hour(ending: Ending) -> None:
    if ending.scenario.is_fifo or ending.scenario.sqs_faults:
        return
    came_ms: dict[str, int] = {}
    for now_ms, outcome in ending.outcomes:
        assert isinstance(outcome.record, Message)
        waited = (now_ms - came_ms.setdefault(outcome.message_id, now_ms)) / 1000
        if ending.sent_of(outcome.record.body).in_step and isinstance(outcome.decision, Park):
            is_counted = outcome.record.history.context.is_back
            assert is_counted or WAIT_SECONDS <= waited
            assert waited <= WAIT_SECONDS + VISIBILITY_SECONDS


@given(scenarios)
def test_laws_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    each_return_counts_once_or_is_missed(ending)
    no_message_of_a_step_is_replayed(ending)
    nothing_is_lost_or_sent_twice(ending)
    lanes_keep_their_order(ending)
    uncounted_canaries_wait_for_a_quarter_of_an_hour(ending)


@given(scenarios)
def test_counting_changes_nothing_for_what_is_in_no_step(scenario: Scenario) -> None:
    plain = replace(scenario, sent=[replace(letter, in_step=False) for letter in scenario.sent])

    assert decisions_of(play(plain, counts=True)) == decisions_of(play(plain, counts=False))


def decisions_of(ending: Ending) -> list[tuple[int, str, RecordDecision]]:
    """The decisions about each message, with their times."""
    decisions = []
    for now_ms, outcome in ending.outcomes:
        decisions.append((now_ms, outcome.message_id, outcome.decision))
    return decisions
