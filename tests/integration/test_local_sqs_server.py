"""The world over HTTP: what only a socket and another process can show."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from local_sqs.driver import Driver, refusal_code
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread


@pytest.fixture
def served() -> Iterator[RunningServer]:
    with serve_in_thread() as world:
        yield world


def driver_for(url: str, **config: Any) -> Driver:
    once = Config(retries={"total_max_attempts": 1}, **config)
    return Driver(boto3.client("sqs", endpoint_url=url, config=once))


@pytest.fixture
def sqs(served: RunningServer) -> Driver:
    return driver_for(served.url)


@pytest.fixture
def impatient(served: RunningServer) -> Driver:
    return driver_for(served.url, read_timeout=1)


def test_lost_answer_is_a_closed_connection(served: RunningServer, sqs: Driver) -> None:
    queue = sqs.queue()
    served.front.faults.add(Fault(Effect.LOSE, "SendMessage", nth=1))
    with pytest.raises(ConnectionClosedError):
        queue.send()

    assert queue.counts() == (1, 0, 0)


def test_hanging_answer_times_out(served: RunningServer, sqs: Driver, impatient: Driver) -> None:
    queue = sqs.queue()
    served.front.faults.add(Fault(Effect.HANG, "SendMessage"))
    with pytest.raises(ReadTimeoutError):
        impatient.client.send_message(QueueUrl=queue.url, MessageBody="x")

    assert queue.counts() == (1, 0, 0)


def test_retry_of_a_lost_answer_sends_twice(served: RunningServer) -> None:
    retrying = boto3.client(
        "sqs", endpoint_url=served.url, config=Config(retries={"mode": "standard"})
    )
    queue = Driver(retrying).queue()
    served.front.faults.add(Fault(Effect.LOSE, "SendMessage", nth=1))
    queue.send()

    assert queue.counts() == (2, 0, 0)
    assert served.front.log.count("SendMessage") == 2


@pytest.mark.parametrize(("after", "arrived"), [(False, 0), (True, 1)])
def test_sender_can_be_killed_around_its_request(
    served: RunningServer, sqs: Driver, *, after: bool, arrived: int
) -> None:
    queue = sqs.queue()
    program = (
        "import boto3, sys; boto3.client('sqs', endpoint_url=sys.argv[1]).send_message("
        "QueueUrl=sys.argv[2], MessageBody=sys.stdin.readline())"
    )
    sender = subprocess.Popen(
        [sys.executable, "-c", program, served.url, queue.url], stdin=subprocess.PIPE
    )
    kill = Fault(Effect.KILL, "SendMessage", pid=sender.pid, after=after)
    stop = Fault(Effect.CLOSE, "SendMessage")
    served.front.faults.add(kill, *([] if after else [stop]))
    sender.communicate(b"x\n")

    assert sender.returncode == -signal.SIGKILL
    assert queue.counts()[0] == arrived


def test_poll_of_a_vanished_client_takes_nothing(sqs: Driver, impatient: Driver) -> None:
    queue = sqs.queue()
    with pytest.raises(ReadTimeoutError):
        impatient.client.receive_message(QueueUrl=queue.url, WaitTimeSeconds=20)
    queue.send()

    assert len(queue.receive()) == 1


def test_many_polls_share_one_message(served: RunningServer) -> None:
    sqs = driver_for(served.url, max_pool_connections=20)
    queue = sqs.queue()
    received: list[int] = []
    polls = [
        threading.Thread(target=lambda: received.append(len(queue.receive(wait=2))))
        for _ in range(10)
    ]
    for poll in polls:
        poll.start()
    queue.send()
    for poll in polls:
        poll.join()

    assert sum(received) == 1


def test_poll_sees_what_the_test_puts_in(sqs: Driver) -> None:
    queue = sqs.queue()
    threading.Timer(0.2, lambda: Driver(sqs.client).queue(queue.name).send("late")).start()

    assert queue.bodies(wait=20) == ["late"]


def test_latency_is_added_to_every_answer(served: RunningServer, sqs: Driver) -> None:
    served.tuning.latency_ms = 50
    started = time.monotonic()
    sqs.queue().send()

    assert time.monotonic() - started > 0.1


def ask(url: str, method: str, content: object = None) -> Any:
    body = json.dumps(content).encode() if content is not None else None
    request = urllib.request.Request(url, body, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def test_server_of_another_process_can_be_steered() -> None:
    command = [sys.executable, "-m", "local_sqs"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        queue = driver_for(url).queue("q")
        ask(f"{url}/_control/faults", "POST", [{"effect": "throttle", "operation": "SendMessage"}])
        assert refusal_code(queue.send) == "RequestThrottled"
        ask(f"{url}/_control/faults", "DELETE")
        queue.send()
        records = ask(f"{url}/_control/requests?operation=SendMessage", "GET")
        assert [record["effects"] for record in records] == [["throttle"], []]
        assert ask(f"{url}/_control", "GET")["counts"] == {"CreateQueue": 1, "SendMessage": 2}
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait() == 0
