"""What waiting costs in SQS requests, each shared by the messages in it."""

from dlq_replay.backoff import Backoff
from dlq_replay.wire.message import SendEntry
from tests.simulation.event_source import run
from tests.simulation.stack import Stack
from tests.support.builders import BODY, context, counter

DAY = 86_400


def requests(stack: Stack, *operations: str) -> int:
    return sum(record.operation in operations for record in stack.front.log.records())


def test_holding_for_a_day_costs_at_most_thirty_requests_a_message() -> None:
    stack = Stack(backoff=Backoff(7200, 2 * DAY), max_attempts=99)
    due = context(first_id="a", due_seconds=stack.now_seconds() + DAY)
    stack.dlq.send([SendEntry(BODY, {**counter("8"), **due}) for _ in range(10)])
    stack.front.log.clear()
    run(stack.model, [stack.replay_source()])

    busy = requests(stack, "SendMessageBatch", "DeleteMessageBatch")
    # A receive that brings messages goes with each delete; the empty ones between are the poller's.
    receives = requests(stack, "DeleteMessageBatch")
    assert stack.main.describe()["ApproximateNumberOfMessages"] == "10"
    assert stack.now_seconds() * 1000 == stack.clock.now_ms()
    assert (busy + receives) / 10 <= 30
