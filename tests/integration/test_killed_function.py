"""SIGKILL to a process that runs the handler, sent by the server at a chosen request."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.model import SqsModel
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.builders import entry, lambda_record
from tests.support.replay_stack import ReplayStack

ROOT = Path(__file__).parents[2]
MESSAGES = 30
HIDDEN_SECONDS = 2

# The process says who it is before it begins, so that the server knows whom to kill.
INVOKE = """
import json, os, sys
from functions.replay.handler import lambda_handler

class Context:
    def get_remaining_time_in_millis(self):
        return 30_000

print(os.getpid(), flush=True)
event = json.loads(sys.stdin.readline())
print(json.dumps(lambda_handler(event, Context())), flush=True)
"""


@pytest.fixture
def clock() -> VirtualClock:
    """The time of the queues, from now on. The function's process has the system's."""
    return VirtualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[RunningServer]:
    with serve_in_thread(SqsModel(clock)) as served:
        yield served


class Function:
    """The replay function behind its event source, in a process of its own for each batch."""

    def __init__(self, world: RunningServer, suffix: str = "") -> None:
        self.world = world
        self.stack = ReplayStack.at(world.url, suffix)
        self.dlq = self.stack.dlq
        self.dlq.client.set_queue_attributes(
            QueueUrl=self.dlq.url, Attributes={"VisibilityTimeout": f"{HIDDEN_SECONDS}"}
        )
        path = f"{ROOT}{os.pathsep}{ROOT / 'layers' / 'core'}"
        self.environment = {**os.environ, **self.stack.environment, "PYTHONPATH": path}

    def invoke(self, batch: list[Message], *faults: Fault) -> int:
        """Handle one batch and delete what is done; return the process's exit code."""
        with subprocess.Popen(
            [sys.executable, "-c", INVOKE],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            self.world.front.faults.add(
                *(
                    replace(fault, callback=partial(os.kill, pid, signal.SIGKILL))
                    for fault in faults
                )
            )
            process.stdin.write(json.dumps({"Records": [lambda_record(m) for m in batch]}) + "\n")
            process.stdin.close()
            output = process.stdout.read().splitlines()
        self.world.front.faults.clear()
        if process.returncode == 0:
            left = {item["itemIdentifier"] for item in json.loads(output[-1])["batchItemFailures"]}
            self.dlq.delete([m for m in batch if m.message_id not in left])
        return process.returncode


def take(source: SqsQueue, count: int) -> list[Message]:
    taken: list[Message] = []
    while len(taken) < count and (batch := source.receive(wait_seconds=0)):
        taken.extend(one for one in batch if isinstance(one, Message))
    return taken


@pytest.mark.parametrize("after", [False, True], ids=["before acting", "before answering"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["", ".fifo"], ids=["standard", "fifo"])
def test_killed_function_loses_nothing(
    *,
    world: RunningServer,
    clock: VirtualClock,
    suffix: str,
    nth: int,
    after: bool,
) -> None:
    function = Function(world, suffix)
    for start in range(0, MESSAGES, 10):
        numbers = range(start, start + 10)
        function.dlq.send([entry(str(n), suffix and f"group-{n}") for n in numbers])
    batch = take(function.dlq, MESSAGES)
    killed = function.invoke(batch, Fault(Effect.CALL, "SendMessageBatch", nth=nth, after=after))
    assert take(function.dlq, MESSAGES) == []
    clock.advance(HIDDEN_SECONDS)
    again = take(function.dlq, MESSAGES)
    finished = function.invoke(again)

    arrived = Counter(message.body for message in take(function.stack.main, 2 * MESSAGES))
    assert (killed, finished) == (-9, 0)
    assert len(again) == MESSAGES
    assert set(arrived) == {str(n) for n in range(MESSAGES)}
    # What was in flight when the process died arrives again, but on FIFO, where SQS knows it.
    assert max(arrived.values()) <= (1 if suffix else 2)
