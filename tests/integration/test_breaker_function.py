"""The handler with breaker and counters of returns, against servers for SQS and DynamoDB."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config

from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.replaying.returns import Returns
from dlq_replay.rules.outgoing import redriven_entry
from dlq_replay.wire.addresses import QueueAddress
from functions.replay import handler
from local_sqs.server import serve_in_thread
from tests.integration.conftest import Capture
from tests.support.builders import message
from tests.support.replay_stack import ReplayStack, invoke, moved
from tests.support.sqs_driver import receive_all


@pytest.fixture
def stack(
    moto_endpoint: str, failure_table: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ReplayStack]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
    # The servers of the tests are slower than AWS's.
    monkeypatch.setattr(handler, "breaker_client_config", lambda: Config(read_timeout=20))
    with (
        serve_in_thread() as served,
        ReplayStack.at(served.url, FAILURE_TABLE=failure_table).wired() as stack,
    ):
        yield stack


def test_a_limit_in_the_table_holds_what_comes_next(
    stack: ReplayStack, dynamodb: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is deleted by anybody, and 30 replays come back."""
    silent = dict.fromkeys(range(int(time.time()) // 60 - 9, int(time.time()) // 60), 0)
    monkeypatch.setattr(handler, "read_deletions", lambda *_: silent)
    assert invoke(*(moved(f"m-{index}") for index in range(30))) == set()
    returned = receive_all(stack.main)
    assert len(returned) == 30
    time.sleep(1)
    again = [moved(one.body, attributes=one.attributes) for one in returned]
    assert invoke(*again) == set()

    key = {"message_id": {"S": f"breaker#{stack.main.url.rpartition('/')[2]}"}}
    answer = dynamodb.get_item(TableName=stack.environment["FAILURE_TABLE"], Key=key)
    item = {name: value["N"] for name, value in answer["Item"].items() if "N" in value}
    assert item["limit"] == "1"
    assert {item[name] for name in item if name[0] in "nb" and name[1:].isdigit()} == {"30"}

    receive_all(stack.main)
    assert invoke(moved("one"), moved("two")) == set()
    assert len(receive_all(stack.main)) == 1
    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], emf["HeldByBreaker"]) == ([1.0], [1.0])


def test_what_comes_back_of_a_redrive_is_counted_and_a_canary_goes_no_further(
    stack: ReplayStack, dynamodb: Any
) -> None:
    name = stack.environment["FAILURE_TABLE"]
    table = ReturnsTable(dynamodb, name, lambda: int(time.time()))
    table.begin("plan", ["group"])
    archived = [message(name, name) for name in ("plain", "canary")]
    to = QueueAddress.from_url(stack.main.url)
    sent = [
        redriven_entry(one, "plan", to, group_id="group", is_canary=one.body == "canary")
        for one in archived
    ]
    assert invoke(*(moved(copy.body, attributes=copy.attributes) for copy in sent)) == set()

    [replayed], [parked] = receive_all(stack.main), receive_all(stack.parked)
    assert (replayed.body, replayed.history.context.is_back) == ("plain", True)
    assert (parked.body, parked.history.context.reason) == ("canary", "redrive_step")
    both, canary = frozenset({"plain", "canary"}), frozenset({"canary"})
    assert table.read("plan", ["group"]) == {"group": Returns(2, 1, both, canary)}
