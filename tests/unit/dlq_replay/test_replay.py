import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.sending import Refused, SendResult, Unconfirmed
from dlq_replay.rules.batch_plan import Failed, RecordDecision, Wait
from dlq_replay.rules.decision import Hold, Park, ParkReason, Replay
from dlq_replay.rules.failures import Failure
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, FailureError
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, UnreadableRecord
from tests.support.builders import (
    NOW,
    FakeQueue,
    StuckQueue,
    context,
    context_of,
    counter,
    message,
    policy,
    queue_arn,
    queue_url,
    replayer,
    text,
    three_queues,
)
from tests.support.golden import assert_stored, stored_rows


def play(
    batch: "Batch", dlq: FakeQueue | None = None, **more: Any
) -> tuple[BatchOutcome, list[FakeQueue]]:
    """Replay *batch* between three queues; return what became of it, and the queues."""
    queues = three_queues(batch.refuses)
    queues[1] = dlq or queues[1]
    for queue in queues:
        queue.stuck = batch.stuck
    left = batch.seconds_left
    return replayer(batch.rules, *queues, **more).replay(batch.records, lambda: left), queues


def decisions(outcome: BatchOutcome) -> dict[str, RecordDecision]:
    return {planned.message_id: planned.decision for planned in outcome.outcomes}


def failures(outcome: BatchOutcome) -> set[str]:
    response = outcome.to_partial_batch_response()
    return {failure["itemIdentifier"] for failure in response["batchItemFailures"]}


def grouped(name: str, count: str | None = None) -> Message:
    attributes = counter(count) if count else None
    return message(name, body=name.upper(), attributes=attributes, MessageGroupId=name[0])


def aged(name: str, seconds: int = 0) -> Message:
    """A letter of a FIFO queue; after 25 hours its wait is over, whatever its draw was."""
    sent = f"{NOW - seconds}000"
    return message(name, body=name.upper(), MessageGroupId=name[0], SentTimestamp=sent)


def three(count: str = "0") -> list[Message]:
    return [message(i, body=i.upper(), attributes=counter(count)) for i in "abc"]


STANDARD = policy()
FIFO = policy(main="main.fifo")
HOURS = policy(rate_seconds=7200, cap_seconds=86_400)
FIFO_HOURS = policy(main="main.fifo", rate_seconds=7200, cap_seconds=86_400)
LOST = Unconfirmed("ReadTimeoutError")
OVER = 90_000
INHERITED = message(
    "a", attributes={**counter("2"), **context("another body", first_id="parent", plan_id="p")}
)


@dataclass(frozen=True)
class Batch:
    """Records, the rules, what SQS answers for bodies, and ids whose visibility cannot change."""

    rules: ReplayPolicy
    records: Sequence[Message | UnreadableRecord]
    refuses: Mapping[str, SendResult] = field(default_factory=dict)
    stuck: frozenset[str] = frozenset()
    seconds_left: float = math.inf


