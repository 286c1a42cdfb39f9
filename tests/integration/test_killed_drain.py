"""SIGKILL to a whole drain, JVM and Python workers included, at a request that the server chose."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from local_sqs.api import call
from local_sqs.clock import Clock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.queues import Queue
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.archive.messages.frames import read_archive
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.drain.drain import DrainOptions, drain
from tests.integration.spark_world import ClientAt
from tests.support.small_jobs import DRAIN, QUICK_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MESSAGES = 600
GROUPS = 6
HIDDEN_SECONDS = 301


class AdjustableClock(Clock):
    """The time of day, until a test lets some of it pass at once."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass
class World:
    served: RunningServer
    clock: AdjustableClock
    queue: Queue
    url: str

    def waiting(self) -> set[str]:
        with self.served.model.changed:
            return {message.message_id for message in self.queue.messages()}

    def let_pass(self, seconds: int) -> None:
        self.clock.ahead_ms += seconds * 1000


@dataclass
class Job:
    """A drain in a session of its own, so that all of its processes can be found."""

    process: "subprocess.Popen[bytes] | None" = None

    def start(self, world: RunningServer, url: str, archive: Path) -> int:
        """Run it; return its exit code."""
        argv = [*DRAIN, "--archive", str(archive), "--parked-queue-url", url, "--tasks", "2"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spark_reprocess", *argv],
            cwd=ROOT,
            env={**os.environ, **QUICK_SPARK, "AWS_ENDPOINT_URL": world.url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self.process.wait()

    def kill(self, world: World) -> None:
        """End every process of the session. Spark's Python daemon leaves its process group.

        Until that is done the server does nothing more; what is on its way to it then, it does.
        """
        assert self.process is not None
        with world.served.model.changed:
            self._kill(self.process.pid)

    def _kill(self, session: int) -> None:
        while pids := list(_processes_of(session)):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _processes_of(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                state, session_of_it = fields[0], int(fields[3])
                if session_of_it == session and state != "Z":
                    yield int(entry.name)


@contextmanager
def parked_queue(suffix: str) -> Iterator[World]:
    clock = AdjustableClock()
    model = SqsModel(clock)
    queue = model.create_queue(f"parked{suffix}", {"FifoQueue": "true"} if suffix else {})
    with serve_in_thread(Front(model)) as served:
        url = model.url_of(queue)
        for number in range(MESSAGES):
            fifo = {"MessageGroupId": str(number % GROUPS), "MessageDeduplicationId": str(number)}
            entry = {"QueueUrl": url, "MessageBody": f"body {number}"}
            call(model, "SendMessage", {**entry, **(fifo if suffix else {})})
        yield World(served, clock, queue, url)


RECEIVE, DELETE = "ReceiveMessage", "DeleteMessageBatch"


@pytest.mark.parametrize(
    ("suffix", "fault"),
    [
        pytest.param("", Fault(Effect.CALL, RECEIVE, nth=9, after=True), id="receive"),
        pytest.param("", Fault(Effect.CALL, DELETE, nth=15, after=True), id="delete"),
        pytest.param(".fifo", Fault(Effect.CALL, DELETE, nth=9, after=True), id="fifo"),
    ],
)
def test_killed_job_is_completed_by_the_next(
    spark: "SparkSession", tmp_path: Path, suffix: str, fault: Fault
) -> None:
    job = Job()
    with parked_queue(suffix) as world:
        sent = world.waiting()
        world.served.front.faults.add(replace(fault, callback=partial(job.kill, world)))

        exit_code = job.start(world.served, world.url, tmp_path)
        world.served.wait_for_disconnects()
        archived_before = _archived(tmp_path)
        assert exit_code == -signal.SIGKILL
        assert archived_before | world.waiting() == sent
        assert world.waiting()

        world.let_pass(HIDDEN_SECONDS)
        options = DrainOptions(world.url, str(tmp_path), tasks=2, wait_seconds=1)
        summary = drain(spark, options, make_client=ClientAt(world.served.url))

        assert summary.stopped_by == ()
        assert world.waiting() == set()
    assert _archived(tmp_path) == sent
    rows = read_archive(spark, open_archive(str(tmp_path))).select("message_id").collect()
    assert sorted(row["message_id"] for row in rows) == sorted(sent)


def _archived(folder: Path) -> set[str]:
    files = [path for path in folder.glob("messages/*/*.parquet") if path.name[0] != "."]
    return {str(one) for path in files for one in pq.read_table(path)["message_id"].to_pylist()}
