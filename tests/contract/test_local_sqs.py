"""The behaviours of SQS that ``local_sqs`` shows: one table, with the page of AWS that says so.

Each behaviour runs on a virtual clock against the model, through boto3. Those marked ``over_http``
run through the server too: the operations are the same, so a few prove the wire.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.model import SqsModel
from local_sqs.server import serve_in_thread
from tests.contract.sqs_story import Story
from tests.support.golden import assert_stored, stored_texts
from tests.support.sqs_driver import Driver, refusal_code, string

API = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_"
GUIDE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
# AWS's own answers, recorded by the tests of another implementation.
RECORDED = "https://github.com/localstack/localstack/blob/main/tests/aws/services/sqs/"

KIB = 1024
MIB = 1_048_576


@dataclass(frozen=True)
class LocalSqs(Driver):
    """An SQS on a virtual clock."""

    model: SqsModel
    clock: VirtualClock


Steps = Callable[[LocalSqs], None]
BEHAVIOURS: dict[str, tuple[Steps, str, bool]] = {}


def behaviour(source: str, *, over_http: bool = False) -> Callable[[Steps], Steps]:
    """Add a row to the table. *source* is the page that describes it."""

    def add(steps: Steps) -> Steps:
        BEHAVIOURS[steps.__name__] = steps, source, over_http
        return steps

    return add


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def model(clock: VirtualClock) -> SqsModel:
    return SqsModel(clock, seed=1)


@pytest.fixture
def sqs(model: SqsModel, clock: VirtualClock) -> LocalSqs:
    return LocalSqs(client_for(model), model, clock)


@pytest.fixture
def served_sqs(model: SqsModel, clock: VirtualClock) -> Iterator[LocalSqs]:
    with serve_in_thread(model) as served:
        once = Config(retries={"total_max_attempts": 1})
        yield LocalSqs(boto3.client("sqs", endpoint_url=served.url, config=once), model, clock)


# --- Queues


FIFO = {"FifoQueue": "true"}
UNACCEPTABLE_QUEUES: Mapping[str, Sequence[tuple[str, dict[str, str]]]] = {
    "InvalidParameterValue": [
        ("q" * 81, {}),
        ("a.b", {}),
        ("a.fifo", {}),
        ("a", FIFO),
        ("a", {"RedrivePolicy": "{}"}),
    ],
    "InvalidAttributeName": [("a", {"ContentBasedDeduplication": "true"}), ("a", {"Bogus": "1"})],
    "InvalidAttributeValue": [
        ("a", {"VisibilityTimeout": "43201"}),
        ("a", {"DelaySeconds": "901"}),
        *(("a", {"MessageRetentionPeriod": seconds}) for seconds in ("59", "1209601")),
        *(("a", {"MaximumMessageSize": size}) for size in ("1023", "1048577")),
    ],
}


@behaviour(API + "CreateQueue.html")
def unacceptable_queue_is_refused(sqs: LocalSqs) -> None:
    create = sqs.client.create_queue
    for code, queues in UNACCEPTABLE_QUEUES.items():
        for name, given in queues:
            assert refusal_code(create, QueueName=name, Attributes=given) == code, name


# --- What a message may contain


def attributes(count: int) -> dict[str, dict[str, str]]:
    return {f"a{n}": string("v") for n in range(count)}


def with_attribute(value: Any, name: str = "a") -> dict[str, Any]:
    return {"MessageBody": "x", "MessageAttributes": {name: value}}


BAD_NAMES = ("AWS.x", "aws.x", "Amazon.y", ".a", "a.", "a..b", "a b", "ä", "n" * 257)
FORBIDDEN = ("a\x01b", "\x0b", "\x1f", "\ufffe", "\uffff", "\ud800")
BAD_VALUES: Sequence[Any] = (
    *(string("v", data_type) for data_type in ("Text", "Strings", "", "Binary")),
    *(string(value, "Number") for value in ("abc", "1" * 39)),
    string(""),
    {"DataType": "Binary", "BinaryValue": b""},
    {"DataType": "String", "BinaryValue": b"v"},
)
REFUSED_MESSAGES: Mapping[str, Sequence[dict[str, Any]]] = {
    "MissingParameter": [{"MessageBody": ""}],
    "InvalidMessageContents": [
        *({"MessageBody": text} for text in FORBIDDEN),
        with_attribute(string("\x01")),
    ],
    "InvalidParameterValue": [
        {"MessageBody": "x" * (MIB + 1)},
        {"MessageBody": "€" * (MIB // 3 + 1)},
        {"MessageBody": "x" * MIB, "MessageAttributes": attributes(1)},
        {"MessageBody": "x", "MessageAttributes": attributes(11)},
        *(with_attribute(string("v"), name) for name in BAD_NAMES),
        *(with_attribute(value) for value in BAD_VALUES),
        *({"MessageBody": "x", "DelaySeconds": seconds} for seconds in (-1, 901)),
        {"MessageBody": "x", "MessageDeduplicationId": "d"},
        {"MessageBody": "x", "MessageGroupId": "g" * 129},
    ],
}


@behaviour(API + "SendMessage.html")
def bad_message_is_refused_alone_and_fails_its_entry_of_a_batch(sqs: LocalSqs) -> None:
    queue = sqs.queue()
    for code, messages in REFUSED_MESSAGES.items():
        for message in messages:
            send = sqs.client.send_message
            assert refusal_code(send, QueueUrl=queue.url, **message) == code, message
            if len(message["MessageBody"]) < MIB // 3:
                sent, failed = queue.send_batch(message, {"MessageBody": "good"})
                assert (list(sent), failed) == (["1"], {"0": code}), message
                assert queue.take() == ["good"]


@behaviour(RECORDED + "test_sqs.snapshot.json")
def limit_of_the_queue_counts_attributes_and_fails_single_entries(sqs: LocalSqs) -> None:
    queue = sqs.queue(MaximumMessageSize=KIB)
    given = {"a": string("€")}
    longest = KIB - len("aString") - 3
    queue.send("x" * longest, MessageAttributes=given)
    sent, failed = queue.send_batch(
        {"MessageBody": "x" * (longest + 1), "MessageAttributes": given}, {"MessageBody": "ok"}
    )
    assert (list(sent), failed) == (["1"], {"0": "InvalidParameterValue"})


@behaviour(API + "SendMessageBatch.html")
def batch_above_one_mebibyte_is_refused_whole(sqs: LocalSqs) -> None:
    queue = sqs.queue()
    quarter = MIB // 4
    for entry in (
        {"MessageBody": "€" * (quarter // 3 + 1)},
        {"MessageBody": "x" * (quarter + 1)},
        with_attribute(string("x" * quarter)),
    ):
        assert refusal_code(queue.send_batch, *[entry] * 4) == "BatchRequestTooLong"
    assert queue.counts() == (0, 0, 0)


@behaviour(API + "SendMessageBatch.html", over_http=True)
def malformed_batches_have_their_own_codes(sqs: LocalSqs) -> None:
    queue = sqs.queue()

    def code(*ids: str) -> str:
        entries: Any = [{"Id": entry_id, "MessageBody": "x"} for entry_id in ids]
        return refusal_code(sqs.client.send_message_batch, QueueUrl=queue.url, Entries=entries)

    assert code(*(str(n) for n in range(11))) == "TooManyEntriesInBatchRequest"
    assert code() == "EmptyBatchRequest"
    assert code("1", "1") == "BatchEntryIdsNotDistinct"
    assert code("a:b") == "InvalidBatchEntryId"


@behaviour(GUIDE + "sqs-message-metadata.html", over_http=True)
def attributes_of_every_type_arrive_unchanged(sqs: LocalSqs) -> None:
    given = {
        **attributes(7),
        "text": string("späť 🎉"),
        "count": string("7", "Number.int"),
        "icon": {"DataType": "Binary.png", "BinaryValue": b"\x00\x01\xff"},
    }
    queue = sqs.queue()
    queue.send(MessageAttributes=given)
    assert queue.receive_one()["MessageAttributes"] == given
    sent = queue.send("späť 🎉")
    received = queue.receive_one()
    # Computed by another implementation.
    assert sent["MD5OfMessageBody"] == received["MD5OfBody"] == "96d4fdf3e0236f8f5bda9e2c1adb76f0"


@behaviour(API + "ReceiveMessage.html")
def receive_chooses_attributes_by_name_and_prefix(sqs: LocalSqs) -> None:
    queue = sqs.queue(VisibilityTimeout=0)
    queue.send(MessageAttributes={name: string("v") for name in ("foo.a", "foo.b", "bar")})

    def chosen(*names: str) -> list[str]:
        answer = sqs.client.receive_message(QueueUrl=queue.url, MessageAttributeNames=names)
        assert "Attributes" not in answer["Messages"][0]
        return sorted(answer["Messages"][0].get("MessageAttributes", {}))

    assert chosen() == []
    assert chosen("foo.*") == ["foo.a", "foo.b"]
    assert chosen("bar", "none") == ["bar"]
    assert chosen(".*") == chosen("All") == ["bar", "foo.a", "foo.b"]


@behaviour(API + "SendMessage.html")
def batch_without_a_group_is_refused_whole_and_a_duplicate_is_confirmed(sqs: LocalSqs) -> None:
    queue = sqs.fifo()
    whole = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "b"}
    assert refusal_code(queue.send_batch, {"MessageBody": "x"}, whole) == "InvalidParameterValue"
    assert queue.receive() == []
    sent, failed = queue.send_batch(whole, whole)
    assert (list(sent), failed) == (["0", "1"], {})
    assert queue.bodies() == ["x"]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_model_behaves_as_aws_says(sqs: LocalSqs, name: str) -> None:
    steps, source, _ = BEHAVIOURS[name]
    assert source.startswith("https://")
    steps(sqs)


@pytest.mark.parametrize("name", [name for name, row in BEHAVIOURS.items() if row[2]])
def test_server_behaves_as_the_model(served_sqs: LocalSqs, name: str) -> None:
    BEHAVIOURS[name][0](served_sqs)


STORIES = stored_texts("sqs")


@pytest.mark.parametrize("name", STORIES)
def test_model_answers_as_aws_says(sqs: LocalSqs, name: str) -> None:
    assert STORIES[name].startswith("https://")
    assert_stored("sqs", name, Story(sqs.client, sqs.model, sqs.clock).tell(STORIES[name]))


@pytest.mark.parametrize("name", [name for name, text in STORIES.items() if "over HTTP\n" in text])
def test_server_answers_as_the_model(served_sqs: LocalSqs, name: str) -> None:
    world = served_sqs
    assert_stored("sqs", name, Story(world.client, world.model, world.clock).tell(STORIES[name]))
