"""SIGKILL to a whole drain, JVM and Python workers included, at a request that the server chose."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from local_sqs.api import call
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.model import SqsModel
from local_sqs.queues import Queue
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.archive.messages.frames import read_archive
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.drain.drain import DrainOptions, drain
from tests.integration.client_at import client_at
from tests.integration.spark_world import Spark
from tests.support.needs import needs_proc
from tests.support.processes import Family
from tests.support.small_jobs import DRAIN, QUICK_SPARK

ROOT = Path(__file__).parents[2]
MESSAGES = 600
GROUPS = 6
HIDDEN_SECONDS = 301


@dataclass
class KilledDrain:
    """A parked queue, and a drain of it in processes of its own."""

    served: RunningServer
    clock: VirtualClock
    queue: Queue
    url: str
    family: Family = field(default_factory=Family)

    def waiting(self) -> set[str]:
        with self.served.model.changed:
            return {message.message_id for message in self.queue.messages()}

    def run(self, archive: Path) -> int:
        """Drain; return the exit code."""
        argv = [*DRAIN, "--archive", str(archive), "--parked-queue-url", self.url, "--tasks", "2"]
        environment = {**os.environ, **QUICK_SPARK, "AWS_ENDPOINT_URL": self.served.url}
        return subprocess.call(
            [sys.executable, "-m", "spark_reprocess", *argv],
            cwd=ROOT,
            env={**environment, **self.family.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """Until all are dead the server does nothing more; what is on its way to it, it does."""
        with self.served.model.changed:
            self.family.kill()


@contextmanager
def killed_drain(suffix: str) -> Iterator[KilledDrain]:
    clock = VirtualClock()
    model = SqsModel(clock)
    queue = model.create_queue(f"parked{suffix}", {"FifoQueue": "true"} if suffix else {})
    with serve_in_thread(model) as served:
        url = model.url_of(queue)
        for number in range(MESSAGES):
            fifo = {"MessageGroupId": str(number % GROUPS), "MessageDeduplicationId": str(number)}
            entry = {"QueueUrl": url, "MessageBody": f"body {number}"}
            call(model, "SendMessage", {**entry, **(fifo if suffix else {})})
        yield KilledDrain(served, clock, queue, url)


RECEIVE, DELETE = "ReceiveMessage", "DeleteMessageBatch"


@needs_proc
@pytest.mark.parametrize(
    ("suffix", "fault"),
    [
        pytest.param("", Fault(Effect.CALL, RECEIVE, nth=9, after=True), id="receive"),
        pytest.param("", Fault(Effect.CALL, DELETE, nth=15, after=True), id="delete"),
        pytest.param(".fifo", Fault(Effect.CALL, DELETE, nth=9, after=True), id="fifo"),
    ],
)
def test_killed_job_is_completed_by_the_next(
    spark: Spark, tmp_path: Path, suffix: str, fault: Fault
) -> None:
    with killed_drain(suffix) as job:
        sent = job.waiting()
        job.served.front.faults.add(replace(fault, callback=job.kill))

        exit_code = job.run(tmp_path)
        job.served.wait_for_disconnects()
        archived_before = _archived(tmp_path)
        assert exit_code == -signal.SIGKILL
        assert archived_before | job.waiting() == sent
        assert job.waiting()

        with job.served.model.changed:
            job.clock.advance(HIDDEN_SECONDS)
        options = DrainOptions(job.url, str(tmp_path), tasks=2, wait_seconds=1)
        summary = drain(spark, options, make_client=client_at)

        assert summary.stopped_by == ()
        assert job.waiting() == set()
    assert _archived(tmp_path) == sent
    rows = read_archive(spark, open_archive(str(tmp_path))).select("message_id").collect()
    assert sorted(row["message_id"] for row in rows) == sorted(sent)


def _archived(folder: Path) -> set[str]:
    files = [path for path in folder.glob("messages/*/*.parquet") if path.name[0] != "."]
    return {str(one) for path in files for one in pq.read_table(path)["message_id"].to_pylist()}
