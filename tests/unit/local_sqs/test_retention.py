"""How long messages stay, days at a time. SQSDeveloperGuide, "setting up DLQ retention"."""

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, QueueDriver, redrive_policy

DAY = 86_400


def fail_once(queue: QueueDriver) -> None:
    """Make the only message of a queue with maxReceiveCount 1 move on."""
    queue.receive(VisibilityTimeout=0)
    assert queue.receive() == []


def test_message_expires_at_the_retention_period(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(MessageRetentionPeriod=14 * DAY)
    queue.send()
    clock.advance(14 * DAY - 0.001)
    assert queue.counts() == (1, 0, 0)

    clock.advance(0.001)
    assert queue.counts() == (0, 0, 0)


def test_receives_do_not_prolong_a_message(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(MessageRetentionPeriod=60, VisibilityTimeout=25)
    queue.send()
    for _ in range(2):
        queue.receive_one()
        clock.advance(25)
    queue.receive_one()
    clock.advance(10)

    assert queue.counts() == (0, 0, 0)


def test_standard_retention_runs_on_through_a_move(sqs: Driver, clock: VirtualClock) -> None:
    dlq = sqs.queue(MessageRetentionPeriod=14 * DAY)
    main = sqs.queue(
        MessageRetentionPeriod=14 * DAY, RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0
    )
    sent = main.send()
    sent_ms = str(clock.now_ms())
    clock.advance(13 * DAY)
    fail_once(main)
    letter = dlq.receive_one(VisibilityTimeout=0)
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Attributes"]["SentTimestamp"] == sent_ms

    clock.advance(DAY)
    assert dlq.receive() == []


def test_message_older_than_the_dlq_keeps_is_lost(sqs: Driver, clock: VirtualClock) -> None:
    dlq = sqs.queue(MessageRetentionPeriod=DAY)
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    main.send()
    clock.advance(2 * DAY)
    fail_once(main)

    assert dlq.receive() == []


def test_fifo_retention_starts_anew_at_a_move(sqs: Driver, clock: VirtualClock) -> None:
    dlq = sqs.fifo(MessageRetentionPeriod=14 * DAY)
    main = sqs.fifo(RedrivePolicy=redrive_policy(dlq, 1), MessageRetentionPeriod=14 * DAY)
    main.send_fifo("x")
    clock.advance(13 * DAY)
    fail_once(main)
    moved_ms = str(clock.now_ms())
    letter = dlq.receive_one(VisibilityTimeout=0)
    assert letter["Attributes"]["SentTimestamp"] == moved_ms

    clock.advance(14 * DAY - 1)
    assert len(dlq.receive(VisibilityTimeout=0)) == 1
    clock.advance(1)
    assert dlq.receive() == []


def test_shorter_retention_expires_what_is_there(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send("old")
    clock.advance(100)
    queue.send("young")
    queue.set(MessageRetentionPeriod=60)

    assert queue.bodies() == ["young"]


def test_message_in_flight_expires_too(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(MessageRetentionPeriod=60)
    queue.send()
    message = queue.receive_one(VisibilityTimeout=3600)
    clock.advance(60)

    assert queue.counts() == (0, 0, 0)
    queue.delete(message)
