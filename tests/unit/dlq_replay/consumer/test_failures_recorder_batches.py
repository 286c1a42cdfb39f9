"""Failures of one invocation are written together, whatever runs the record handlers."""

import asyncio
import threading
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dlq_replay.consumer.failures import FailureRecorder
from tests.builders import NOW, lambda_record, message
from tests.failure_table import FakeFailureTable

SECRET = "card 4111"


class CardRefusedError(Exception):
    pass


@pytest.fixture
def table() -> FakeFailureTable:
    return FakeFailureTable()


@pytest.fixture
def recorder(table: FakeFailureTable) -> FailureRecorder:
    return FailureRecorder(table, now_seconds=lambda: NOW)


def fail(recorder: FailureRecorder, record: object, error: Exception | None = None) -> None:
    with pytest.raises(CardRefusedError), recorder.recording(record):
        raise error or CardRefusedError("refused")


def event(*message_ids: str) -> dict[str, Any]:
    return {"Records": [lambda_record(message(one, body=SECRET)) for one in message_ids]}


def test_a_block_without_a_failure_writes_nothing(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    with recorder.batch(), recorder.recording({"messageId": "m-1"}):
        pass

    assert table.calls == []


def test_a_batch_is_written_once_even_when_it_fails_itself(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    @recorder.batch()
    def lambda_handler() -> None:
        fail(recorder, message("m-1"))
        with recorder.batch():
            fail(recorder, message("m-2"))
            fail(recorder, message("m-1"))
        assert table.calls == []
        raise KeyError

    with pytest.raises(KeyError):
        lambda_handler()

    assert table.ids == [["m-1", "m-2"]]


def test_nested_uses_write_a_message_once_with_what_the_outermost_saw(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    @recorder.records_failures
    def record_handler(record: object) -> None:
        with recorder.recording(record):
            customer_of(record)

    @recorder.records_failures
    def outer_handler(record: object) -> None:
        try:
            record_handler(record)
        except KeyError as error:
            raise CardRefusedError("no customer") from error

    def customer_of(record: object) -> None:
        raise KeyError("customer")

    with pytest.raises(CardRefusedError):
        outer_handler(message("m-1"))

    ((failure,),) = table.calls
    assert failure.error_message == "no customer"


def test_powertools_partial_response_is_as_without_the_recorder(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    @recorder.records_failures
    def record_handler(record: SQSRecord, lambda_context: object) -> None:
        assert lambda_context == "context"
        if record.message_id != "m-2":
            raise CardRefusedError

    @recorder.batch()
    def lambda_handler(event: dict[str, Any], context: Any) -> Any:
        return process_partial_response(
            event, record_handler, BatchProcessor(EventType.SQS), context
        )

    for _ in range(2):
        answer = lambda_handler(event("m-1", "m-2", "m-3"), "context")

        assert answer == {"batchItemFailures": [{"itemIdentifier": i} for i in ("m-1", "m-3")]}
    assert table.ids == [["m-1", "m-3"], ["m-1", "m-3"]]


def test_asynchronous_handlers_share_their_batch(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    @recorder.records_failures
    async def record_handler(record: SQSRecord) -> None:
        await asyncio.sleep(0)
        if record.message_id != "m-2":
            raise CardRefusedError

    # Powertools takes the running thread's loop, and Lambda has one.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with recorder.batch():
        answer = async_process_partial_response(
            event("m-1", "m-2", "m-3"), record_handler, AsyncBatchProcessor(EventType.SQS)
        )
    asyncio.set_event_loop(None)
    loop.close()

    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == ["m-1", "m-3"]
    assert [sorted(call) for call in table.ids] == [["m-1", "m-3"]]


def test_batches_of_two_threads_do_not_mix(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    inside = threading.Barrier(2, timeout=30)

    def work(message_id: str) -> None:
        with recorder.batch():
            inside.wait()
            recorder.record(message_id, CardRefusedError())
            inside.wait()

    threads = [threading.Thread(target=work, args=(one,)) for one in ("m-1", "m-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(table.ids) == [["m-1"], ["m-2"]]


def test_two_recorders_in_one_another_keep_their_own() -> None:
    inner, outer = FakeFailureTable(), FakeFailureTable()
    outer_recorder, inner_recorder = FailureRecorder(outer), FailureRecorder(inner)
    with outer_recorder.batch(), inner_recorder.batch():
        outer_recorder.record("m-1", CardRefusedError())
        inner_recorder.record("m-2", CardRefusedError())

    assert (outer.ids, inner.ids) == ([["m-1"]], [["m-2"]])
