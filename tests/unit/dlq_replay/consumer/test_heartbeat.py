"""On the model's virtual clock, with real botocore and no waiting; at the end, with its thread."""

import asyncio
import logging
import threading
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.parser.models import SqsRecordModel
from botocore.exceptions import ClientError, EndpointConnectionError

from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.heartbeat import LIMIT_SECONDS, Heartbeat
from dlq_replay.errors import MalformedMessageError, SettingsError
from dlq_replay.message import Message
from local_sqs.faults import Effect
from tests.builders import lambda_record
from tests.simulation.beating import EXTEND, Work

HOUR = 3600
PATIENCE_SECONDS = 30


@pytest.mark.parametrize("queue_name", ["q", "q.fifo"])
def test_message_stays_hidden_for_as_long_as_the_block_runs(queue_name: str) -> None:
    work = Work(queue_name=queue_name)
    with work.beat() as beat:
        for _ in range(100):
            work.pass_time(beat, 30)
            assert work.queue.receive() == []
            beat.check()

    assert work.extensions() == 51
    assert work.queue.receive() == []
    work.clock.advance(120)
    assert len(work.queue.receive()) == 1


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_all_that_is_not_done_is_visible_at_once_when_an_exception_leaves_the_block(
    error: type[BaseException],
) -> None:
    work = Work(count=25)

    def fail(beat: Heartbeat) -> None:
        with beat:
            work.pass_time(beat, 90)
            beat.done(work.ids[0])
            raise error

    with pytest.raises(error):
        fail(work.beat())

    assert work.queue.counts() == (24, 1, 0)
    assert [call.entry_count for call in work.front.log.records(EXTEND)] == [10, 10, 5] * 2 + [
        10,
        10,
        4,
    ]


def test_giving_up_shows_what_is_not_done_and_logs_what_sqs_did_not_confirm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(count=4)
    with work.beat() as beat:
        beat.done(work.ids[3])
        work.fail(Effect.FAIL_ENTRIES, entries=(1,), nth=1)
        beat.give_up()
        assert work.queue.counts() == (2, 2, 0)
        work.pass_time(beat, 600)
        beat.check()
        with pytest.raises(KeyError):
            beat.check(work.ids[0])
        beat.give_up()

    assert [record.getMessage() for record in caplog.records] == [
        f"message {work.ids[1]} was not released: InternalError"
    ]


def test_done_message_stays_hidden_until_the_block_ends_and_its_end_is_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(count=2)
    with work.beat() as beat:
        beat.done(work.ids[0])
        work.pass_time(beat, 600)
        assert work.queue.receive() == []
        with pytest.raises(KeyError):
            beat.check(work.ids[0])
        work.queue.delete(work.received[0])
        work.pass_time(beat, 600)
        beat.check()

    assert not caplog.records


