"""The product's view of a queue, straight from the model and through boto3: the same."""

from typing import TYPE_CHECKING

import pytest

from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import Confirmed, InDoubt, Refused
from dlq_replay.sqs import SqsQueue
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model_queue import ModelQueue
from tests.builders import text

if TYPE_CHECKING:
    from collections.abc import Callable

Both = ModelQueue | SqsQueue


def direct(front: Front) -> Both:
    return ModelQueue(front, "q")


def through_boto3(front: Front) -> Both:
    return SqsQueue(client_for(front), direct(front).url)


@pytest.fixture(params=[direct, through_boto3])
def queue(request: pytest.FixtureRequest, front: Front) -> Both:
    make: Callable[[Front], Both] = request.param
    return make(front)


def received(queue: Both) -> list[Message]:
    return [m for m in queue.receive(wait_seconds=0) if isinstance(m, Message)]


def test_entry_comes_back_as_the_message_it_was(queue: Both) -> None:
    attributes = {"a": text("ä"), "n": text("7", "Number")}
    (result,) = queue.send([SendEntry("body", attributes, message_group_id="tenant")])
    (message,) = received(queue)

    assert result == Confirmed(message.message_id)
    assert (message.body, message.attributes) == ("body", attributes)
    assert message.message_group_id == "tenant"


def test_refusals_are_told_entry_by_entry(queue: Both) -> None:
    results = queue.send([SendEntry("a", delay_seconds=901), SendEntry("b", delay_seconds=900)])

    assert isinstance(results[0], Refused)
    assert results[0].code == "InvalidParameterValue"
    assert isinstance(results[1], Confirmed)


def test_refused_call_refuses_every_entry(queue: Both, front: Front) -> None:
    front.faults.add(Fault(Effect.THROTTLE, "SendMessageBatch"))
    results = queue.send([SendEntry("a"), SendEntry("b")])

    assert [type(result) for result in results] == [Refused, Refused]


@pytest.mark.parametrize("effect", [Effect.LOSE, Effect.HANG, Effect.CLOSE, Effect.ERROR])
def test_missing_answer_leaves_doubt(queue: Both, front: Front, effect: Effect) -> None:
    front.faults.add(Fault(effect, "SendMessageBatch"))
    results = queue.send([SendEntry("a"), SendEntry("b")])

    assert [type(result) for result in results] == [InDoubt, InDoubt]


def test_deletion_names_what_is_left(queue: Both, front: Front) -> None:
    queue.send([SendEntry(str(number)) for number in range(3)])
    messages = received(queue)
    front.faults.add(Fault(Effect.FAIL_ENTRIES, "DeleteMessageBatch", entries=(1,)))

    assert queue.delete(messages) == [messages[1]]
    assert queue.describe()["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_visibility_is_changed_for_any_number(queue: Both, clock: VirtualClock) -> None:
    queue.send([SendEntry(str(number)) for number in range(10)])
    queue.send([SendEntry("last")])
    messages = received(queue) + received(queue)
    changes = [(message, 100 if message.body == "last" else 50) for message in messages]
    assert queue.change_visibility(changes) == []

    clock.advance(50)
    assert len(received(queue) + received(queue)) == 10
    clock.advance(50)
    assert "last" in {message.body for message in received(queue) + received(queue)}


def test_unconfirmed_changes_of_visibility_are_named(queue: Both, front: Front) -> None:
    queue.send([SendEntry("a"), SendEntry("b")])
    messages = received(queue)
    front.faults.add(Fault(Effect.FAIL_ENTRIES, "ChangeMessageVisibilityBatch", entries=(0,)))

    assert queue.change_visibility([(m, 100) for m in messages]) == [messages[0]]
