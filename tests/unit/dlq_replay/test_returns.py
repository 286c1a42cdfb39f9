"""What the function counts of a redrive, and what it does where it cannot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dlq_replay.errors import TableError
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.replaying.sending import Refused, SendResult, forever
from dlq_replay.rules.decision import Park, ParkReason, Replay
from dlq_replay.rules.plan import Failed, Fate
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
VISIBILITY_SECONDS = 180
KNOWN: dict[str, Any] = {"max_receive_count": 3, "dlq_visibility_seconds": VISIBILITY_SECONDS}
UNCOUNTED = Failed("not_counted", "its return could not be counted")
STEP = Park(ParkReason.REDRIVE_STEP)


def denied() -> None:
    raise TableError("denied")


@dataclass
class Worker:
    """One execution environment."""

    counters: FakeCounters | None = field(default_factory=lambda: FakeCounters.of([KEY]))
    policy: ReplayPolicy = field(default_factory=lambda: policy(**KNOWN))
    seconds: float = NOW
    refuses: Mapping[str, SendResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        add = self.counters.add if self.counters else None
        self.main, _, self.parked = queues = three_queues(self.refuses)
        self.replayer = replayer(
            self.policy,
            *queues,
            now_seconds=lambda: int(self.seconds),
            returns=ReturnsCounter(add, lambda: self.seconds),
        )

    def replay(self, *letters: Message | UnreadableRecord) -> BatchOutcome:
        return self.replayer.replay(letters, forever)

    def counted(self) -> tuple[set[str], set[str]]:
        assert self.counters is not None
        returns = self.counters.items[KEY]
        return {*returns.returned_ids}, {*returns.parked_ids}


def returned(
    name: str = "a", *, looks: int = 1, group: str = "", count: int = 0, **fields: Any
) -> Message:
    """A redriven copy that SQS moved here, at its first look unless told otherwise."""
    redriven = {"first_id": f"first-{name}", "plan_id": "p", "group_id": "g", **fields}
    main = "main.fifo" if group else "main"
    system = {
        "DeadLetterQueueSourceArn": queue_arn(main),
        "ApproximateReceiveCount": str(3 + looks),
        **({"MessageGroupId": group} if group else {}),
    }
    own = {**context(**redriven), **(counter(str(count)) if count else {})}
    return message(name, name, own, **system)


def fates(outcome: BatchOutcome) -> list[Fate]:
    return [one.fate for one in outcome.outcomes]


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


def test_where_nobody_asks_copies_are_marked_and_a_canary_is_parked() -> None:
    worker = Worker()
    outcome = worker.replay(
        returned("a", group_id="other"), returned("b", group_id="other", is_canary=True)
    )

    assert [type(fate) for fate in fates(outcome)] == [Replay, Park]
    assert outcome.uncounted_returns == 0
    assert context_of(*worker.main.sent).is_back


def test_a_canary_is_parked_at_its_first_return_and_counts_twice() -> None:
    worker = Worker()
    outcome = worker.replay(returned(is_canary=True))

    assert fates(outcome) == [STEP]
    assert worker.counted() == ({"first-a"}, {"first-a"})
    known = context_of(*worker.parked.sent)
    assert (known.plan_id, known.group_id, known.is_canary) == ("p", "g", False)


def test_only_what_sqs_confirmed_counts_as_parked_again() -> None:
    worker = Worker(refuses={"b": Refused("AccessDenied")})
    exhausted: dict[str, Any] = {"count": 3, "is_back": True}
    worker.replay(returned("a", **exhausted), returned("b", **exhausted), message("c"))

    assert worker.counted() == (set(), {"first-a"})


@pytest.mark.parametrize(
    ("looks", "known", "fate"),
    [
        (1, KNOWN, UNCOUNTED),
        (5, KNOWN, UNCOUNTED),
        (6, KNOWN, STEP),
        (-2, KNOWN, UNCOUNTED),
        (1, {"max_receive_count": 3}, STEP),
        (1, {"dlq_visibility_seconds": VISIBILITY_SECONDS}, STEP),
    ],
)
@pytest.mark.parametrize("counters", [None, FakeCounters.of([KEY], denied)])
def test_a_canary_that_cannot_be_counted_stays_for_a_quarter_of_an_hour(
    looks: int, known: dict[str, Any], fate: Fate, counters: FakeCounters | None
) -> None:
    worker = Worker(counters, policy(**known))
    outcome = worker.replay(returned(is_canary=True, looks=looks))

    assert fates(outcome) == [fate]
    assert outcome.uncounted_returns == (fate == STEP)
    assert outcome.to_partial_batch_response()["batchItemFailures"] == (
        [] if fate == STEP else [{"itemIdentifier": "a"}]
    )


def test_the_receive_count_of_its_own_queue_says_how_long_a_canary_waits() -> None:
    own: Any = {"invoices": {"max_receive_count": 1, "dlq_visibility_seconds": VISIBILITY_SECONDS}}
    shared = policy(others=own, max_receive_count=100, dlq_visibility_seconds=VISIBILITY_SECONDS)
    of_invoices = message(
        "a",
        "a",
        returned(is_canary=True).attributes,
        DeadLetterQueueSourceArn=queue_arn("invoices"),
        ApproximateReceiveCount="7",
    )

    assert fates(Worker(None, shared).replay(of_invoices)) == [STEP]


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
        assert [type(fate) for fate in fates(outcome)] == [Replay, Replay]
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
    ("rules", "looks", "is_canary", "is_counted"),
    [
        (FIFO, 1, False, True),
        (FIFO, 2, False, False),
        (FIFO, 2, True, True),
        (policy("main.fifo", rate_seconds=0.001), 2, False, True),
    ],
)
def test_on_fifo_a_copy_that_waits_in_place_is_counted_at_its_first_look(
    rules: ReplayPolicy, looks: int, is_canary: bool, is_counted: bool
) -> None:
    worker = Worker(policy=rules)
    outcome = worker.replay(returned(group="x", looks=looks, is_canary=is_canary))

    assert (worker.counted()[0] == {"first-a"}) is is_counted
    assert outcome.uncounted_returns == 0
    (copy,) = (*worker.main.sent, *worker.parked.sent)
    assert context_of(copy).is_back
