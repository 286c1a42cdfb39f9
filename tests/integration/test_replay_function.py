"""The handler against an SQS server over HTTP, as Lambda would call it."""

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dlq_replay.aws import wiring
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.replaying.returns import Returns
from dlq_replay.rules.breaker import Update
from dlq_replay.rules.outgoing import redriven_entry
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry
from local_sqs.server import serve_in_thread
from tests.integration.conftest import Capture
from tests.support.builders import counter, message, queue_arn
from tests.support.replay_stack import ReplayStack, invoke, moved
from tests.support.sqs_driver import Driver, name_of, receive_all


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serve_in_thread() as served:
        yield served.url


@pytest.fixture
def stack(endpoint: str) -> Iterator[ReplayStack]:
    with ReplayStack.at(endpoint).wired() as stack:
        yield stack


@pytest.mark.usefixtures("stack")
def test_the_function_draws_waits_with_full_jitter() -> None:
    assert {wiring.wiring().current_replayer().draw_up_to(3) for _ in range(500)} == {0, 1, 2, 3}


def put_in_dlq(
    stack: ReplayStack, sources: Mapping[str, str | None], *, is_fifo: bool
) -> list[Message]:
    """Put messages into the DLQ.

    Args:
        stack: whose DLQ.
        sources: by the body, the ARN of the queue from which SQS moved it, if it did.
        is_fifo: each message is in a message group of its own.
    """
    entries = []
    for number, body in enumerate(sources):
        fifo: dict[str, Any] = {}
        if is_fifo:
            group_id = body[:9].replace(" ", "-")
            fifo = {"message_group_id": group_id, "deduplication_id": str(number)}
        entries.append(SendEntry(body, **fifo))

    letters = []
    for letter in stack.put_in_dlq(*entries):
        source = sources[letter.body]
        moved_from = {"DeadLetterQueueSourceArn": source} if source else {}
        letters.append(replace(letter, system={**letter.system, **moved_from}))
    return letters


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_each_message_goes_back_to_its_own_main_queue(endpoint: str, suffix: str) -> None:
    """With that queue's own limits; a queue that is not configured is foreign."""
    queue = Driver(boto3.client("sqs", endpoint_url=endpoint)).queue(
        f"invoices-{uuid.uuid4().hex[:8]}{suffix}", MaximumMessageSize=1024
    )
    stack = ReplayStack.at(endpoint, suffix, OTHER_MAIN_QUEUE_ARNS=queue.arn)
    main_arn = stack.main.describe()["QueueArn"]
    sources = {
        "ours": main_arn,
        "theirs": queue.arn,
        "x" * 1100: queue.arn,
        "y" * 1100: main_arn,
        "unknown": queue.arn.replace("invoices", "payments"),
        "of nobody": None,
    }
    letters = put_in_dlq(stack, sources, is_fifo=bool(suffix))

    with stack.wired():
        assert invoke(*letters) == set()

    assert sorted(message.body for message in receive_all(stack.main)) == ["ours", "y" * 1100]
    assert queue.take() == ["theirs"]
    contexts = {}
    for parked in receive_all(stack.parked):
        context = parked.history.context
        contexts[parked.body[:9]] = (context.reason, context.source_queue)
    assert contexts == {
        "x" * 9: ("no_room", queue.name),
        "unknown": ("foreign_source", queue.name.replace("invoices", "payments")),
        "of nobody": ("foreign_source", None),
    }


COUNTER_BYTES = len(REPLAY_COUNT_ATTRIBUTE + "Number" + "1")


@pytest.mark.parametrize("limit_bytes", [1024, 1_048_576])
def test_queue_limit_is_read_and_kept_to_the_byte(stack: ReplayStack, limit_bytes: int) -> None:
    """The context gives way first; what has no room for its counter is parked as it came."""
    stack.main.client.set_queue_attributes(
        QueueUrl=stack.main.url, Attributes={"MaximumMessageSize": str(limit_bytes)}
    )
    longest = limit_bytes - COUNTER_BYTES
    (fits,) = stack.put_in_dlq(SendEntry("x" * longest))
    (does_not,) = stack.put_in_dlq(SendEntry("y" * (longest + 1)))
    outcome = invoke(fits, does_not)

    (copy,) = receive_all(stack.main)
    (parked,) = receive_all(stack.parked)
    assert outcome == set()
    assert (copy.body, set(copy.attributes)) == (fits.body, {REPLAY_COUNT_ATTRIBUTE})
    assert parked.body == does_not.body


