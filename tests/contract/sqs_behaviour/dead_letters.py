"""Redrive policies and move tasks."""

import time

from local_sqs.driver import Driver, redrive_policy, refusal_code, string


def message_moves_at_the_receive_after_the_last(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 2), VisibilityTimeout=0)
    sent = main.send()
    assert [len(main.receive()), len(main.receive())] == [1, 1]
    assert dlq.receive() == []
    assert main.receive() == []
    assert dlq.receive_one(wait=2)["MessageId"] == sent["MessageId"]


def moved_message_names_its_source(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    main.send()
    main.receive()
    main.receive()
    assert dlq.receive_one(wait=2)["Attributes"]["DeadLetterQueueSourceArn"] == main.arn


def moved_message_keeps_time_body_and_attributes(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    main.send("body", MessageAttributes={"a": string("v")})
    first = main.receive_one()
    time.sleep(0.1)
    main.receive()
    letter = dlq.receive_one(wait=2)
    for name in ("Body", "MessageAttributes"):
        assert letter[name] == first[name]
    assert letter["Attributes"]["SentTimestamp"] == first["Attributes"]["SentTimestamp"]


def next_message_comes_in_the_same_receive(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    main.send("poison")
    main.receive()
    main.send("good")
    assert main.bodies(wait=1) == ["good"]
    assert dlq.bodies(wait=2) == ["poison"]


def receive_count_has_its_range(sqs: Driver) -> None:
    dlq = sqs.queue()
    policies = [redrive_policy(dlq, count) for count in (0, 1001)]
    codes = [refusal_code(sqs.queue, RedrivePolicy=policy) for policy in policies]
    assert codes == ["InvalidParameterValue"] * 2


def dead_letter_queue_is_of_the_same_type(sqs: Driver) -> None:
    assert refusal_code(sqs.fifo, RedrivePolicy=redrive_policy(sqs.queue(), 3))


def dead_letter_queue_may_deny_its_sources(sqs: Driver) -> None:
    dlq = sqs.queue(RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    assert refusal_code(sqs.queue, RedrivePolicy=redrive_policy(dlq, 2))


def group_goes_on_after_a_move(sqs: Driver) -> None:
    dlq = sqs.fifo()
    main = sqs.fifo(VisibilityTimeout=1, RedrivePolicy=redrive_policy(dlq, 1))
    main.send_fifo("m0")
    main.send_fifo("m1")
    assert main.bodies(1) == ["m0"]
    time.sleep(1.2)
    assert main.bodies(1, wait=3) == ["m1"]
    assert dlq.bodies(wait=2) == ["m0"]


def move_replaces_the_deduplication_id(sqs: Driver) -> None:
    dlq = sqs.fifo()
    main = sqs.fifo(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    sent = main.send_fifo("x", deduplication="producer's")
    main.receive()
    main.receive()
    system = dlq.receive_one(wait=2)["Attributes"]
    assert system["MessageDeduplicationId"] == sent["MessageId"]


def sources_of_a_dead_letter_queue_are_listed(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 2))
    answer = sqs.client.list_dead_letter_source_queues(QueueUrl=dlq.url)
    assert [url.rpartition("/")[2] for url in answer["queueUrls"]] == [main.name]


def move_task_sends_letters_back_as_new_messages(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    sent = main.send()
    main.receive()
    main.receive()
    sqs.client.start_message_move_task(SourceArn=dlq.arn)
    assert main.receive_one(wait=5)["MessageId"] != sent["MessageId"]


def move_task_needs_a_dead_letter_queue(sqs: Driver) -> None:
    arn = sqs.queue().arn
    start = sqs.client.start_message_move_task
    assert refusal_code(start, SourceArn=arn) == "InvalidParameterValue"
    assert refusal_code(start, SourceArn=arn + "x") == "ResourceNotFoundException"