def answered(work: Work, answer: Any) -> list[list[str]]:
    """Let the next call give *answer*; return the receipt handles of each call from now on."""
    calls: list[list[str]] = []
    send = work.client.change_message_visibility_batch

    def change(**request: Any) -> Any:
        calls.append([entry["ReceiptHandle"] for entry in request["Entries"]])
        if len(calls) > 1:
            return send(**request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    work.client.change_message_visibility_batch = change  # type: ignore[method-assign]
    return calls


def failed(code: str) -> dict[str, Any]:
    return {"Failed": [{"Id": "0", "Code": code}], "Successful": [{"Id": "1"}]}


@pytest.mark.parametrize(
    ("answer", "is_lost"),
    [
        (failed("ReceiptHandleIsInvalid"), True),
        (failed("AWS.SimpleQueueService.MessageNotInflight"), True),
        (failed("InvalidParameterValue"), True),
        (failed("InternalError"), False),
        (failed("RequestThrottled"), False),
        (failed("NeverHeardOf"), False),
        ({"Successful": [{"Id": "1"}]}, False),
    ],
)
def test_entry_that_is_not_confirmed_is_tried_again_alone_unless_its_handle_is_void(
    answer: dict[str, Any], *, is_lost: bool
) -> None:
    work = Work(count=2)
    first, second = (received["ReceiptHandle"] for received in work.received)
    calls = answered(work, answer)
    with work.beat() as beat:
        work.pass_time(beat, 29)
        beat.check(work.ids[1])
        refused = pytest.raises(VisibilityLostError, match="SQS refused")
        with refused if is_lost else nullcontext():
            beat.check(work.ids[0])

    assert calls == [[first, second], *([] if is_lost else [[first]])]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "x"), "AccessDenied"),
        (ClientError({"Error": {"Code": "InvalidParameterValue"}}, "x"), "InvalidParameterValue"),
        (EndpointConnectionError(endpoint_url="http://secret"), "EndpointConnectionError"),
        (RuntimeError("cannot schedule new futures after shutdown"), "RuntimeError"),
    ],
)
def test_call_that_raises_is_tried_again_for_all_its_entries(
    error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(count=2)
    calls = answered(work, error)
    with work.beat() as beat:
        work.pass_time(beat, 29)
        beat.check()

    assert [len(handles) for handles in calls] == [2, 2]
    assert [record.getMessage() for record in caplog.records] == [
        f"message {message_id} was not extended: call: {code}" for message_id in work.ids
    ]


@pytest.mark.parametrize(
    "effect", [Effect.LOSE, Effect.CLOSE, Effect.ERROR, Effect.UNAVAILABLE, Effect.THROTTLE]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_extension_without_confirmation_is_repeated(effect: Effect, *, is_first: bool) -> None:
    work = Work()
    if is_first:
        work.fail(effect, times=3)
    with work.beat() as beat:
        if not is_first:
            work.fail(effect, times=3)
        work.pass_time(beat, 600)
        beat.check()

    assert work.queue.receive() == []


def test_denied_extensions_lose_the_message_when_its_timeout_ends_and_not_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work()
    tried_at: list[float] = []

    def deny(**_: Any) -> None:
        tried_at.append(work.clock.time())
        error: Any = {"Error": {"Code": "AccessDenied", "Message": "no"}}
        raise ClientError(error, EXTEND)

    with work.beat() as beat:
        work.client.change_message_visibility_batch = deny  # type: ignore[method-assign,assignment]
        work.pass_time(beat, 119.9)
        beat.check()
        work.clock.advance(0.1)
        with pytest.raises(VisibilityLostError, match="AccessDenied") as raised:
            beat.check()
        tries = len(tried_at)
        work.pass_time(beat, 9999)

    assert type(raised.value) is VisibilityLostError
    assert raised.value.message_id == work.ids[0]
    assert len(tried_at) == tries
    assert 10 <= tries <= 20
    pauses = [round(later - sooner, 3) for sooner, later in pairwise(tried_at)]
    assert (pauses[0], min(pauses)) == (15, 1)
    assert pauses == sorted(pauses, reverse=True)
    assert work.received[0]["ReceiptHandle"] not in caplog.text


@pytest.mark.parametrize(
    ("received_timeout_seconds", "fault"),
    [(30, Effect.CLOSE), (5400, Effect.LOSE)],
    ids=["the receive's timeout", "the shorter of two, after a lost answer"],
)
def test_first_extension_that_is_not_confirmed_leaves_the_earlier_end(
    received_timeout_seconds: int, fault: Effect
) -> None:
    work = Work(VisibilityTimeout=received_timeout_seconds)
    work.fail(fault)
    with work.beat(received_timeout_seconds=received_timeout_seconds) as beat:
        work.clock.advance(min(received_timeout_seconds, 120) - 1)
        beat.check()
        work.clock.advance(1)
        with pytest.raises(VisibilityLostError):
            beat.check()


def test_answer_after_the_end_of_the_timeout_does_not_count() -> None:
    work = Work()
    with work.beat() as beat:
        work.fail(Effect.DELAY, seconds=61, nth=1)
        work.pass_time(beat, 60)
        with pytest.raises(VisibilityLostError, match="may have ended"):
            beat.check()


def test_confirmed_extension_counts_from_when_it_was_sent() -> None:
    work = Work()
    work.fail(Effect.DELAY, seconds=5)
    with work.beat() as beat:
        work.clock.advance(114)
        beat.check()
        work.clock.advance(1)
        with pytest.raises(VisibilityLostError):
            beat.check()


def test_deleted_message_is_lost_by_itself_and_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(count=12)
    with work.beat() as beat:
        work.queue.delete(work.received[3])
        work.pass_time(beat, 600)
        with pytest.raises(VisibilityLostError, match="InvalidParameterValue"):
            beat.check(work.ids[3])
        for message_id in work.ids[:3] + work.ids[4:]:
            beat.check(message_id)

    (line,) = [text for text in caplog.messages if text.startswith("visibility lost")]
    assert work.ids[3] in line


@pytest.mark.parametrize(
    ("seconds", "outcome", "extensions"),
    # After an hour neither extended nor shown: it is another consumer's.
    [(100, nullcontext(), 2), (HOUR, pytest.raises(VisibilityLostError), 1)],
)
def test_suspended_machine_extends_at_once_if_it_wakes_in_time_and_else_leaves_the_message(
    seconds: int, outcome: AbstractContextManager[object], extensions: int
) -> None:
    work = Work()
    with outcome, work.beat() as beat:
        work.clock.advance(seconds)
        assert len(work.queue.receive()) == (seconds == HOUR)
        work.pass_time(beat, 0)
        work.clock.advance(100)
        beat.check()

    assert work.extensions() == extensions


def test_most_urgent_messages_go_first_after_a_suspension() -> None:
    work = Work(count=12)
    with work.beat() as beat:
        # The second of two calls, which has the last two messages.
        work.fail(Effect.THROTTLE, nth=2)
        work.pass_time(beat, 60)
        work.clock.advance(55)
        calls = answered(work, EndpointConnectionError(endpoint_url="http://x"))
        beat.tick()

    assert [len(handles) for handles in calls] == [10, 2]
    assert calls[0][:2] == [received["ReceiptHandle"] for received in work.received[10:]]


def test_new_receipt_takes_the_place_of_the_lost_one_and_of_no_done_one() -> None:
    work = Work()
    with work.beat() as beat:
        work.clock.advance(500)
        with pytest.raises(VisibilityLostError):
            beat.check()
        (again,) = work.queue.receive()
        assert beat.replace_receipt(again["MessageId"], again["ReceiptHandle"])
        for _ in range(20):
            work.pass_time(beat, 30)
            beat.check()
            assert work.queue.receive() == []
        beat.done(work.ids[0])
        assert not beat.replace_receipt(work.ids[0], "handle")
        assert not beat.replace_receipt("unknown", "handle")


def test_twelve_hours_end_with_an_error_of_their_own_while_the_message_is_hidden() -> None:
    work = Work()
    ends = []
    send = work.client.change_message_visibility_batch

    def record(**request: Any) -> Any:
        ends.append(work.clock.time() + request["Entries"][0]["VisibilityTimeout"])
        return send(**request)

    work.client.change_message_visibility_batch = record  # type: ignore[method-assign]
    received_at = work.clock.time()
    with work.beat(timeout_seconds=600) as beat:
        work.pass_time(beat, LIMIT_SECONDS - 11)
        beat.check()
        work.pass_time(beat, 2)
        assert work.queue.receive() == []
        with pytest.raises(VisibilityLimitError):
            beat.check()

    assert max(ends) <= received_at + LIMIT_SECONDS


def test_receive_that_lies_back_counts_from_its_time() -> None:
    work = Work(VisibilityTimeout=7200)
    work.clock.advance(HOUR)
    with work.beat(
        timeout_seconds=600, received_timeout_seconds=7200, received_seconds_ago=HOUR
    ) as beat:
        work.pass_time(beat, 11 * HOUR - 30)
        beat.check()
        work.pass_time(beat, 30)
        with pytest.raises(VisibilityLimitError):
            beat.check()
    late = Work()
    late.clock.advance(31)
    with late.beat(received_seconds_ago=31) as beat, pytest.raises(VisibilityLostError):
        beat.check()
    assert late.extensions() == 0


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 43_201}, "timeout_seconds"),
        ({"timeout_seconds": 1.5}, "timeout_seconds"),
        ({"received_timeout_seconds": -1}, "received_timeout_seconds"),
        ({"received_timeout_seconds": 43_201}, "received_timeout_seconds"),
        ({"received_timeout_seconds": float("nan")}, "received_timeout_seconds"),
    ],
)
def test_number_out_of_range_is_refused_by_name(numbers: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=f"^invalid configuration:\n  {name}: "):
        Work(count=0).beat(**numbers)


