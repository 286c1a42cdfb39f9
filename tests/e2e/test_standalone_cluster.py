"""The packed job on a cluster of its own: a master, two workers, and nothing of the checkout."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import pyspark
import pytest

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.message import SendEntry
from local_sqs.server import serve_in_thread
from tests.integration.spark_world import bodies, receive_all
from tests.support.served import served_aws
from tests.support.small_jobs import QUICK_JVM, REDRIVE_ALL, words_of_submit

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
MESSAGES = 60


@contextmanager
def cluster(sqs_url: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a master with two workers of a core each, and end them.

    Yields:
        The master's URL, and the environment of a program that uses it: nothing of the checkout.
    """
    environment = {
        **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_ENDPOINT_URL": sqs_url,
        "AWS_REGION": "us-east-1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
    }
    with ExitStack() as stack:

        def start(name: str, *options: str, until: str) -> str:
            """Start a part of Spark; return what its log says of being ready."""
            log = folder / f"{len(list(folder.iterdir()))}.log"
            output = stack.enter_context(log.open("w"))
            command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *options],
                env=environment,
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            give_up_at = time.monotonic() + 120
            while not (ready := re.search(until, log.read_text())):
                assert time.monotonic() < give_up_at, log.read_text()
                time.sleep(0.2)
            return ready[0]

        master = start(
            "master.Master", "--port", "0", until=r"Starting Spark master at spark://\S+"
        )
        url = master.rpartition(" ")[2]
        for number in (1, 2):
            place = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
            start("worker.Worker", *place, url, until="Successfully registered with master")
        yield url, environment


@pytest.fixture(params=["folder", "s3"])
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An archive that all machines share: a folder, or a prefix of a bucket."""
    if request.param == "folder":
        yield str(tmp_path / "archive")
        return
    with served_aws() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="dead-letters")
        yield "s3://dead-letters/archive"


def test_the_packed_job_brings_every_message_back(tmp_path: Path, archive: str) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", tmp_path], check=True)
    sent = [json.dumps({"type": "Order", "id": number}) for number in range(MESSAGES)]
    policy = tmp_path / "policy.yaml"
    policy.write_text(REDRIVE_ALL)
    with serve_in_thread() as world, cluster(world.url, tmp_path) as (master, environment):
        parked = queue_at(world.url, "cluster-parked")
        main = queue_at(world.url, "cluster-main")
        for start_at in range(0, MESSAGES, 10):
            parked.send([SendEntry(body) for body in sent[start_at : start_at + 10]])

        words = words_of_submit(
            tmp_path / "spark_job.py",
            master,
            spark__executor__memory="512m",
            spark__driver__host="127.0.0.1",
            spark__executor__extraJavaOptions=QUICK_JVM,
        )
        words += ["run", "--archive", archive, "--policy", str(policy)]
        words += ["--parked-queue-url", parked.url, "--to-queue-url", main.url]
        words += ["--execute", "--reason", "it is fixed", "--json"]
        finished = subprocess.run(
            [SPARK / "bin" / "spark-submit", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

        assert finished.returncode == 0, finished.stderr
        errors = json.loads(finished.stdout)["errors"]
        assert "dlq: everything at once: no --failure-table counts what fails again" in errors
        assert sorted(bodies(receive_all(main))) == sorted(sent)
        assert receive_all(parked) == []


def queue_at(sqs_url: str, name: str) -> SqsQueue:
    client = boto3.client("sqs", endpoint_url=sqs_url)
    return SqsQueue(client, client.create_queue(QueueName=name)["QueueUrl"])
