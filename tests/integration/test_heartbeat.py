"""A consumer that works several times its visibility timeout, with the heartbeat and without."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dlq_replay.consumer.heartbeat import Heartbeat
from tests.integration.conftest import MakeQueue

if TYPE_CHECKING:
    from dlq_replay.sqs import SqsQueue

PATIENCE_SECONDS = 60


class Pair:
    """Two workers in threads of their own, who poll one queue until the first of them is done."""

    def __init__(self, queue: "SqsQueue", work: Callable[[Any], None]) -> None:
        self.queue = queue
        self.work = work
        self.processed: list[str] = []
        self.polls = 0
        self.is_finished = threading.Event()
        self.threads = [threading.Thread(target=self._consume, args=(name,)) for name in "ab"]

    def _consume(self, name: str) -> None:
        client, url = self.queue.client, self.queue.url
        while not self.is_finished.is_set():
            answer = client.receive_message(QueueUrl=url, WaitTimeSeconds=1)
            self.polls += 1
            for message in answer.get("Messages", []):
                self.work(message)
                self.processed.append(name)
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                self.is_finished.set()

    def start(self) -> None:
        self.queue.client.send_message(QueueUrl=self.queue.url, MessageBody="order")
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


def test_consumer_over_http_processes_once_with_the_heartbeat_and_twice_without(
    make_queue: MakeQueue,
) -> None:
    visibility_seconds, work_seconds = 3, 9
    with_kit, without = (make_queue(VisibilityTimeout=str(visibility_seconds)) for _ in range(2))

    def work_guarded(message: Any) -> None:
        with Heartbeat(
            with_kit.client,
            with_kit.url,
            [message],
            timeout_seconds=4,
            received_timeout_seconds=visibility_seconds,
        ) as beat:
            time.sleep(work_seconds)
            beat.check()

    pairs = [Pair(with_kit, work_guarded), Pair(without, lambda _: time.sleep(work_seconds))]
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join()

    guarded, unguarded = pairs
    assert len(guarded.processed) == 1
    assert guarded.polls > 1
    assert sorted(unguarded.processed) == ["a", "b"]
    assert with_kit.describe()["ApproximateNumberOfMessages"] == "0"
    assert with_kit.describe()["ApproximateNumberOfMessagesNotVisible"] == "0"
