"""Spark's second attempts at a task, on a cluster of its own: a master and two workers."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.archive.ledger import CHUNK_MESSAGES
from tests.approved_plan import planned
from tests.e2e.spark_cluster import cluster, everything, make_queue
from tests.integration.spark_world import archive_of, parked

ROOT = Path(__file__).parents[2]
SPECULATED = 800


@pytest.fixture
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as served:
        yield served


def test_second_attempts_beside_slow_ones_send_nothing_twice(
    world: RunningServer, tmp_path: Path
) -> None:
    """One call takes so long that Spark starts its task again on the other host, and kills it."""
    main = make_queue(boto3.client("sqs", endpoint_url=world.url), "speculation")
    messages = [parked(2 * n) for n in range(SPECULATED)]
    archive = archive_of(tmp_path / "archive", messages)
    events = tmp_path / "events"
    events.mkdir()
    options = {
        "archive": archive.root,
        "plan": planned(archive),
        "to_queue_url": main.url,
        "execute": True,
        "reason": "it is fixed",
        "tasks": 2,
    }
    slow = Fault(Effect.DELAY, "SendMessageBatch", "speculation", nth=4, after=True, seconds=7.0)
    world.front.faults.add(slow)

    with cluster(world.url, tmp_path) as (master, environment):
        finished = subprocess.run(
            [
                *(sys.executable, "-m", "tests.soak.speculating_process"),
                *(master, events.as_uri(), json.dumps(options)),
            ],
            env={**environment, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'layers/core'}"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    assert finished.returncode == 0, finished.stderr
    counts = Counter(json.loads(finished.stdout.splitlines()[-1])["counts"])
    (log,) = (path for path in events.rglob("*") if path.is_file() and "appstatus" not in path.name)
    assert '"Speculative":true' in log.read_text()
    assert counts["sent"] + counts["busy"] == SPECULATED
    assert counts["busy"] == CHUNK_MESSAGES
    assert Counter(everything(main)) == Counter(one.body for one in messages)
