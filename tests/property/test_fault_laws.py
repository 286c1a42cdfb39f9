"""The laws under faults: dead letters, the real adapter and a server that fails.

``tests/mutants.toml`` has what breaks each.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import botocore.endpoint
import pytest
from botocore.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.aws.deadline import require_time_left
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.backoff import Backoff
from dlq_replay.wire.attributes import Attributes, MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry
from local_sqs.client import client_for
from local_sqs.faults import Effect, Fault
from tests.property.strategies import binary_attributes, fault, names, sqs_text
from tests.simulation.event_source import EventSource, collect, run
from tests.simulation.stack import Stack
from tests.support.builders import context, counter
from tests.support.processes import Died

READ_TIMEOUT_SECONDS = 10
"""The function's own."""

OURS = {REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}
MAX_ATTEMPTS = 2
PARENTS = {**context(first_id="parent"), **counter(str(MAX_ATTEMPTS))}


@dataclass(frozen=True)
class Letter:
    """One dead letter. The body begins with its place, so that all are distinct.

    Attributes:
        is_child: whether a consumer passed the attributes of a replayed message on to it.
    """

    text: str
    attributes: Attributes
    group: str
    replay_count: int
    is_child: bool = False


@dataclass(frozen=True)
class Scenario:
    """Letters in the DLQ, and what goes wrong with the calls of the replay function.

    Attributes:
        budget_seconds: of one invocation, on the virtual clock; None for no deadline.
        tries: of botocore's client, for each call; its pauses are on the virtual clock, too.
        skew_seconds: how far the function's clock is ahead of that of SQS.
    """

    is_fifo: bool
    letters: Sequence[Letter]
    faults: Sequence[Fault]
    budget_seconds: int | None = None
    tries: int = 1
    skew_seconds: int = 0


letters = st.builds(
    Letter,
    text=sqs_text,
    attributes=st.dictionaries(
        names,
        binary_attributes | st.builds(MessageAttribute, st.just("String"), sqs_text),
        max_size=2,
    ),
    group=st.sampled_from("abc"),
    replay_count=st.integers(0, MAX_ATTEMPTS),
    is_child=st.booleans(),
)
SEND = "SendMessageBatch"
HIDE = "ChangeMessageVisibilityBatch"


faults = st.builds(
    fault,
    effect=st.sampled_from(
        [
            Effect.THROTTLE,
            Effect.ERROR,
            Effect.UNAVAILABLE,
            Effect.CLOSE,
            Effect.LOSE,
            Effect.HANG,
            Effect.DELAY,
            Effect.FAIL_ENTRIES,
            Effect.CALL,
        ]
    ),
    operation=st.sampled_from([*[SEND] * 3, HIDE]),
    nth=st.integers(1, 8),
    seconds=st.just(7),
    after=st.booleans(),
    entries=st.lists(st.integers(0, 9), max_size=3, unique=True).map(tuple),
)
scenarios = st.builds(
    Scenario,
    is_fifo=st.booleans(),
    letters=st.lists(letters, min_size=1, max_size=14),
    faults=st.lists(faults, max_size=4),
    budget_seconds=st.sampled_from([None, 5, 30]),
    tries=st.sampled_from([1, 3]),
    skew_seconds=st.sampled_from([0, 400, -400]),
)

equal_letters = st.builds(Letter, st.just("x"), st.just({}), st.just("a"), st.just(0))

partial_failures = st.builds(
    Scenario,
    is_fifo=st.booleans(),
    letters=st.lists(equal_letters, min_size=5, max_size=9),
    faults=st.integers(1, 3).map(
        lambda nth: [Fault(Effect.FAIL_ENTRIES, SEND, nth=nth, entries=(0,))]
    ),
)
"""Scenarios of one kind, where a search among all would take long to come by it."""

repeated_calls = st.builds(
    Scenario,
    is_fifo=st.booleans(),
    letters=st.lists(equal_letters, min_size=1, max_size=14),
    faults=st.lists(faults, min_size=1, max_size=4),
    budget_seconds=st.just(5),
    tries=st.just(3),
)
"""As above, of calls that botocore repeats and invocations that end soon."""


@dataclass
class Ending:
    """Where everything is once nothing moves any more.

    Attributes:
        unanswered: entries of the calls of invocations that died.
    """

    scenario: Scenario
    stack: Stack
    handled: list[Message] = field(default_factory=list)
    parked: list[Message] = field(default_factory=list)
    unanswered: int = 0

    def replay(self, batch: Sequence[Message]) -> set[str]:
        """Let the function handle a batch. Lambda deletes nothing if it dies."""
        log = self.stack.front.log
        before = log.count(SEND)
        try:
            return self.stack.replay(batch)
        except Died:
            self.unanswered += sum(record.entry_count for record in log.records(SEND)[before:])
            return {message.message_id for message in batch}

    def lost_sends(self) -> int:
        """Entries of the calls that were carried out though their answer was lost."""
        records = self.stack.front.log.records(SEND)
        lost = sum(r.entry_count for r in records if {"lose", "hang"} & set(r.effects))
        return lost + self.unanswered


