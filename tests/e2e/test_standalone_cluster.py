"""The packed job on a cluster of its own: a master, two workers, and nothing of the checkout."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pyspark
import pytest

from dlq_replay.message import Message, SendEntry
from dlq_replay.sqs import SqsQueue
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.archive.ledger import CHUNK_MESSAGES
from tests.approved_plan import planned
from tests.integration.spark_world import archive_of
from tests.integration.spark_world import parked as parked_copy
from tests.small_jobs import QUICK_JVM, REDRIVE_ALL

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
MESSAGES = 60
SPECULATED = 800

# Six JVMs start one after the other.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as served:
        yield served


@pytest.fixture(scope="module")
def environment(world: RunningServer) -> dict[str, str]:
    mine = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return {
        **mine,
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_ENDPOINT_URL": world.url,
        "AWS_REGION": "us-east-1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
    }


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master with two workers of a core each; yields its URL."""
    folder = tmp_path_factory.mktemp("cluster")
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
        yield url


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


def test_second_attempts_beside_slow_ones_send_nothing_twice(
    world: RunningServer, environment: dict[str, str], master: str, tmp_path: Path
) -> None:
    """One call takes so long that Spark starts its task again on the other host, and kills it."""
    main = make_queue(boto3.client("sqs", endpoint_url=world.url), "speculation")
    messages = [parked_copy(2 * n) for n in range(SPECULATED)]
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

    finished = subprocess.run(
        [
            *(sys.executable, "-m", "tests.e2e.speculating_process"),
            *(master, events.as_uri(), json.dumps(options)),
        ],
        env={**environment, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers/core")))},
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


def test_the_packed_job_brings_every_message_back(
    packed: Path, world: RunningServer, environment: dict[str, str], master: str, tmp_path: Path
) -> None:
    client = boto3.client("sqs", endpoint_url=world.url)
    parked, main = make_queue(client, "cluster-parked"), make_queue(client, "cluster-main")
    sent = [json.dumps({"type": "Order", "id": number}) for number in range(MESSAGES)]
    for start_at in range(0, MESSAGES, 10):
        parked.send([SendEntry(body) for body in sent[start_at : start_at + 10]])

    policy = tmp_path / "policy.yaml"
    policy.write_text(REDRIVE_ALL)
    finished = subprocess.run(
        [
            SPARK / "bin" / "spark-submit",
            *("--master", master, "--executor-memory", "512m", "--driver-java-options", QUICK_JVM),
            *("--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}"),
            *("--conf", "spark.sql.codegen.wholeStage=false"),
            *("--py-files", str(packed / "spark_reprocess.zip"), str(packed / "spark_job.py")),
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
