"""The functions of a fleet against an SQS server over HTTP, as Lambda would call them."""

import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from dlq_replay.aws import wiring
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.errors import MalformedEventError, QueueError
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import SendEntry
from functions.replay import handler, sweep
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.builders import environment, lambda_record
from tests.support.replay_stack import Invocation
from tests.support.sqs_driver import Driver, QueueDriver, receive_all, redrive_policy

TAG = {"dlq-replay": "all"}


@dataclass
class FleetStack:
    """A served fleet; ``mapped`` are the names of queues that an event source mapping reads."""

    server: RunningServer
    driver: Driver
    parked: QueueDriver
    mapped: list[str]

    def member(self, name: str, dlq: QueueDriver | None = None) -> tuple[QueueDriver, QueueDriver]:
        """Create a main queue and, without *dlq*, its DLQ, both with the tag; return both."""
        suffix = f"-{uuid.uuid4().hex[:6]}"
        dlq = dlq or self.driver.queue(f"{name}-dlq{suffix}")
        main = self.driver.queue(name + suffix, RedrivePolicy=redrive_policy(dlq, 1))
        for queue in (main, dlq):
            self.driver.client.tag_queue(QueueUrl=queue.url, Tags=TAG)
        return main, dlq

    def fail(self, main: QueueDriver, *bodies: str) -> None:
        """Send messages to a main queue, and let SQS move them to its DLQ."""
        queue = self.queue(main)
        for body in bodies:
            queue.send([SendEntry(body)])
        for _ in range(2):
            for received in queue.receive(wait_seconds=0, visibility_timeout_seconds=0):
                del received

    def queue(self, driven: QueueDriver) -> SqsQueue:
        return SqsQueue(self.driver.client, driven.url)

    def bodies(self, driven: QueueDriver) -> list[str]:
        return sorted(message.body for message in receive_all(self.queue(driven)))

    def waiting(self, driven: QueueDriver) -> int:
        return len(self.server.model.find(driven.url).messages())


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetStack]:
    with serve_in_thread() as server:
        driver = Driver(boto3.client("sqs", endpoint_url=server.url))
        parked = driver.queue("parked")
        stack = FleetStack(server, driver, parked, [])
        variables = environment(
            AWS_ENDPOINT_URL=server.url,
            AWS_DEFAULT_REGION="us-east-1",
            QUEUE_TAG="all",
            PARKED_QUEUE_URL=parked.url,
            BACKOFF_CAP_SECONDS="0",
            MAX_ATTEMPTS="1",
        )
        for name, value in variables.items():
            is_of_one_queue = name in {"MAIN_QUEUE_URL", "DLQ_URL"}
            monkeypatch.setenv(name, "" if is_of_one_queue else value)

        def list_mapped(_: object) -> frozenset[Any]:
            return frozenset(QueueAddress("123456789012", name) for name in stack.mapped)

        monkeypatch.setattr("dlq_replay.aws.fleet_directory.list_mapped_queues", list_mapped)
        wiring.wired_fleet.cache_clear()
        yield stack
        wiring.wired_fleet.cache_clear()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(sweep.logger.registered_handler, "stream", stream)
    return stream


def swept(milliseconds: int = 58_000) -> None:
    sweep.lambda_handler({}, Invocation(milliseconds))


