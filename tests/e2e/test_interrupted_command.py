"""Ctrl-C at the command line while Spark works: a sentence, no traceback, nobody in the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3

from local_sqs.server import serve_in_thread
from tests.approved_plan import planned
from tests.integration.spark_world import archive_of, parked
from tests.small_jobs import QUICK_SPARK

ROOT = Path(__file__).resolve().parents[2]


def test_interrupt_while_spark_works_ends_in_a_sentence(tmp_path: Path) -> None:
    messages = [parked(2 * n) for n in range(200)]
    archive = archive_of(tmp_path / "archive", messages)
    with serve_in_thread() as world:
        url = boto3.client("sqs", endpoint_url=world.url).create_queue(QueueName="main")["QueueUrl"]
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": world.url,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
            **QUICK_SPARK,
        }
        command = [
            *(sys.executable, "-m", "spark_reprocess", "redrive", "--archive", archive.root),
            *("--plan", planned(archive), "--to-queue-url", url, "--where", "message_id > ''"),
            *("--max-rate", "5", "--execute", "--reason", "it is fixed"),
        ]
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        # Spark has started, and reads the plan's messages or sends them.
        while not archive.list("locks") and process.poll() is None:
            time.sleep(0.1)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()

    assert process.returncode == 130
    assert "Traceback" not in said
    assert "interrupted; nothing is lost, run the same command again" in said
    assert sum(one.endswith(".end.json") for one in archive.list("locks")) == 1
