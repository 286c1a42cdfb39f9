"""Lossless at SQS's limits: the real adapter, the model's rules, message by message."""

from dataclasses import replace

import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from dlq_replay.policy import MAX_MESSAGE_BYTES, QueueLimits
from dlq_replay.sqs import SqsQueue
from local_sqs.client import client_for
from tests.builders import filler, text
from tests.simulation.event_source import run
from tests.simulation.stack import Stack

COUNTER_BYTES = len(REPLAY_COUNT_ATTRIBUTE + "Number" + "1")


def round_trip(*entries: SendEntry, main_limit: int = MAX_MESSAGE_BYTES) -> Stack:
    """Put entries into the DLQ and let the function, with its real adapter, empty it."""
    stack = Stack(cap_seconds=0)
    client = client_for(stack.front)
    stack.main.queue.change({"MaximumMessageSize": str(main_limit)})
    limits = QueueLimits(main_max_bytes=main_limit)
    stack.replayer = replace(
        stack.replayer,
        policy=stack.replayer.policy.with_limits(limits),
        main_queue=SqsQueue(client, stack.main.url),
        dlq=SqsQueue(client, stack.dlq.url),
        parked_queue=SqsQueue(client, stack.parked.url),
    )
    for entry in entries:
        stack.dlq.send([entry])
    run(stack.model, [stack.replay_source(batch_size=100)])
    assert not stack.dlq.queue.messages()
    return stack


def arrived(stack: Stack) -> list[Message]:
    return [m for m in stack.main.receive() if isinstance(m, Message)]


def own(message: Message) -> dict[str, MessageAttribute]:
    ours = {REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE}
    return {name: a for name, a in message.attributes.items() if name not in ours}


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("astral", text("\U0001f389 \U00010348")),
        ("whitespace", text(" \t\r\n ")),
        ("number", text("12345678901234567890123456789012345678", "Number")),
        ("exponent", text("1.5E20", "Number")),
        ("label", text("7", "Number.int")),
        ("bytes", MessageAttribute("Binary", bytes(range(256)))),
        ("picture", MessageAttribute("Binary.png", b"\x00")),
    ],
)
def test_attribute_arrives_byte_for_byte(name: str, attribute: MessageAttribute) -> None:
    (copy,) = arrived(round_trip(SendEntry("x", {name: attribute})))

    assert own(copy) == {name: attribute}


@pytest.mark.parametrize("body", ["\U0001f389", '{"a":1.0E2,"a":2}', " ", "\r\n\t", "x" * 900_000])
def test_body_arrives_byte_for_byte(body: str) -> None:
    (copy,) = arrived(round_trip(SendEntry(body)))

    assert copy.body == body


def test_nine_attributes_leave_room_for_the_counter_alone() -> None:
    (copy,) = arrived(round_trip(SendEntry("x", filler(9))))

    assert own(copy) == filler(9)
    assert copy.history.replay_count == 1
    assert CONTEXT_ATTRIBUTE not in copy.attributes


def test_ten_attributes_are_parked_as_they_are() -> None:
    stack = round_trip(SendEntry("x", filler(10)))

    (parked,) = [m for m in stack.parked.receive() if isinstance(m, Message)]
    assert parked.attributes == filler(10)


@pytest.mark.parametrize(
    ("spare", "is_replayed"), [(COUNTER_BYTES, True), (COUNTER_BYTES - 1, False), (0, False)]
)
def test_message_of_a_mebibyte_is_replayed_where_its_counter_fits(
    *, spare: int, is_replayed: bool
) -> None:
    stack = round_trip(SendEntry("x" * (MAX_MESSAGE_BYTES - spare)))

    assert len(stack.main.queue.messages()) == int(is_replayed)
    assert len(stack.parked.queue.messages()) == int(not is_replayed)


def test_batch_whose_sum_passes_a_mebibyte_is_split() -> None:
    stack = round_trip(*(SendEntry(letter * 300_000) for letter in "abcdefgh"))

    assert sorted(m.body[0] for m in stack.main.queue.messages()) == list("abcdefgh")
    # Three of 300,000 bytes and their attributes fit into one call.
    assert stack.front.log.count("SendMessageBatch", "main") == 3


def test_smaller_limit_of_the_main_queue_is_kept() -> None:
    stack = round_trip(SendEntry("x" * 1000), SendEntry("y" * 1024), main_limit=1024)

    assert [m.body[0] for m in stack.main.queue.messages()] == ["x"]
    assert [m.body[0] for m in stack.parked.queue.messages()] == ["y"]
