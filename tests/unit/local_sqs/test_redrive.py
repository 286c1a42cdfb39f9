"""The move to a dead-letter queue. SQSDeveloperGuide, "Using dead-letter queues"."""

import pytest

from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, QueueDriver, redrive_policy, refusal_code, string
from local_sqs.model import SqsModel, Switches

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def pair(sqs: Driver, max_receive_count: int) -> tuple[QueueDriver, QueueDriver]:
    """A main queue without a visibility timeout, and its dead-letter queue."""
    dlq = sqs.queue()
    policy = redrive_policy(dlq, max_receive_count)
    return sqs.queue(RedrivePolicy=policy, VisibilityTimeout=0), dlq


def test_move_happens_at_the_receive_after_the_last(sqs: Driver, clock: VirtualClock) -> None:
    main, dlq = pair(sqs, 2)
    main.send()
    assert [len(main.receive()), len(main.receive())] == [1, 1]
    clock.advance(3600)
    assert dlq.receive() == []

    assert main.receive() == []
    assert len(dlq.receive()) == 1


def test_moved_message_is_the_same(sqs: Driver, clock: VirtualClock) -> None:
    main, dlq = pair(sqs, 1)
    sent = main.send(
        "body",
        MessageAttributes={"a": string("v", "String.custom")},
        MessageGroupId="tenant",
        MessageSystemAttributes={"AWSTraceHeader": string(TRACE)},
    )
    first = main.receive_one()
    clock.advance(5)
    main.receive()
    letter = dlq.receive_one()

    system = letter["Attributes"]
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Body"] == "body"
    assert letter["MessageAttributes"] == first["MessageAttributes"]
    assert system["AWSTraceHeader"] == TRACE
    assert system["MessageGroupId"] == "tenant"
    assert system["SentTimestamp"] == first["Attributes"]["SentTimestamp"]
    assert system["DeadLetterQueueSourceArn"] == main.arn
    assert system["ApproximateReceiveCount"] == "2"


def test_same_receive_goes_on_to_the_next_message(sqs: Driver) -> None:
    main, dlq = pair(sqs, 1)
    main.send("poison")
    main.receive()
    main.send("good")

    assert main.bodies(1) == ["good"]
    assert dlq.bodies() == ["poison"]


def test_group_goes_on_after_a_move(sqs: Driver, clock: VirtualClock) -> None:
    dlq = sqs.fifo()
    main = sqs.fifo(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=30)
    main.send_fifo("m0")
    main.send_fifo("m1")
    assert main.bodies(1) == ["m0"]
    clock.advance(30)

    assert main.bodies(1) == ["m1"]
    assert dlq.bodies() == ["m0"]


def test_letters_of_a_group_keep_their_order(sqs: Driver) -> None:
    dlq = sqs.fifo()
    main = sqs.fifo(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    bodies = [f"m{n}" for n in range(5)]
    for body in bodies:
        main.send_fifo(body)
    main.receive()
    main.receive()

    assert dlq.bodies() == bodies


@pytest.mark.parametrize(("is_cumulative", "deliveries"), [(True, 0), (False, 3)])
def test_second_policy_counts_as_the_switch_says(*, is_cumulative: bool, deliveries: int) -> None:
    switches = Switches(counts_receives_of_all_queues=is_cumulative)
    sqs = Driver(client_for(SqsModel(switches=switches)))
    parked = sqs.queue()
    dlq = sqs.queue(RedrivePolicy=redrive_policy(parked, 3), VisibilityTimeout=0)
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 5), VisibilityTimeout=0)
    main.send()
    for _ in range(6):
        main.receive()
    received = sum(len(dlq.receive()) for _ in range(5))

    assert received == deliveries
    assert len(parked.receive()) == 1


def test_message_stays_where_the_target_is_gone(sqs: Driver) -> None:
    main, dlq = pair(sqs, 1)
    main.send()
    main.receive()
    sqs.client.delete_queue(QueueUrl=dlq.url)

    assert len(main.receive()) == 1


@pytest.mark.parametrize("count", [0, 1001])
def test_receive_count_out_of_range_is_refused(sqs: Driver, count: int) -> None:
    policy = redrive_policy(sqs.queue(), count)

    assert refusal_code(sqs.queue, RedrivePolicy=policy) == "InvalidParameterValue"


def test_target_must_exist_and_be_alike(sqs: Driver) -> None:
    target = sqs.queue()
    policy = redrive_policy(target, 3)

    assert refusal_code(sqs.fifo, RedrivePolicy=policy) == "InvalidParameterValue"
    sqs.client.delete_queue(QueueUrl=target.url)
    assert refusal_code(sqs.queue, RedrivePolicy=policy) == "NonExistentQueue"


def test_target_may_deny_its_sources(sqs: Driver) -> None:
    target = sqs.queue(RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    policy = redrive_policy(target, 3)
    main = sqs.queue()

    assert refusal_code(sqs.queue, RedrivePolicy=policy) == "InvalidParameterValue"
    assert refusal_code(main.set, RedrivePolicy=policy) == "InvalidParameterValue"


def test_empty_policy_takes_it_away(sqs: Driver) -> None:
    main, dlq = pair(sqs, 1)
    main.set(RedrivePolicy="")
    answer = sqs.client.list_dead_letter_source_queues(QueueUrl=dlq.url)

    assert answer["queueUrls"] == []
