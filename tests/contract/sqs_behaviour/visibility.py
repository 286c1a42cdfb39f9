"""Messages in flight."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from local_sqs.driver import Driver, refusal, refusal_code

TWELVE_HOURS = 43_200


def timeout_brings_the_message_back(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=6)
    queue.send()
    first = queue.receive_one()
    assert queue.receive() == []
    second = queue.receive_one(wait=15)
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    assert second["ReceiptHandle"] != first["ReceiptHandle"]


def receive_may_choose_its_timeout(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=600)
    queue.send()
    queue.receive_one(VisibilityTimeout=1)
    queue.receive_one(wait=5)


def change_counts_from_now_and_zero_releases(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=6)
    queue.send()
    message = queue.receive_one()
    queue.change(message, 600)
    time.sleep(6.2)
    assert queue.receive() == []
    queue.change(message, 0)
    queue.receive_one(wait=2)


def change_out_of_range_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    codes = [refusal_code(queue.change, message, seconds) for seconds in (TWELVE_HOURS + 1, -1)]
    assert codes == ["InvalidParameterValue"] * 2


def change_beyond_twelve_hours_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    time.sleep(1.1)
    code, text = refusal(queue.change, message, TWELVE_HOURS)
    assert code == "InvalidParameterValue"
    assert "Total VisibilityTimeout" in text


def twelve_hours_start_at_the_receive(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    time.sleep(3.1)
    queue.change(queue.receive_one(), TWELVE_HOURS - 2)


def released_message_is_not_in_flight(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    queue.change(message, 0)
    assert refusal_code(queue.change, message, 5) == "MessageNotInflight"


def invented_handle_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    invented = {"ReceiptHandle": "garbage"}
    assert refusal_code(queue.delete, invented) == "ReceiptHandleIsInvalid"
    assert refusal_code(queue.change, invented, 1) == "ReceiptHandleIsInvalid"


def invented_handle_fails_its_entry_alone(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    handle = queue.receive_one()["ReceiptHandle"]
    entries: Any = [{"Id": "a", "ReceiptHandle": handle}, {"Id": "b", "ReceiptHandle": "garbage"}]
    answer = sqs.client.delete_message_batch(QueueUrl=queue.url, Entries=entries)
    assert [(f["Id"], f["Code"]) for f in answer["Failed"]] == [("b", "ReceiptHandleIsInvalid")]
    assert queue.counts() == (0, 0, 0)


def message_can_be_deleted_twice(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    queue.delete(message)
    queue.delete(message)


def standard_message_can_be_deleted_after_its_timeout(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    message = queue.receive_one()
    time.sleep(1.5)
    queue.delete(message)
    assert queue.receive(wait=1) == []


def receive_out_of_range_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    assert refusal_code(queue.receive, 11) == "InvalidParameterValue"
    assert refusal_code(queue.receive, wait=21) == "InvalidParameterValue"
    assert refusal_code(queue.receive, VisibilityTimeout=43_201) == "InvalidParameterValue"


def long_poll_waits_and_wakes_for_a_message(sqs: Driver) -> None:
    queue = sqs.queue()
    started = time.monotonic()
    assert queue.receive(wait=1) == []
    assert time.monotonic() - started > 0.9
    threading.Timer(0.5, queue.send).start()
    queue.receive_one(wait=10)


def long_poll_wakes_when_a_timeout_ends(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    queue.receive_one()
    queue.receive_one(wait=10)


def consumers_share_what_there_is(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=600)
    for start in range(0, 100, 10):
        queue.send_batch(*({"MessageBody": str(n)} for n in range(start, start + 10)))

    def consume(_: int) -> list[str]:
        bodies: list[str] = []
        while batch := queue.bodies():
            bodies += batch
        return bodies

    with ThreadPoolExecutor(4) as consumers:
        received = [body for part in consumers.map(consume, range(4)) for body in part]
    assert sorted(received) == sorted(str(n) for n in range(100))
