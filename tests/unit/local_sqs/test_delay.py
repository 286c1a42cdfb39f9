"""Message timers and delay queues on the virtual clock. SQSDeveloperGuide, "Message timers"."""

import pytest

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, refusal
from local_sqs.front import Front


def test_message_timer_hides_for_fifteen_minutes(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send(DelaySeconds=900)
    clock.advance(899.999)
    assert queue.receive() == []
    assert queue.counts() == (0, 0, 1)

    clock.advance(0.001)
    assert len(queue.receive()) == 1


@pytest.mark.parametrize("seconds", [-1, 901])
def test_delay_out_of_range_is_refused(sqs: Driver, seconds: int) -> None:
    queue = sqs.queue()
    sent, failed = queue.send_batch(
        {"MessageBody": "a", "DelaySeconds": seconds}, {"MessageBody": "b", "DelaySeconds": 900}
    )

    assert refusal(queue.send, DelaySeconds=seconds)[0] == "InvalidParameterValue"
    assert list(sent) == ["1"]
    assert failed == {"0": "InvalidParameterValue"}


def test_message_timer_overrides_the_queue(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(DelaySeconds=10)
    queue.send("of the queue")
    queue.send("none", DelaySeconds=0)
    queue.send("own", DelaySeconds=20)
    assert queue.bodies() == ["none"]

    clock.advance(10)
    assert queue.bodies() == ["of the queue"]
    clock.advance(10)
    assert queue.bodies() == ["own"]


def test_fifo_queue_refuses_a_message_timer(sqs: Driver) -> None:
    queue = sqs.fifo()
    code, text = refusal(queue.send_fifo, "x", DelaySeconds=2)

    assert code == "InvalidParameterValue"
    assert text.endswith("The request include parameter that is not valid for this queue type.")


def test_fifo_timer_of_zero_keeps_the_queues_delay(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(DelaySeconds=5)
    queue.send_fifo("x", DelaySeconds=0)
    assert queue.receive() == []

    clock.advance(5)
    assert queue.bodies() == ["x"]


def test_new_fifo_delay_holds_for_waiting_messages(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(DelaySeconds=600)
    queue.send_fifo("x")
    queue.set(DelaySeconds=5)
    clock.advance(5)

    assert queue.bodies() == ["x"]


def test_new_standard_delay_spares_waiting_messages(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(DelaySeconds=600)
    queue.send()
    queue.set(DelaySeconds=5)
    clock.advance(599)

    assert queue.receive() == []


def test_model_knows_when_the_next_message_is_due(
    sqs: Driver, front: Front, clock: VirtualClock
) -> None:
    queue = sqs.queue(VisibilityTimeout=30)
    assert front.model.next_event_ms() is None
    queue.send(DelaySeconds=900)
    queue.send()
    queue.receive_one()

    start = clock.now_ms()
    assert front.model.next_event_ms() == start + 30_000
    clock.advance(30)
    assert front.model.next_event_ms() == start + 900_000
