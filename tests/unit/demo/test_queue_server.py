"""The embedded server's FIFO queues, against what AWS documents, on moto's clock."""

import time
from typing import Any

import pytest
from moto.sqs import models

from demo.queue_server import QueueServer

MAIN, DLQ = "main.fifo", "dlq.fifo"


class Clock:
    """Stands in for moto's clock of milliseconds."""

    def __init__(self) -> None:
        self.now = round(time.time() * 1000)

    def __call__(self, *_: Any) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(models, "unix_time_millis", clock)
    return clock


@pytest.fixture
def server(clock: Clock) -> QueueServer:
    server = QueueServer("us-east-1", "123456789012")
    dlq = server.create_queue(DLQ, FifoQueue="true")
    main: Any = server.create_queue(MAIN, FifoQueue="true")
    # moto looks a redrive policy's target up among the queues of its own backend.
    main.dead_letter_queue, main.redrive_policy = dlq, {"maxReceiveCount": 2}
    server.create_queue("standard")
    return server


def send(server: QueueServer, *bodies: str, queue: str = MAIN) -> list[models.Message]:
    """Send bodies whose first letter is their group."""
    return [
        server.send_message(queue, body, group_id=body[0], deduplication_id=body) for body in bodies
    ]


def receive(server: QueueServer, queue: str = MAIN, count: int = 10) -> list[models.Message]:
    return server.receive_message(queue, count, 0, 5)


def bodies(messages: list[models.Message]) -> list[str]:
    return [message.body for message in messages]


def test_group_is_locked_while_one_of_it_is_in_flight(server: QueueServer) -> None:
    send(server, "a0", "a1", "b0")

    assert bodies(receive(server, count=1)) == ["a0"]
    assert bodies(receive(server)) == ["b0"]


def test_batch_comes_again_in_its_order_after_the_time_out(
    server: QueueServer, clock: Clock
) -> None:
    send(server, "a0", "a1", "a2")
    receive(server)
    clock.now += 5_001

    assert bodies(receive(server)) == ["a0", "a1", "a2"]


def test_what_is_shown_behind_a_hidden_head_waits_with_it(
    server: QueueServer, clock: Clock
) -> None:
    send(server, "a0", "a1")
    head, behind = receive(server)
    server.change_message_visibility(MAIN, str(head.receipt_handle), 60)
    server.change_message_visibility(MAIN, str(behind.receipt_handle), 0)
    clock.now += 30_000
    assert receive(server) == []

    clock.now += 30_001
    assert bodies(receive(server)) == ["a0", "a1"]


def test_move_to_the_dlq_is_an_arrival_and_the_group_goes_on(
    server: QueueServer, clock: Clock
) -> None:
    sent, *_ = send(server, "a0", "a1")
    for _ in range(2):
        receive(server, count=1)
        clock.now += 5_001

    assert bodies(receive(server)) == ["a1"]
    (moved,) = receive(server, DLQ)
    assert (moved.id, moved.deduplication_id) == (sent.id, sent.id)
    assert moved.sent_timestamp == clock.now
    assert str(moved.sequence_number) > "0" * 19 + "2"


def test_sequence_numbers_rise(server: QueueServer) -> None:
    numbers = [message.sequence_number for message in send(server, "a0", "b0", "a1")]

    assert numbers == sorted(map(str, numbers))
    assert len({len(str(number)) for number in numbers}) == 1


def test_repeated_send_is_confirmed_and_removed_even_after_the_deletion(
    server: QueueServer,
) -> None:
    send(server, "a0")
    (message,) = receive(server)
    server.delete_message(MAIN, str(message.receipt_handle))

    (repeated,) = send(server, "a0")
    assert repeated.id != message.id
    assert receive(server) == []


def test_standard_queues_are_motos(server: QueueServer) -> None:
    server.send_message("standard", "one")
    server.send_message("standard", "one")

    assert bodies(receive(server, "standard")) == ["one", "one"]
    assert receive(server, "standard") == []
