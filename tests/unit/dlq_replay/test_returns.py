"""Counts of a redrive that the function keeps, and its behaviour where it cannot count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dlq_replay.errors import TableError
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.replaying.sending import Refused, SendResult, forever
from dlq_replay.rules.batch_plan import Failed, RecordDecision
from dlq_replay.rules.decision import Park, ParkReason, Replay
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.message import Message, UnreadableRecord
from tests.support.builders import (
    NOW,
    context,
    context_of,
    counter,
    message,
    policy,
    queue_arn,
    replayer,
    three_queues,
)
from tests.support.returns_counters import FakeCounters

KEY = "p", "g"
KNOWN: dict[str, Any] = {"max_receive_count": 3, "dlq_visibility_seconds": 180}
UNCOUNTED = Failed("not_counted", "its return could not be counted")
STEP = Park(ParkReason.REDRIVE_STEP)


@dataclass
class Worker:
    """One execution environment."""

    counters: FakeCounters | None = field(default_factory=lambda: FakeCounters.of([KEY]))
    policy: ReplayPolicy = field(default_factory=lambda: policy(**KNOWN))
    seconds: float = NOW
    refuses: Mapping[str, SendResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.main, _, self.parked = queues = three_queues(self.refuses)
        add = self.counters.add if self.counters else None
        counter = ReturnsCounter(add, lambda: self.seconds)
        self.replayer = replayer(
            self.policy, *queues, now_seconds=lambda: int(self.seconds), returns=counter
        )

    def replay(self, *letters: Message | UnreadableRecord) -> BatchOutcome:
        return self.replayer.replay(letters, forever)

    def counted(self) -> tuple[set[str], set[str]]:
        assert self.counters is not None
        returns = self.counters.items[KEY]
        return {*returns.returned_ids}, {*returns.parked_ids}


def returned(
    name: str = "a", *, looks: int = 1, group: str = "", queue: str = "main", **fields: Any
) -> Message:
    """A redriven copy that SQS moved here, at its first look unless told otherwise."""
    redriven = {"first_id": f"first-{name}", "plan_id": "p", "group_id": "g", **fields}
    system = {
        "DeadLetterQueueSourceArn": queue_arn(queue),
        "ApproximateReceiveCount": str(3 + looks),
        **({"MessageGroupId": group} if group else {}),
    }
    return message(name, name, context(**redriven), **system)


def decisions(outcome: BatchOutcome) -> list[RecordDecision]:
    return [planned.decision for planned in outcome.outcomes]


def test_what_comes_back_is_counted_once_and_goes_on_marked() -> None:
    worker = Worker()
    worker.replay(returned("a"), returned("b"), returned("a"))

    assert worker.counted() == ({"first-a", "first-b"}, set())
    assert [context_of(copy).is_back for copy in worker.main.sent] == [True, True]
    assert worker.counters is not None
    worker.replay(returned("c", first_id="first-a", is_back=True))
    assert len(worker.counters.calls) == 1


@pytest.mark.parametrize(
    "letter",
    [
        message("a", "a", returned().attributes),
        Message("a", "another body", returned().attributes, returned().system),
        returned(plan_id=None),
        returned(group_id=None),
        returned(source_queue="other"),
        UnreadableRecord("a", "body: missing"),
    ],
    ids=["not moved", "of another body", "no plan", "no group", "of another queue", "unreadable"],
)
def test_what_does_not_show_that_it_came_back_is_not_counted(
    letter: Message | UnreadableRecord,
) -> None:
    worker = Worker()
    worker.replay(letter)

    assert worker.counters is not None
    assert worker.counters.calls == []


def test_where_nobody_asks_copies_are_marked_and_a_message_of_a_step_is_parked() -> None:
    worker = Worker()
    outcome = worker.replay(
        returned("a", group_id="other"), returned("b", group_id="other", in_step=True)
    )

    assert [type(decision) for decision in decisions(outcome)] == [Replay, Park]
    assert outcome.uncounted_returns == 0
    assert context_of(*worker.main.sent).is_back


def test_what_sqs_confirmed_counts_as_parked_again_of_a_step_twice() -> None:
    worker = Worker(refuses={"b": Refused("AccessDenied")})
    exhausted = []
    for name in "ab":
        attributes = {**returned(name, is_back=True).attributes, **counter("3")}
        exhausted.append(message(name, name, attributes))
    outcome = worker.replay(*exhausted, message("c"), returned("d", in_step=True))

    assert decisions(outcome)[3] == STEP
    assert worker.counted() == ({"first-a", "first-d"}, {"first-a", "first-d"})
    carried = context_of(worker.parked.sent[-1])
    assert (carried.plan_id, carried.group_id, carried.in_step) == ("p", "g", False)


OWN: Any = {"invoices": {"max_receive_count": 1, "dlq_visibility_seconds": 180}}


def denied() -> None:
    raise TableError("denied")


@pytest.mark.parametrize(
    ("letter", "rules", "decision"),
    [
        *(({"looks": looks}, policy(**KNOWN), UNCOUNTED) for looks in (1, 5, -2)),
        ({"looks": 6}, policy(**KNOWN), STEP),
        # Where nobody knows how long it has been there, it does not wait.
        ({}, policy(max_receive_count=3), STEP),
        ({}, policy(dlq_visibility_seconds=180), STEP),
        # The receive count of its own queue tells.
        ({"queue": "invoices", "looks": 4}, policy(others=OWN, **KNOWN), STEP),
        ({"queue": "invoices", "looks": 3}, policy(others=OWN, **KNOWN), UNCOUNTED),
    ],
)
@pytest.mark.parametrize("counters", [None, FakeCounters.of([KEY], denied)])
def test_a_message_of_a_step_that_cannot_be_counted_stays_for_a_quarter_of_an_hour(
    letter: dict[str, Any],
    rules: ReplayPolicy,
    decision: RecordDecision,
    counters: FakeCounters | None,
) -> None:
    outcome = Worker(counters, rules).replay(returned(in_step=True, **letter))

    assert decisions(outcome) == [decision]
    assert outcome.uncounted_returns == (decision == STEP)
    left = outcome.to_partial_batch_response()["batchItemFailures"]
    assert left == ([] if decision == STEP else [{"itemIdentifier": "a"}])


def test_a_table_that_fails_is_left_alone_for_5_seconds_and_reported_once_a_minute() -> None:
    error: Exception = TableError("AccessDeniedException: not authorized")

    def fail() -> None:
        raise error

    counters = FakeCounters.of([KEY], fail)
    worker = Worker(counters)
    faults = []
    for seconds in (0, 4, 2, 5, 60):
        worker.seconds += seconds
        outcome = worker.replay(returned(), returned("b", group_id="other"))
        assert [type(decision) for decision in decisions(outcome)] == [Replay, Replay]
        assert outcome.uncounted_returns == 2
        faults.append(outcome.returns_fault)
        # No other error may be quoted: it may quote a message.
        error = KeyError("card 4111")

    assert len(counters.calls) == 4
    assert faults == ["AccessDeniedException: not authorized", None, None, None, "KeyError"]
    assert not any(context_of(copy).is_back for copy in worker.main.sent)


def test_a_slow_table_delays_a_batch_by_a_second_and_a_call() -> None:
    def slow() -> None:
        worker.seconds += 0.2

    counters = FakeCounters({}, slow)
    worker = Worker(counters)
    outcome = worker.replay(*(returned(f"m-{n}", group_id=f"g-{n}") for n in range(20)))

    assert len(counters.calls) == 3
    assert outcome.uncounted_returns == 17
    assert len(worker.main.sent) == 20


FIFO = policy("main.fifo", rate_seconds=0.001, **KNOWN)


@pytest.mark.parametrize(
    ("rules", "looks", "in_step", "is_counted"),
    [
        (FIFO, 1, False, True),
        (FIFO, 2, False, False),
        (FIFO, 2, True, True),
        (policy("main.fifo", rate_seconds=0.001), 2, False, True),
    ],
)
def test_on_fifo_a_copy_that_waits_in_place_is_counted_at_its_first_look(
    rules: ReplayPolicy, looks: int, in_step: bool, is_counted: bool
) -> None:
    worker = Worker(policy=rules)
    letter = returned(group="x", queue="main.fifo", looks=looks, in_step=in_step)
    outcome = worker.replay(letter)

    assert (worker.counted()[0] == {"first-a"}) is is_counted
    assert outcome.uncounted_returns == 0
    [copy] = [*worker.main.sent, *worker.parked.sent]
    assert context_of(copy).is_back
