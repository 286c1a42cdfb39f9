"""The recorder beside Powertools' batch utility: by its handlers, and by its processors."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from pydantic import BaseModel, Json

from dlq_replay.consumer.failure_recorder import FailureRecorder
from tests.support.builders import lambda_record, message
from tests.support.failure_table import CardRefusedError, FakeFailureTable, PlainRecord

SECRET = "card 4111"


class Order(BaseModel):
    cents: int


class OrderRecord(PlainRecord):
    body: Json[Order]


def event(*message_ids: str, body: str = SECRET, group: str = "") -> dict[str, Any]:
    messages = (message(message_id, body=body, MessageGroupId=group) for message_id in message_ids)
    return {"Records": [lambda_record(received) for received in messages]}


def refuse_all_but_the_second(record: SQSRecord) -> None:
    if record.message_id != "m-2":
        raise CardRefusedError("refused")


def respond(recorder: FailureRecorder, processor: Any, event: dict[str, Any]) -> list[Any]:
    """Answer a batch as a Lambda would; the ids of what failed."""
    no_context: Any = None
    with recorder.batch():
        answer = process_partial_response(event, refuse_all_but_the_second, processor, no_context)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


@pytest.fixture
def loop() -> Iterator[None]:
    """Powertools takes the running thread's loop, and Lambda has one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def test_a_processor_records_what_its_handler_raises(table: FakeFailureTable) -> None:
    processor = table.recorder.records_failures_of(BatchProcessor(EventType.SQS))
    for _ in range(2):
        assert respond(table.recorder, processor, event("m-1", "m-2", "m-3")) == ["m-1", "m-3"]

    assert table.ids == [["m-1", "m-3"], ["m-1", "m-3"]]
    failure = table.calls[0][0]
    assert (failure.error_type, failure.error_message) == (
        f"{CardRefusedError.__module__}.CardRefusedError",
        "refused",
    )


def test_a_processor_that_fails_whole_records_before_it_raises(table: FakeFailureTable) -> None:
    processor = table.recorder.records_failures_of(BatchProcessor(EventType.SQS))

    with pytest.raises(BatchProcessingError):
        respond(table.recorder, processor, event("m-1", "m-3"))

    assert table.ids == [["m-1", "m-3"]]


def test_what_a_model_refuses_before_any_handler_sees_it_is_recorded(
    table: FakeFailureTable,
) -> None:
    processor = table.recorder.records_failures_of(
        BatchProcessor(EventType.SQS, OrderRecord, raise_on_entire_batch_failure=False)
    )

    assert respond(table.recorder, processor, event("m-1", body='{"cents": "none"}')) == ["m-1"]

    ((failure,),) = table.calls
    assert failure.matches(["ValidationError"])


@pytest.mark.parametrize("skips_group_alone", [True, False])
def test_a_processor_of_fifo_records_which_messages_only_stood_behind_another(
    table: FakeFailureTable, *, skips_group_alone: bool
) -> None:
    processor = table.recorder.records_failures_of(
        SqsFifoPartialProcessor(skip_group_on_error=skips_group_alone)
    )
    processor.raise_on_entire_batch_failure = False
    grouped = event("m-1", "m-3", group="a")["Records"]
    others = event("m-2", group="b")["Records"]

    failed = ["m-1", "m-3"] if skips_group_alone else ["m-1", "m-3", "m-2"]
    assert respond(table.recorder, processor, {"Records": grouped + others}) == failed

    ((first, *behind),) = table.calls
    assert first.matches(["CardRefusedError"])
    assert len(behind) == len(failed) - 1
    for failure in behind:
        assert failure.matches(["BehindFailureError"])
        assert failure.error_message == "not tried: it waited behind a failed message"


@pytest.mark.usefixtures("loop")
def test_an_asynchronous_processor_records_too(table: FakeFailureTable) -> None:
    async def record_handler(record: SQSRecord) -> None:
        await asyncio.sleep(0)
        refuse_all_but_the_second(record)

    processor = table.recorder.records_failures_of(AsyncBatchProcessor(EventType.SQS))
    with table.recorder.batch():
        async_process_partial_response(event("m-1", "m-2", "m-3"), record_handler, processor)

    assert [sorted(call) for call in table.ids] == [["m-1", "m-3"]]