BATCHES = {
    "a fresh letter and an exhausted one": Batch(
        STANDARD, [message("a", "A"), message("b", "B", counter("3"))]
    ),
    "a refused send": Batch(STANDARD, three(), {"B": Refused("InvalidMessageContents")}),
    "a lost answer": Batch(STANDARD, three(), {"B": LOST}),
    "a refused park": Batch(STANDARD, three("3"), {"B": Refused("AccessDenied", "no")}),
    "an unreadable record": Batch(
        STANDARD, [UnreadableRecord("a", "body: missing"), message("b", "B")]
    ),
    "a letter that stands there twice": Batch(STANDARD, [message("a", "A"), message("a", "A")]),
    "a malformed context": Batch(STANDARD, [message("a", "A", {"sqs-dlq-context": text("{")})]),
    "a long wait": Batch(HOURS, [message("a", "A", counter("1"))]),
    "a long wait that is refused": Batch(
        HOURS, [message("b", "B")], {"B": Refused("AccessDenied")}
    ),
    # A copy that waits or is parked takes no counter of another message along.
    "a long wait of a child": Batch(policy(rate_seconds=4000, cap_seconds=9000), [INHERITED]),
    "a park of a child": Batch(policy(max_attempts=0), [INHERITED]),
    "FIFO: a lost answer, and an unreadable record": Batch(
        FIFO,
        [UnreadableRecord("c1", "bad", "c"), *map(grouped, ("a1", "a2", "a3", "b1", "c2"))],
        {"A2": LOST},
    ),
    "FIFO: a park": Batch(FIFO, [grouped("a1", "3"), grouped("a2"), grouped("b1")]),
    "FIFO: no group": Batch(FIFO, [message("a"), grouped("b1")]),
    "FIFO: a long wait": Batch(FIFO_HOURS, [aged(n) for n in ("a1", "a2", "a3")]),
    "FIFO: a hold that is not confirmed": Batch(
        FIFO_HOURS, [aged("a1"), aged("a2")], stuck=frozenset({"a1"})
    ),
    "FIFO: a long wait behind a send": Batch(FIFO_HOURS, [aged("a1", OVER), aged("a2")]),
    "FIFO: a long wait behind a lost answer": Batch(
        FIFO_HOURS, [aged("a1", OVER), aged("a2")], {"A1": LOST}
    ),
    "FIFO: a long wait when time is up": Batch(FIFO_HOURS, [aged("a1")], seconds_left=0.0),
}


@stored_rows("batches", BATCHES)
def test_batch_ends_as_it_is_stored(name: str) -> None:
    outcome, queues = play(BATCHES[name])

    lines = []
    for planned in outcome.outcomes:
        lines.append(f"{planned.message_id}: {in_words(planned.decision)}")
        if planned.fault:
            lines.append(f"  context ignored: {planned.fault}")

    lines.append(f"left: {' '.join(sorted(failures(outcome)))}")
    for queue in queues:
        for entry in sorted(queue.sent, key=lambda entry: entry.body):
            delay = "" if entry.delay_seconds is None else f", delayed by {entry.delay_seconds} s"
            lines.append(f"sent to {queue.url.rpartition('/')[2]}{delay}: {entry.body}")
            for attribute_name, attribute in entry.attributes.items():
                lines.append(f"  {attribute_name}: {attribute.value!s}")

    for message_id, seconds in queues[1].visibility:
        lines.append(f"hidden: {message_id} {seconds} s")

    assert_stored("batches", name, "\n".join(lines))


def in_words(decision: RecordDecision) -> str:
    """Format a decision for the stored text, with a flag only where it is not at its default."""
    match decision:
        case Replay():
            granted = ", granted by a limit" if decision.is_granted else ""
            uncounted = "" if decision.is_counted else ", not counted"
            return f"replay {decision.number} after {decision.delay_seconds} s{granted}{uncounted}"
        case Hold():
            by_breaker = ", by the breaker" if decision.by_breaker else ""
            wait = f"next look after {decision.wait_seconds} s{by_breaker}"
            return f"hold until {decision.due_seconds} for replay {decision.number}, {wait}"
        case Park(reason):
            return f"park: {reason}"
        case Wait():
            return "wait"
        case Failed(cause, detail):
            return f"failed: {cause}: {detail}" if detail else f"failed: {cause}"


FITS = context(first_id="first", source_queue="main")
OF_MAIN = {"DeadLetterQueueSourceArn": queue_arn("main")}