@pytest.mark.parametrize(
    "received", [{}, {"MessageId": "m"}, {"ReceiptHandle": "r"}, Message("m", "body")]
)
def test_message_without_id_or_handle_is_refused(received: Any) -> None:
    with pytest.raises(MalformedMessageError, match="receipt handle"):
        Heartbeat(Work(count=0).client, "url", [received])


def test_core_messages_and_lambda_records_are_taken_too() -> None:
    work = Work(count=2)
    core = Message.from_receive(work.received[0])
    work.received = [core, lambda_record(Message.from_receive(work.received[1]))]  # type: ignore[list-item]
    with work.beat() as beat:
        work.pass_time(beat, 60)
        beat.check()


def test_heartbeat_serves_one_block() -> None:
    beat = Work().beat()
    with beat:
        pass

    with pytest.raises(RuntimeError, match="one block"), beat:
        pass


class _Bare(SqsRecordModel):
    """Of the fields that these tests' records have."""

    attributes: Any


@pytest.mark.parametrize("options", [{}, {"model": _Bare}])
def test_batch_processor_shows_what_failed_and_hides_what_is_done(options: dict[str, Any]) -> None:
    work = Work(count=12)

    def handler(record: Any) -> None:
        # Longer than a timeout for all of them: what is done first waits for the last.
        work.pass_time(beat, 30)
        assert work.queue.receive() == []
        if record.body in ("3", "7"):
            raise ZeroDivisionError

    no_context: Any = None
    with work.beat() as beat:
        answer = process_partial_response(
            {"Records": [lambda_record(Message.from_receive(one)) for one in work.received]},
            beat.guarded(handler),
            BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, **options),
            no_context,
        )
        beat.give_up()

    failed_ids = [item["itemIdentifier"] for item in answer["batchItemFailures"]]
    assert failed_ids == [work.ids[3], work.ids[7]]
    assert sorted(received["Body"] for received in work.queue.receive()) == ["3", "7"]


