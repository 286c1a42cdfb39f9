"""Queues as such: names, attributes, deletion, purges, pages, move tasks."""

import pytest

from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, QueueDriver, redrive_policy, refusal_code
from local_sqs.front import Front
from local_sqs.model import SqsModel, Switches


def create(sqs: Driver, name: str, **attributes: str) -> str:
    """The code of refusal, empty if the queue was created."""
    return refusal_code(sqs.client.create_queue, QueueName=name, Attributes=attributes)


@pytest.mark.parametrize(
    ("name", "attributes", "code"),
    [
        ("q" * 81, {}, "InvalidParameterValue"),
        ("a.b", {}, "InvalidParameterValue"),
        ("a", {"FifoQueue": "true"}, "InvalidParameterValue"),
        ("a.fifo", {}, "InvalidParameterValue"),
        ("a", {"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ("a", {"Bogus": "1"}, "InvalidAttributeName"),
        ("a", {"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ("a", {"DelaySeconds": "901"}, "InvalidAttributeValue"),
        ("a", {"MessageRetentionPeriod": "59"}, "InvalidAttributeValue"),
        ("a", {"MessageRetentionPeriod": "1209601"}, "InvalidAttributeValue"),
        ("a", {"MaximumMessageSize": "1048577"}, "InvalidAttributeValue"),
        ("a", {"RedrivePolicy": "{}"}, "InvalidParameterValue"),
        ("a", {"RedriveAllowPolicy": "[]"}, "InvalidParameterValue"),
    ],
)
def test_unacceptable_queue_is_refused(
    sqs: Driver, name: str, attributes: dict[str, str], code: str
) -> None:
    assert create(sqs, name, **attributes) == code


def test_creation_is_idempotent_for_equal_attributes(sqs: Driver) -> None:
    assert sqs.queue("a", VisibilityTimeout=11) == sqs.queue("a", VisibilityTimeout=11)
    assert sqs.queue("a").url.endswith("/123456789012/a")
    assert create(sqs, "a", VisibilityTimeout="12") == "QueueAlreadyExists"


def test_deleted_name_is_free_after_a_minute(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue("a")
    queue.send()
    sqs.client.delete_queue(QueueUrl=queue.url)
    assert refusal_code(queue.send) == "NonExistentQueue"
    assert create(sqs, "a") == "QueueDeletedRecently"

    clock.advance(60)
    assert sqs.queue("a").receive() == []


def test_purge_empties_once_a_minute(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send()
    queue.receive()
    queue.send(DelaySeconds=60)
    sqs.client.purge_queue(QueueUrl=queue.url)
    assert queue.counts() == (0, 0, 0)
    assert refusal_code(sqs.client.purge_queue, QueueUrl=queue.url) == "PurgeQueueInProgress"

    clock.advance(60)
    sqs.client.purge_queue(QueueUrl=queue.url)


def test_queue_of_another_account_does_not_exist(sqs: Driver) -> None:
    queue = sqs.queue("a")
    foreign = QueueDriver(sqs.client, queue.url.replace("123456789012", "999999999999"))

    assert refusal_code(foreign.send) == "NonExistentQueue"


def test_queues_are_listed_in_pages(sqs: Driver) -> None:
    for number in range(5):
        sqs.queue(f"p-{number}")
    sqs.queue("other")
    pages = sqs.client.get_paginator("list_queues").paginate(
        QueueNamePrefix="p-", PaginationConfig={"PageSize": 2}
    )

    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]


def test_tags_are_kept_and_removed(sqs: Driver) -> None:
    queue = sqs.queue()
    sqs.client.tag_queue(QueueUrl=queue.url, Tags={"a": "1", "b": "2"})
    sqs.client.untag_queue(QueueUrl=queue.url, TagKeys=["a"])

    assert sqs.client.list_queue_tags(QueueUrl=queue.url)["Tags"] == {"b": "2"}


def test_move_task_keeps_its_rate(sqs: Driver, front: Front, clock: VirtualClock) -> None:
    dlq, target = sqs.queue(), sqs.queue()
    sqs.queue(RedrivePolicy=redrive_policy(dlq, 1))
    dlq.send_batch(*({"MessageBody": str(n)} for n in range(8)))
    handle = sqs.client.start_message_move_task(
        SourceArn=dlq.arn, DestinationArn=target.arn, MaxNumberOfMessagesPerSecond=2
    )["TaskHandle"]
    assert front.model.next_event_ms() == clock.now_ms() + 500
    clock.advance(2)
    assert target.counts()[0] == 4

    moved = sqs.client.cancel_message_move_task(TaskHandle=handle)
    clock.advance(60)
    (task,) = sqs.client.list_message_move_tasks(SourceArn=dlq.arn)["Results"]
    assert moved["ApproximateNumberOfMessagesMoved"] == 4
    assert task["Status"] == "CANCELLED"
    assert (dlq.counts()[0], target.counts()[0]) == (4, 4)


def test_move_task_fails_without_a_source(sqs: Driver) -> None:
    dlq = sqs.queue()
    sqs.queue(RedrivePolicy=redrive_policy(dlq, 1))
    dlq.send("sent here by someone")
    sqs.client.start_message_move_task(SourceArn=dlq.arn)
    (task,) = sqs.client.list_message_move_tasks(SourceArn=dlq.arn)["Results"]

    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert dlq.counts()[0] == 1


def test_counts_lag_behind_where_they_should(clock: VirtualClock) -> None:
    model = SqsModel(clock, switches=Switches(counts_lag_seconds=60))
    queue = Driver(client_for(model)).queue("q", VisibilityTimeout=300)
    queue.send("x")

    clock.advance(59)
    assert queue.counts()[0] == 0
    clock.advance(1)
    assert queue.counts()[0] == 1
    queue.receive()
    clock.advance(59)
    assert queue.counts()[0] == 1
    clock.advance(1)
    assert queue.counts()[0] == 0