@pytest.mark.parametrize(
    ("name", "value"), [("MAIN_QUEUE_URL", None), ("AWS_ENDPOINT_URL", "http://127.0.0.1:9")]
)
def test_main_queue_that_cannot_be_reached_keeps_every_letter(
    stack: ReplayStack, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    letters = stack.put_in_dlq(SendEntry("a"), SendEntry("b"))
    monkeypatch.setenv(name, value or f"{stack.main.url}-missing")

    assert invoke(*letters) == {letter.message_id for letter in letters}


def test_queue_urls_may_have_a_path_prefix(
    stack: ReplayStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = stack.put_in_dlq(SendEntry("a"), SendEntry("b", counter("3")))
    for name in ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL"):
        base, account, queue = os.environ[name].rsplit("/", 2)
        monkeypatch.setenv(name, f"{base}/queue/us-east-1/{account}/{queue}")
    main = name_of(stack.main)
    system = {**letters[0].system, "DeadLetterQueueSourceArn": queue_arn(main)}

    assert invoke(replace(letters[0], system=system), letters[1]) == set()
    assert [message.body for message in receive_all(stack.main)] == ["a"]
    (parked,) = receive_all(stack.parked)
    assert parked.history.context.source_queue == main


# --- With breaker and counters of returns


@pytest.fixture
def table_stack(
    endpoint: str, moto_endpoint: str, failure_table: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ReplayStack]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
    # The servers of the tests are slower than AWS's.
    monkeypatch.setattr(wiring, "breaker_client_config", lambda: Config(read_timeout=20))
    with ReplayStack.at(endpoint, FAILURE_TABLE=failure_table).wired() as stack:
        yield stack


def test_a_limit_in_the_table_holds_what_comes_next(
    table_stack: ReplayStack, dynamodb: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is deleted, messages failed some minutes ago, and 30 replays fail again."""
    minute = int(time.time()) // 60
    silent = dict.fromkeys(range(minute - 120, minute), 0)
    monkeypatch.setattr(wiring, "read_deletions", lambda *_: silent)
    table = table_stack.environment["FAILURE_TABLE"]
    queue = name_of(table_stack.main)
    failed = {f"n{earlier}": 30 for earlier in range(minute - 9, minute - 2)}
    DynamoDbBreaker(dynamodb, table, queue, lambda: minute * 60).update(Update(put=failed))
    assert invoke(*(moved(f"m-{index}") for index in range(30))) == set()
    returned = receive_all(table_stack.main)
    assert len(returned) == 30
    time.sleep(1)
    again = [moved(message.body, attributes=message.attributes) for message in returned]
    assert invoke(*again) == set()

    key = {"message_id": {"S": f"breaker#{queue}"}}
    answer = dynamodb.get_item(TableName=table, Key=key)
    numbers = {name: value["N"] for name, value in answer["Item"].items() if "N" in value}
    assert numbers["limit"] == "1"
    of_minutes = [name for name in numbers if name[0] in "nb" and name[1:].isdigit()]
    assert {numbers[name] for name in of_minutes} == {"30"}

    receive_all(table_stack.main)
    assert invoke(moved("one"), moved("two")) == set()
    assert len(receive_all(table_stack.main)) == 1
    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], emf["HeldByBreaker"]) == ([1.0], [1.0])


def test_what_comes_back_of_a_redrive_is_counted_and_a_message_of_a_step_goes_no_further(
    table_stack: ReplayStack, dynamodb: Any
) -> None:
    name = table_stack.environment["FAILURE_TABLE"]
    table = ReturnsTable(dynamodb, name, lambda: int(time.time()))
    table.begin("plan", ["group"])
    archived = [message(name, name) for name in ("plain", "step")]
    to = QueueAddress.from_url(table_stack.main.url)
    letters = []
    for letter in archived:
        in_step = letter.body == "step"
        copy = redriven_entry(letter, "plan", to, group_id="group", in_step=in_step)
        letters.append(moved(copy.body, attributes=copy.attributes))
    assert invoke(*letters) == set()

    [replayed] = receive_all(table_stack.main)
    [parked] = receive_all(table_stack.parked)
    assert (replayed.body, replayed.history.context.is_back) == ("plain", True)
    assert (parked.body, parked.history.context.reason) == ("step", "redrive_step")
    both = frozenset({"plain", "step"})
    step = frozenset({"step"})
    assert table.read("plan", ["group"]) == {"group": Returns(2, 1, both, step)}