@pytest.mark.parametrize(
    ("count", "ours", "system", "number", "first_id"),
    [
        ("2", FITS, OF_MAIN, 3, "first"),
        ("2", FITS, {}, 3, "first"),
        ("2", context("another body", first_id="first"), OF_MAIN, 1, "a"),
        ("2", context(first_id="first", body_digest=None), OF_MAIN, 1, "a"),
        ("2", context(first_id="first", source_queue="other"), OF_MAIN, 1, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text("{}")}, OF_MAIN, 1, "a"),
        ("junk", context("another body"), OF_MAIN, 1, "a"),
        ("2", {}, OF_MAIN, 3, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text("{")}, OF_MAIN, 3, "a"),
        ("2", {CONTEXT_ATTRIBUTE: text(f'{{"h":"{"0" * 2000}"}}')}, OF_MAIN, 3, "a"),
    ],
)
def test_history_counts_only_beside_its_own_body_and_in_its_own_queue(
    count: str,
    ours: dict[str, MessageAttribute],
    system: dict[str, str],
    number: int,
    first_id: str,
) -> None:
    letter = message("a", attributes={**counter(count), **ours}, **system)
    _, (main, *_) = play(Batch(STANDARD, [letter]))

    (entry,) = main.sent
    assert entry.attributes[REPLAY_COUNT_ATTRIBUTE].value == str(number)
    assert context_of(entry).first_id == first_id


def test_hold_whose_answer_does_not_come_does_not_keep_the_batch() -> None:
    stuck = StuckQueue(queue_url("dlq"))
    with ThreadPoolExecutor(1) as executor:
        outcome, _ = play(
            Batch(FIFO_HOURS, [aged("a1")], seconds_left=0.05), stuck, executor=executor
        )
        stuck.released.set()

    assert decisions(outcome)["a1"] == Failed("not_reached", "its hold was not confirmed")
    assert failures(outcome) == {"a1"}


def test_the_reason_of_a_held_copy_is_known_by_the_id_that_its_consumer_saw() -> None:
    """The look before could not read the table, or its message was not due to be parked yet."""
    recorded = {
        "first": Failure("first", "orders.BadAddress", "no such street"),
        "x": Failure("x", "orders.BadAddress", "no such street"),
    }

    def find(message_ids: Sequence[str]) -> tuple[dict[str, Failure], None]:
        return {key: recorded[key] for key in message_ids if key in recorded}, None

    rules = replace(policy(), non_retryable_errors=("BadAddress",))
    held = context(first_id="first", last_id="first", due_seconds=NOW)
    again = context(first_id="first", last_id="first")
    letters = [
        message("copy", attributes=held),
        # Only what this function held: anybody can write the id of another message.
        message("sent by its producer", attributes=again),
        message("moved", attributes=held, DeadLetterQueueSourceArn=queue_arn("main")),
    ]
    outcome, (_, _, parked) = play(Batch(rules, letters), find_failures=find)

    assert decisions(outcome) == {
        "copy": Park(ParkReason.NON_RETRYABLE),
        "sent by its producer": Replay(1, 4),
        "moved": Replay(1, 4),
    }
    (copy,) = parked.sent
    assert context_of(copy).error == FailureError("orders.BadAddress", "no such street")


def test_reasons_are_looked_up_once_and_travel_with_the_parked() -> None:
    asked: list[Sequence[str]] = []

    def find(message_ids: Sequence[str]) -> tuple[dict[str, Failure], None]:
        asked.append(message_ids)
        late = Failure("c", "TimeoutError", "späť 🎉")
        return {"a": Failure("a", "orders.BadAddress", "no such street"), "c": late}, None

    rules = replace(policy(), non_retryable_errors=("BadAddress",))
    letters = [message("a"), message("b"), message("c", attributes=counter("3"))]
    outcome, (_, _, parked) = play(Batch(rules, letters), find_failures=find)

    assert asked == [["a", "b", "c"]]
    assert decisions(outcome) == {
        "a": Park(ParkReason.NON_RETRYABLE),
        "b": Replay(1, 4),
        "c": Park(ParkReason.ATTEMPTS_EXHAUSTED),
    }
    copies = [context_of(copy) for copy in parked.sent]
    assert sorted((str(copy.reason), copy.error) for copy in copies) == [
        ("attempts_exhausted", FailureError("TimeoutError", "späť 🎉")),
        ("non_retryable", FailureError("orders.BadAddress", "no such street")),
    ]
