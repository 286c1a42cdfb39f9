"""SIGKILL to a whole drain, JVM and Python workers included, at a request that the server chose."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dlq.archive.storage.files import open_archive
from dlq.drain.drain import DrainRequest, drain
from dlq.engine import Engine
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from local_sqs.server import RunningServer, serve_in_thread
from tests.integration.client_at import client_at
from tests.support.archived_rows import archived_ids
from tests.support.builders import entry
from tests.support.needs import needs_proc
from tests.support.processes import Family
from tests.support.small_jobs import DRAIN, QUICK_SPARK

ROOT = Path(__file__).parents[2]
MESSAGES = 600
GROUPS = 6
HIDDEN_SECONDS = 301


RECEIVE = "ReceiveMessage"
DELETE = "DeleteMessageBatch"


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
    engine: Engine, tmp_path: Path, suffix: str, fault: Fault
) -> None:
    clock = VirtualClock()
    model = SqsModel(clock)
    with serve_in_thread(model) as served:
        parked = _full_queue(model, suffix)
        sent = _waiting(parked)

        assert _drain_until(fault, served, parked.url, tmp_path) == -signal.SIGKILL
        assert _archived(tmp_path) | _waiting(parked) == sent
        assert _waiting(parked)

        with model.changed:
            clock.advance(HIDDEN_SECONDS)
        options = DrainRequest(parked.url, tasks=2, wait_seconds=1)
        summary = drain(engine, open_archive(str(tmp_path)), options, make_client=client_at)

        assert summary.stopped_by == ()
        assert _waiting(parked) == set()
    assert _archived(tmp_path) == sent
    assert archived_ids(open_archive(str(tmp_path))) == sorted(sent)


def _full_queue(model: SqsModel, suffix: str) -> ModelQueue:
    parked = ModelQueue(model, f"parked{suffix}", **({"FifoQueue": "true"} if suffix else {}))
    for start in range(0, MESSAGES, 10):
        numbers = range(start, start + 10)
        parked.send([entry(str(n), suffix and str(n % GROUPS)) for n in numbers])
    return parked


def _waiting(parked: ModelQueue) -> set[str]:
    with parked.front.model.changed:
        return {message.message_id for message in parked.queue.messages()}


def _drain_until(fault: Fault, served: RunningServer, parked_url: str, folder: Path) -> int:
    """Drain with a job that is killed at the fault; return its exit code."""
    family = Family()

    def kill() -> None:
        """Until all are dead the server does nothing more; what is on its way to it, it does."""
        with served.model.changed:
            family.kill()

    served.front.faults.add(replace(fault, callback=kill))
    place = ["--archive", str(folder), "--parked-queue-url", parked_url, "--tasks", "2"]
    environment = {**os.environ, **QUICK_SPARK, "AWS_ENDPOINT_URL": served.url}

    exit_code = subprocess.call(
        [sys.executable, "-m", "spark_reprocess", *DRAIN, *place],
        cwd=ROOT,
        env={**environment, **family.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    served.wait_for_disconnects()
    return exit_code


def _archived(folder: Path) -> set[str]:
    files = [path for path in folder.glob("messages/*/*.parquet") if path.name[0] != "."]
    message_ids: set[str] = set()
    for path in files:
        message_ids.update(map(str, pq.read_table(path)["message_id"].to_pylist()))
    return message_ids
