"""Record handlers under a heartbeat, as a processor of batches calls them."""

import asyncio
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser.models import SqsRecordModel

from dlq_replay.consumer.errors import VisibilityLostError
from dlq_replay.consumer.heartbeat import Heartbeat
from dlq_replay.message import Message
from tests.builders import lambda_record
from tests.simulation.beating import Work


def records_of(work: Work) -> list[dict[str, Any]]:
    return [lambda_record(Message.from_receive(one)) for one in work.received]


def respond(beat: Heartbeat, work: Work, handler: Any, **options: Any) -> list[Any]:
    """Answer the batch as a Lambda would; the ids of what failed."""
    no_context: Any = None
    answer = process_partial_response(
        {"Records": records_of(work)},
        beat.guarded(handler),
        BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, **options),
        no_context,
    )
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_what_a_handler_finished_is_not_shown_again_and_what_it_failed_on_is() -> None:
    work = Work(count=12)

    def handler(record: SQSRecord) -> None:
        # Longer than a timeout for all of them: what is done first waits for the last.
        work.ticker.pass_time(30)
        assert work.queue.receive() == []
        if record.body in ("3", "7"):
            raise ZeroDivisionError

    with work.beat() as beat:
        failed = respond(beat, work, handler)
        beat.give_up()

    assert failed == [work.ids[3], work.ids[7]]
    assert sorted(one["Body"] for one in work.queue.receive()) == ["3", "7"]
    assert not work.lost


def test_handler_does_not_begin_on_a_message_that_was_lost() -> None:
    work = Work(count=2)
    begun: list[str] = []

    def handler(record: SQSRecord) -> None:
        begun.append(record.message_id)
        work.clock.advance(3600)

    with work.beat() as beat:
        failed = respond(beat, work, handler)

    assert begun == work.ids[:1]
    assert failed == work.ids[1:]


def test_a_record_of_the_parsers_model_is_known() -> None:
    work = Work()
    with work.beat() as beat:
        assert respond(beat, work, lambda record: record, model=_Bare) == []
        assert not beat.is_safe(work.ids[0])


def test_async_handler_is_done_when_it_ends_and_not_when_it_is_called() -> None:
    work = Work()
    (record,) = records_of(work)

    async def run(beat: Heartbeat) -> None:
        async def handler(record: dict[str, Any]) -> str:
            assert beat.is_safe(record["messageId"])
            await asyncio.sleep(0)
            assert beat.is_safe(record["messageId"])
            return "result"

        assert await beat.guarded(handler)(record) == "result"
        assert not beat.is_safe(record["messageId"])

    with work.beat() as beat:
        asyncio.run(run(beat))


def test_error_of_a_handler_goes_on_and_its_message_stays_hidden() -> None:
    work = Work()

    def handler(record: object) -> None:
        raise ZeroDivisionError

    with work.beat() as beat:
        with pytest.raises(ZeroDivisionError):
            beat.guarded(handler)(records_of(work)[0])
        beat.check(work.ids[0])
        assert work.queue.receive() == []


def test_lost_message_raises_what_check_raises() -> None:
    work = Work()
    with work.beat() as beat:
        work.clock.advance(3600)
        with pytest.raises(VisibilityLostError):
            beat.guarded(lambda record: record)(records_of(work)[0])


class _Bare(SqsRecordModel):
    """Of the fields that these tests' records have."""

    attributes: Any
