"""A Spark cluster of its own on this machine: a master and two workers; and queues for it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from tests.small_jobs import QUICK_JVM

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

SPARK = Path(pyspark.__file__).parent


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
        name = "org.apache.spark.deploy.master.Master"
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = start(stack, folder / "master", [name, *options], environment)
        url = wait_for(log, r"Starting Spark master at (spark://\S+)")
        # Spark speculates on another host alone, so one machine goes by two names.
        for number, host in ((1, "127.0.0.1"), (2, "localhost")):
            worker = [
                "org.apache.spark.deploy.worker.Worker",
                *("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(folder / f"work-{number}"), url),
            ]
            log = start(stack, folder / f"worker-{number}", worker, environment)
            wait_for(log, r"(Successfully registered with master)")
        yield url, environment


def start(stack: ExitStack, log: Path, command: list[str], environment: dict[str, str]) -> Path:
    output = stack.enter_context(log.open("w"))
    process = subprocess.Popen(
        [SPARK / "bin" / "spark-class", *command],
        env=environment,
        cwd=log.parent,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return log


def wait_for(log: Path, pattern: str) -> str:
    give_up_at = time.monotonic() + 120
    while not (match := re.search(pattern, log.read_text())):
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.2)
    return match[1]


def make_queue(client: "SQSClient", name: str) -> SqsQueue:
    return SqsQueue(client, client.create_queue(QueueName=name)["QueueUrl"])


def everything(queue: SqsQueue) -> list[str]:
    bodies: list[str] = []
    while received := queue.receive(wait_seconds=0):
        messages = [one for one in received if isinstance(one, Message)]
        queue.delete(messages)
        bodies += [one.body for one in messages]
    return bodies
