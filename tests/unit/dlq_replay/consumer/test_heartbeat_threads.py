"""The heartbeat in its own thread. Events order what happens; no test waits for a time to pass."""

import threading
from typing import Any

import pytest

from dlq_replay.consumer.heartbeat import Heartbeat, HeartbeatConfig

PATIENCE_SECONDS = 30
MESSAGE = {"MessageId": "m", "ReceiptHandle": "r"}


class SlowClient:
    """Confirms everything; from the second extension on, only after it was let through.

    Attributes:
        done: the timeouts that it set, in order.
    """

    def __init__(self) -> None:
        self.done: list[int] = []
        self.is_second_call = threading.Event()
        self.may_answer = threading.Event()

    def change_message_visibility_batch(self, **request: Any) -> Any:
        seconds = request["Entries"][0]["VisibilityTimeout"]
        if seconds and self.done:
            self.is_second_call.set()
            assert self.may_answer.wait(PATIENCE_SECONDS)
        self.done.append(seconds)
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


@pytest.fixture
def client() -> Any:
    return SlowClient()


def beating(client: Any) -> Heartbeat:
    return Heartbeat.for_messages(client, "url", [MESSAGE], config=HeartbeatConfig(120, 0.01))


def test_given_up_message_is_not_hidden_again_by_an_extension_on_its_way(client: Any) -> None:
    with beating(client) as beat:
        assert client.is_second_call.wait(PATIENCE_SECONDS)
        threading.Timer(0.05, client.may_answer.set).start()
        assert beat.give_up("m")

    assert client.done[-1] == 0
    assert client.done.count(0) == 1


def test_exception_waits_for_an_extension_on_its_way_and_releases_after_it(client: Any) -> None:
    def fail() -> None:
        with beating(client):
            assert client.is_second_call.wait(PATIENCE_SECONDS)
            threading.Timer(0.05, client.may_answer.set).start()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert client.done[-1] == 0
    assert client.done.count(0) == 1


def test_worker_may_ask_while_an_extension_is_on_its_way(client: Any) -> None:
    with beating(client) as beat:
        assert client.is_second_call.wait(PATIENCE_SECONDS)
        beat.check()
        assert beat.is_safe("m")
        beat.done("m")
        client.may_answer.set()

    assert set(client.done) == {120}


def test_block_that_is_left_open_by_a_dead_thread_is_extended_no_more(client: Any) -> None:
    client.may_answer.set()
    threads: list[threading.Thread] = []

    def enter_and_die() -> None:
        beating(client).__enter__()
        threads.extend(one for one in threading.enumerate() if one.name == "sqs-heartbeat")

    worker = threading.Thread(target=enter_and_die)
    worker.start()
    worker.join()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert threads
    assert not any(thread.is_alive() for thread in threads)
