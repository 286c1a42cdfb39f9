"""The packed job on a cluster of its own: a master, two workers, and nothing of the checkout."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from dlq_replay.message import SendEntry
from local_sqs.server import RunningServer, serve_in_thread
from tests.e2e.spark_cluster import SPARK, cluster, everything, make_queue
from tests.small_jobs import QUICK_JVM, REDRIVE_ALL

ROOT = Path(__file__).parents[2]
MESSAGES = 60


@pytest.fixture
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as served:
        yield served


def test_the_packed_job_brings_every_message_back(world: RunningServer, tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", tmp_path], check=True)
    client = boto3.client("sqs", endpoint_url=world.url)
    parked, main = make_queue(client, "cluster-parked"), make_queue(client, "cluster-main")
    sent = [json.dumps({"type": "Order", "id": number}) for number in range(MESSAGES)]
    for start_at in range(0, MESSAGES, 10):
        parked.send([SendEntry(body) for body in sent[start_at : start_at + 10]])

    policy = tmp_path / "policy.yaml"
    policy.write_text(REDRIVE_ALL)
    with cluster(world.url, tmp_path) as (master, environment):
        finished = subprocess.run(
            [
                SPARK / "bin" / "spark-submit",
                *(
                    "--master",
                    master,
                    "--executor-memory",
                    "512m",
                    "--driver-java-options",
                    QUICK_JVM,
                ),
                *("--conf", "spark.driver.host=127.0.0.1"),
                *("--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}"),
                *("--conf", "spark.sql.codegen.wholeStage=false"),
                *(
                    "--py-files",
                    str(tmp_path / "spark_reprocess.zip"),
                    str(tmp_path / "spark_job.py"),
                ),
                *("run", "--archive", str(tmp_path / "archive"), "--no-metrics"),
                *("--parked-queue-url", parked.url, "--to-queue-url", main.url),
                *("--policy", str(policy), "--execute", "--reason", "it is fixed"),
            ],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert finished.returncode == 0, finished.stderr
    assert sorted(everything(main)) == sorted(sent)
    assert everything(parked) == []
