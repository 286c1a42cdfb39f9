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
from local_sqs.server import serve_in_thread
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
    family = Family()

    def waiting() -> set[str]:
        with model.changed:
            return {message.message_id for message in parked.queue.messages()}

    def kill() -> None:
        """Until all are dead the server does nothing more; what is on its way to it, it does."""
        with model.changed:
            family.kill()

    with serve_in_thread(model) as served:
        parked = ModelQueue(model, f"parked{suffix}", **({"FifoQueue": "true"} if suffix else {}))
        for start in range(0, MESSAGES, 10):
            numbers = range(start, start + 10)
            parked.send([entry(str(n), suffix and str(n % GROUPS)) for n in numbers])
        sent = waiting()
        served.front.faults.add(replace(fault, callback=kill))
        place = ["--archive", str(tmp_path), "--parked-queue-url", parked.url, "--tasks", "2"]
        environment = {**os.environ, **QUICK_SPARK, "AWS_ENDPOINT_URL": served.url}

        exit_code = subprocess.call(
            [sys.executable, "-m", "spark_reprocess", *DRAIN, *place],
            cwd=ROOT,
            env={**environment, **family.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        served.wait_for_disconnects()
        archived_before = _archived(tmp_path)
        assert exit_code == -signal.SIGKILL
        assert archived_before | waiting() == sent
        assert waiting()

        with model.changed:
            clock.advance(HIDDEN_SECONDS)
        options = DrainRequest(parked.url, tasks=2, wait_seconds=1)
        summary = drain(engine, open_archive(str(tmp_path)), options, make_client=client_at)

        assert summary.stopped_by == ()
        assert waiting() == set()
    assert _archived(tmp_path) == sent
    assert archived_ids(open_archive(str(tmp_path))) == sorted(sent)


def _archived(folder: Path) -> set[str]:
    files = [path for path in folder.glob("messages/*/*.parquet") if path.name[0] != "."]
    message_ids: set[str] = set()
    for path in files:
        message_ids.update(map(str, pq.read_table(path)["message_id"].to_pylist()))
    return message_ids