def test_handler_does_not_begin_on_a_message_that_was_lost() -> None:
    work = Work()
    with work.beat() as beat:
        work.clock.advance(HOUR)
        with pytest.raises(VisibilityLostError):
            beat.guarded(lambda record: pytest.fail(str(record)))(work.received[0])


def test_async_handler_is_done_when_it_ends_and_not_when_it_is_called() -> None:
    work = Work()

    async def run(beat: Heartbeat) -> None:
        async def handler(record: Any) -> str:
            await asyncio.sleep(0)
            beat.check(record["MessageId"])
            return "result"

        assert await beat.guarded(handler)(work.received[0]) == "result"
        with pytest.raises(KeyError):
            beat.check(work.ids[0])

    with work.beat() as beat:
        asyncio.run(run(beat))


class SlowClient:
    """Confirms everything; from the second extension on, only after it was let through.

    Attributes:
        done: the timeouts that it set, in order.
    """

    def __init__(self) -> None:
        self.done: list[int] = []
        self.is_second_call = threading.Event()
        self.may_answer = threading.Event()

    def change_message_visibility_batch(self, **request: Any) -> Any:
        seconds = request["Entries"][0]["VisibilityTimeout"]
        if seconds and self.done:
            self.is_second_call.set()
            assert self.may_answer.wait(PATIENCE_SECONDS)
        self.done.append(seconds)
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


@pytest.fixture
def client() -> Any:
    return SlowClient()


def beating(client: Any) -> Heartbeat:
    """Return a heartbeat with its thread, that extends as often as it can."""
    message = {"MessageId": "m", "ReceiptHandle": "r"}
    return Heartbeat(client, "url", [message], timeout_seconds=1, received_timeout_seconds=600)


@pytest.mark.parametrize("outcome", [nullcontext(), pytest.raises(ZeroDivisionError)])
def test_extension_on_its_way_does_not_hide_again_what_was_given_up(
    client: Any, outcome: AbstractContextManager[object]
) -> None:
    with outcome, beating(client) as beat:
        assert client.is_second_call.wait(PATIENCE_SECONDS)
        beat.check()
        threading.Timer(0.05, client.may_answer.set).start()
        if not isinstance(outcome, nullcontext):
            raise ZeroDivisionError
        beat.give_up()

    assert client.done[-1] == 0
    assert client.done.count(0) == 1


def test_thread_ends_with_the_block_and_with_the_thread_that_entered_it(client: Any) -> None:
    client.may_answer.set()
    threads: list[threading.Thread] = []

    def note() -> None:
        threads.extend(one for one in threading.enumerate() if one.name == "sqs-heartbeat")

    def enter_and_die() -> None:
        beating(client).__enter__()
        note()

    with beating(client):
        note()
    worker = threading.Thread(target=enter_and_die)
    worker.start()
    worker.join()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


def test_error_of_the_heartbeat_itself_does_not_end_it(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client.may_answer.set()
    beat = beating(client)
    tick, has_gone_on = beat.tick, threading.Event()
    ticks: list[int] = []

    def fail_once() -> float:
        ticks.append(1)
        if len(ticks) == 2:
            raise ZeroDivisionError
        if len(ticks) > 2:
            has_gone_on.set()
        return tick()

    beat.tick = fail_once  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR), beat:
        assert has_gone_on.wait(PATIENCE_SECONDS)

    assert "the heartbeat failed; it continues" in caplog.text
