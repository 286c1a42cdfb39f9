import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from demo.environment import Queue
from demo.event_source import EventSource, Handler, InvocationContext, Poller, interpret, to_event
from demo.identity import Content, from_record
from dlq_replay.message import Message

IDS = ["id-1", "id-2", "id-3"]
ARN = "arn:aws:sqs:us-east-1:123456789012:dlq"
MAIN_ARN = "arn:aws:sqs:us-east-1:123456789012:main"


def received(**fields: Any) -> dict[str, Any]:
    return {
        "MessageId": "id-1",
        "ReceiptHandle": "handle",
        "Body": "größe",
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000"},
        "MessageAttributes": {
            "tenant": {"DataType": "String", "StringValue": "acme"},
            "hmac": {"DataType": "Binary.x", "BinaryValue": b"\x00\xff"},
        },
        **fields,
    }


def failures(*identifiers: object) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": i} for i in identifiers]}


@pytest.mark.parametrize(
    "answer", [None, {}, "", {"batchItemFailures": []}, {"batchItemFailures": None}, {"ok": 1}]
)
def test_answer_without_failures_is_success_of_all(answer: object) -> None:
    result = interpret(answer, IDS)

    assert result.failed == frozenset()
    assert result.fault is None


def test_named_messages_alone_have_failed() -> None:
    assert interpret(failures("id-2", "id-2"), IDS).failed == {"id-2"}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (failures(""), "no itemIdentifier"),
        (failures(None), "no itemIdentifier"),
        (failures("id-1", "stranger"), "stranger is not in the batch"),
        ({"batchItemFailures": [{"messageId": "id-1"}]}, "no itemIdentifier"),
        ({"batchItemFailures": ["id-1"]}, "no itemIdentifier"),
        ({"batchItemFailures": "id-1"}, "is no list"),
        ("done", "is no object"),
        (True, "is no object"),
        ([1], "is no object"),
        ({"batchItemFailures": [], "at": object()}, "is no JSON"),
        ({"rate": float("nan")}, "is no JSON"),
    ],
)
def test_answer_of_another_shape_is_failure_of_all(answer: object, fault: str) -> None:
    result = interpret(answer, IDS)

    assert result.failed == set(IDS)
    assert result.fault is not None
    assert fault in result.fault


def test_record_is_what_lambda_sends() -> None:
    (record,) = to_event([received()], ARN)["Records"]

    assert record["messageId"] == "id-1"
    assert record["md5OfBody"] == hashlib.md5("größe".encode()).hexdigest()  # noqa: S324 - SQS's
    assert record["eventSourceARN"] == ARN
    assert record["messageAttributes"]["hmac"] == {
        "binaryValue": "AP8=",
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": "Binary.x",
    }
    assert "DeadLetterQueueSourceArn" not in record["attributes"]


def test_record_of_a_dlq_names_where_it_came_from() -> None:
    message = received(Attributes={"DeadLetterQueueSourceArn": MAIN_ARN})
    (record,) = to_event([message], ARN)["Records"]

    assert record["attributes"]["DeadLetterQueueSourceArn"] == MAIN_ARN


def test_record_is_read_alike_by_the_product_and_by_the_demo() -> None:
    (record,) = to_event([received()], ARN)["Records"]

    message, content = Message.from_lambda_record(record), from_record(record)

    assert content == Content(message.body, content.attributes)
    assert {n: a.value for n, a in message.attributes.items()} == {
        n: a.value for n, a in content.attributes.items()
    }


QUEUE = Queue("dlq", "http://127.0.0.1/1/dlq", "arn:aws:sqs:us-east-1:1:dlq")