def metrics_of(text: str) -> list[dict[str, Any]]:
    """The lines of metrics, without what every one has."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        del line["_aws"]
        assert line.pop("service") == "sqs-dlq-replay"
    return lines


def test_a_sweep_replays_to_each_source_and_parks_what_failed_again(
    fleet: FleetStack, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, orders_dlq = fleet.member("orders")
    invoices, invoices_dlq = fleet.member("invoices")
    fleet.member("idle")
    fleet.fail(orders, "o-1", "o-2")
    fleet.fail(invoices, "i-1")

    swept()
    metrics = metrics_of(capsys.readouterr().out)
    assert (fleet.waiting(orders_dlq), fleet.waiting(invoices_dlq)) == (0, 0)
    assert fleet.waiting(orders) == 2
    assert fleet.waiting(invoices) == 1
    # For all members together, and for the queues that had messages alone.
    assert {line.get("MainQueue", line.get("QueueTag")) for line in metrics} == {
        "all",
        orders.name,
        invoices.name,
    }
    arrived = [line["ArrivedTotal"] for line in metrics if "QueueTag" in line]
    assert sum(count for (count,) in arrived) == 3
    assert "o-1" not in log.getvalue()
    assert orders_dlq.name in log.getvalue()

    fleet.fail(orders)
    swept()
    assert fleet.bodies(fleet.parked) == ["o-1", "o-2"]


def test_a_sweep_that_finds_nothing_writes_nothing(
    fleet: FleetStack, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.member("idle")
    swept()
    assert (capsys.readouterr().out, log.getvalue()) == ("", "")


def test_what_has_no_tag_stays_and_what_cannot_be_read_is_counted(
    fleet: FleetStack, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, dlq = fleet.member("orders")
    others, _ = fleet.member("others", dlq)
    fleet.driver.client.untag_queue(QueueUrl=others.url, TagKeys=["dlq-replay"])
    fleet.fail(orders, "o-1")
    fleet.fail(others, "x-1")
    _, denied = fleet.member("denied")
    refused = Fault(Effect.REFUSE, "ReceiveMessage", queue=denied.name, code="AccessDenied")
    fleet.server.front.faults.add(refused)

    swept()
    metrics = metrics_of(capsys.readouterr().out)

    assert fleet.bodies(orders) == ["o-1"]
    assert fleet.waiting(dlq) == 1
    assert f"its source {others.name} has no tag" in log.getvalue()
    assert [line["StuckQueues"] for line in metrics if "StuckQueues" in line] == [[1]]
    assert sum(line["FailedTotal"][0] for line in metrics if "FailedTotal" in line) == 1


def test_a_queue_with_a_mapping_is_left_to_it(fleet: FleetStack) -> None:
    hot, hot_dlq = fleet.member("hot")
    fleet.mapped.append(hot_dlq.name)
    fleet.fail(hot, "h-1")
    swept()
    assert fleet.waiting(hot_dlq) == 1

    (letter,) = receive_all(fleet.queue(hot_dlq))
    answer = handler.lambda_handler(
        {"Records": [lambda_record(letter, hot_dlq.name)]}, Invocation()
    )
    assert answer == {"batchItemFailures": []}
    assert fleet.bodies(hot) == ["h-1"]


def test_a_batch_of_a_queue_without_the_tag_stays_whole(fleet: FleetStack) -> None:
    main, dlq = fleet.member("orders")
    fleet.driver.client.untag_queue(QueueUrl=dlq.url, TagKeys=["dlq-replay"])
    fleet.fail(main, "o-1")
    (letter,) = receive_all(fleet.queue(dlq))

    answer = handler.lambda_handler({"Records": [lambda_record(letter, dlq.name)]}, Invocation())
    assert answer == {"batchItemFailures": [{"itemIdentifier": letter.message_id}]}


def test_an_event_that_does_not_name_one_queue_fails_as_a_whole(fleet: FleetStack) -> None:
    main, dlq = fleet.member("orders")
    fleet.fail(main, "o-1", "o-2")
    first, second = receive_all(fleet.queue(dlq))
    records = [lambda_record(first, dlq.name), lambda_record(second, "other-dlq")]
    with pytest.raises(MalformedEventError, match="eventSourceARN"):
        handler.lambda_handler({"Records": records}, Invocation())
    assert handler.lambda_handler({"Records": []}, Invocation()) == {"batchItemFailures": []}


def test_a_sweep_that_cannot_say_who_is_a_member_fails(fleet: FleetStack) -> None:
    main, dlq = fleet.member("orders")
    fleet.fail(main, "o-1")
    fleet.server.front.faults.add(
        Fault(Effect.REFUSE, "GetResources", code="AccessDeniedException")
    )
    with pytest.raises(QueueError, match="dlq-replay=all: AccessDenied"):
        swept()
    assert fleet.waiting(dlq) == 1
    assert not fleet.server.front.log.count("ReceiveMessage", dlq.name)