def play(scenario: Scenario) -> Ending:
    """Run a scenario on a virtual clock until every wait and every visibility timeout is over."""
    stack = Stack(is_fifo=scenario.is_fifo, max_attempts=MAX_ATTEMPTS)
    stack.budget_seconds = scenario.budget_seconds
    for place, letter in enumerate(scenario.letters):
        stack.dlq.send([_entry(place, letter, is_fifo=scenario.is_fifo)])

    retries: Any = {"mode": "standard", "total_max_attempts": scenario.tries}
    config = Config(read_timeout=READ_TIMEOUT_SECONDS, retries=retries)
    client = client_for(stack.front, config)
    # Before the handler that answers in place of a network.
    client.meta.events.register_first("before-send.sqs", require_time_left)

    wired = stack.replayer
    draws = random.Random(1)
    stack.replayer = replace(
        wired,
        policy=replace(wired.policy, backoff=Backoff(rate_seconds=300, cap_seconds=2400)),
        main_queues={wired.policy.main_queue: SqsQueue(client, stack.main.url)},
        dlq=SqsQueue(client, stack.dlq.url),
        parked_queue=SqsQueue(client, stack.parked.url),
        now_seconds=lambda: stack.now_seconds() + scenario.skew_seconds,
        draw_up_to=lambda top: draws.randint(0, top),
    )

    stack.front.log.clear()
    stack.front.faults.add(*scenario.faults)

    ending = Ending(scenario, stack)
    sources = [
        EventSource(stack.dlq, ending.replay),
        EventSource(stack.main, collect(ending.handled)),
        EventSource(stack.parked, collect(ending.parked)),
    ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.endpoint, "time", stack.clock)
        run(stack.model, sources)
    return ending


def _entry(place: int, letter: Letter, *, is_fifo: bool) -> SendEntry:
    counted = counter(str(letter.replay_count)) if letter.replay_count else {}
    return SendEntry(
        body=f"{place:02d} {letter.text}",
        attributes={**letter.attributes, **counted, **(PARENTS if letter.is_child else {})},
        message_group_id=letter.group if is_fifo else None,
        deduplication_id=str(place) if is_fifo else None,
    )


# The laws. Each takes an ending and asserts.


def nothing_is_lost(ending: Ending) -> None:
    bodies = {m.body for m in [*ending.handled, *ending.parked]}
    assert bodies == {f"{n:02d} {letter.text}" for n, letter in enumerate(ending.scenario.letters)}
    assert not ending.stack.dlq.queue.messages()


def what_arrives_is_what_was_sent(ending: Ending) -> None:
    for message in [*ending.handled, *ending.parked]:
        letter = ending.scenario.letters[int(message.body[:2])]
        own = {name: a for name, a in message.attributes.items() if name not in OURS}
        assert message.body[3:] == letter.text
        assert own == dict(letter.attributes)


def groups_keep_their_order(ending: Ending) -> None:
    if ending.scenario.is_fifo:
        for arrived in (ending.handled, ending.parked):
            for group in "abc":
                bodies = [m.body for m in arrived if m.message_group_id == group]
                if ending.unanswered:
                    # Once SQS has forgotten them, copies that a dead function sent come again.
                    bodies = [*dict.fromkeys(bodies)]
                assert bodies == sorted(bodies)


def children_are_messages_of_their_own(ending: Ending) -> None:
    first_ids = {m.body: m.first_id for m in [*ending.handled, *ending.parked]}
    assert len({*first_ids.values()}) == len(first_ids)
    children = {n for n, letter in enumerate(ending.scenario.letters) if letter.is_child}
    assert not children & {int(m.body[:2]) for m in ending.parked}


def only_lost_answers_duplicate(ending: Ending) -> None:
    copies = len(ending.handled) + len(ending.parked)
    extra = copies - len(ending.scenario.letters)
    assert extra <= ending.lost_sends()
    if ending.scenario.is_fifo and len(ending.scenario.faults) == 1:
        # The next try falls inside the deduplication window, and SQS removes the second copy. Only
        # a second fault in a row can delay it past the window.
        assert extra == 0


def no_try_begins_after_its_invocation(ending: Ending) -> None:
    invocations = ending.stack.invocations_ms
    log = ending.stack.front.log
    for record in (*log.records(SEND), *log.records(HIDE)) if invocations else ():
        _, ends_ms = max(invocation for invocation in invocations if invocation[0] <= record.at_ms)
        assert record.at_ms < ends_ms


LAWS = (
    no_try_begins_after_its_invocation,
    nothing_is_lost,
    what_arrives_is_what_was_sent,
    groups_keep_their_order,
    children_are_messages_of_their_own,
    only_lost_answers_duplicate,
)


# A scenario covers all laws at once, on more messages than an example of a single value.
@settings(max_examples=settings().max_examples * 8)
@given(scenarios | partial_failures | repeated_calls)
def test_laws_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    for law in LAWS:
        law(ending)