class FakeClient:
    """Gives *waiting* in receives of at most ten, then stops the poller through *on_empty*."""

    def __init__(self, count: int, faults: int = 0) -> None:
        self.waiting = [
            {"MessageId": f"id-{n}", "ReceiptHandle": f"handle-{n}", "Body": "b"}
            for n in range(count)
        ]
        self.faults = faults
        self.deleted: list[str] = []
        self.on_empty: Callable[[], object] = lambda: None

    def receive_message(self, **request: Any) -> dict[str, Any]:
        if self.faults:
            self.faults -= 1
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1")
        count = request["MaxNumberOfMessages"]
        batch, self.waiting = self.waiting[:count], self.waiting[count:]
        if not batch:
            self.on_empty()
        return {"Messages": batch} if batch else {}

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        assert len(request["Entries"]) <= 10
        self.deleted += [entry["ReceiptHandle"] for entry in request["Entries"]]
        return {}


def poll(client: FakeClient, handler: Handler, **settings: Any) -> list[str]:
    """Poll until the client runs dry; return the faults that were told."""
    faults: list[str] = []
    source = EventSource(QUEUE, "replay", **settings)
    poller = Poller(cast("Any", client), source, handler, faults.append)
    client.on_empty = poller.stop
    poller.run()
    return faults


def all_well(_event: Mapping[str, Any], _context: object) -> None:
    return None


def test_successes_are_deleted_and_failures_left() -> None:
    client = FakeClient(3)

    faults = poll(
        client, lambda _event, _context: {"batchItemFailures": [{"itemIdentifier": "id-1"}]}
    )

    assert client.deleted == ["handle-0", "handle-2"]
    assert faults == []


def test_exception_leaves_the_whole_batch(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_event: Mapping[str, Any], _context: object) -> None:
        raise KeyError("amount")

    client = FakeClient(2)

    faults = poll(client, broken)

    assert client.deleted == []
    assert faults == ["replay failed a whole batch: KeyError: 'amount'"]
    assert "Traceback" in capsys.readouterr().err


def test_nonsense_answer_leaves_the_whole_batch() -> None:
    client = FakeClient(2)

    faults = poll(client, lambda _event, _context: "fine")

    assert client.deleted == []
    assert faults == ["replay failed a whole batch: the answer is no object"]


def test_window_collects_more_than_one_receive() -> None:
    sizes: list[int] = []

    def count(event: Mapping[str, Any], _context: object) -> None:
        sizes.append(len(event["Records"]))

    client = FakeClient(25)
    poll(client, count, batch_size=20, window_seconds=0.3)

    assert sizes == [20, 5]
    assert len(client.deleted) == 25


@pytest.mark.parametrize("settings", [{"batch_size": 11}, {"window_seconds": 0.5}])
def test_what_lambda_refuses_of_a_fifo_queue_is_refused(settings: dict[str, Any]) -> None:
    fifo = Queue("dlq.fifo", "http://127.0.0.1/1/dlq.fifo", "arn:aws:sqs:us-east-1:1:dlq.fifo")

    with pytest.raises(ValueError, match=r"dlq\.fifo: FIFO allows batches of 10 and no window"):
        EventSource(fifo, "replay", **settings)


def test_error_of_the_queue_is_told_and_polling_goes_on() -> None:
    client = FakeClient(1, faults=1)

    faults = poll(client, all_well)

    assert client.deleted == ["handle-0"]
    assert [fault.split(":")[0] for fault in faults] == ["dlq could not be polled"]


def test_stop_ends_the_thread() -> None:
    client = FakeClient(0)
    reached = threading.Event()
    client.on_empty = reached.set
    poller = Poller(cast("Any", client), EventSource(QUEUE, "replay"), all_well, lambda _: None)

    poller.start()
    assert reached.wait(60)
    poller.stop()

    assert poller.join(60)


def test_context_counts_down_as_lambdas_does() -> None:
    context = InvocationContext("replay")

    assert 29_000 < context.get_remaining_time_in_millis() <= 30_000
    assert context.invoked_function_arn.endswith(":function:replay")
    assert context.aws_request_id != InvocationContext("replay").aws_request_id
