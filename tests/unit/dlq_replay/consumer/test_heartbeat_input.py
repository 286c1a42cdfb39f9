"""What a heartbeat takes and what it refuses."""

from typing import Any

import pytest

from dlq_replay.consumer.heartbeat import Heartbeat
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message
from tests.builders import lambda_record, message, queue_arn
from tests.simulation.beating import Work
from tests.simulation.ticking import VirtualTicker


def test_empty_batch_asks_nothing_of_anyone() -> None:
    work = Work(count=0)
    with work.beat() as beat:
        work.ticker.pass_time(600)
        beat.check()
        assert not beat.replace_receipt("unknown", "handle")

    assert work.extensions() == 0
    with Heartbeat.for_records(work.client, [], ticker=work.ticker):
        pass


def test_core_messages_and_lambda_records_are_taken_too() -> None:
    work = Work(count=2)
    core = Message.from_receive(work.received[0])
    record = lambda_record(Message.from_receive(work.received[1]), queue="q")
    for received in (core, record):
        ticker = VirtualTicker(work.clock)
        beat = Heartbeat.for_messages(
            work.client, work.queue.url, [received], now=work.clock.time, ticker=ticker
        )
        with beat:
            ticker.pass_time(60)
            beat.check()


def test_queue_of_records_is_asked_for_by_their_arn() -> None:
    work = Work()
    record = lambda_record(Message.from_receive(work.received[0]))
    record["eventSourceARN"] = work.queue.arn
    with Heartbeat.for_records(work.client, [record], now=work.clock.time, ticker=work.ticker):
        pass

    assert work.extensions() == 1


def test_records_of_a_queue_that_does_not_exist_name_it() -> None:
    work = Work()

    with pytest.raises(QueueError, match="URL of missing: NonExistentQueue"):
        Heartbeat.for_records(work.client, [lambda_record(message(), queue="missing")])


@pytest.mark.parametrize("arns", [["x"], [queue_arn("a"), queue_arn("b")], [None]])
def test_records_that_name_no_single_queue_are_refused(arns: list[str | None]) -> None:
    records = [lambda_record(message()) | {"eventSourceARN": arn} for arn in arns]

    with pytest.raises(MalformedMessageError, match="eventSourceARN"):
        Heartbeat.for_records(Work().client, records)


@pytest.mark.parametrize(
    "received", [{}, {"MessageId": "m"}, {"ReceiptHandle": "r"}, Message("m", "body")]
)
def test_message_without_id_or_handle_is_refused(received: Any) -> None:
    with pytest.raises(MalformedMessageError, match="receipt handle"):
        Heartbeat.for_messages(Work().client, "url", [received])


def test_heartbeat_serves_one_block() -> None:
    work = Work()
    beat = work.beat()
    with beat:
        pass

    with pytest.raises(RuntimeError, match="one block"), beat:
        pass
