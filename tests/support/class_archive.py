"""Archive the classes that a Spark job loads: ``python -m tests.support.class_archive FILE``.

A JVM that maps the archive starts in half the time, and the tests start dozens of them. A JVM that
cannot use it (another Java, other jars) loads its classes as usual.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3

from dlq_replay.aws.sqs import SqsQueue
from local_sqs.server import serve_in_thread
from spark_reprocess.engine import SparkEngine
from spark_reprocess.session import end_session, get_session
from tests.integration.spark_world import analyzed, archive_of, executed, parked
from tests.support.approved_plan import planned
from tests.support.small_jobs import JVM_OPTIONS


def main(target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    # The environment of a test, and no account.
    os.environ.update(
        AWS_ACCESS_KEY_ID="testing",
        AWS_SECRET_ACCESS_KEY="testing",
        AWS_REGION="us-east-1",
        AWS_ENDPOINT_URL_STS="http://127.0.0.1:1",
        SPARK_SUBMIT_OPTS=f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={target} -Xlog:disable",
    )

    with TemporaryDirectory() as folder, serve_in_thread() as world:
        os.environ["AWS_ENDPOINT_URL"] = world.url
        session = get_session()
        session.conf.set("spark.sql.codegen.wholeStage", "false")

        archive = archive_of(Path(folder), [parked(number) for number in range(20)])
        client = boto3.client("sqs", region_name="us-east-1")
        queue = SqsQueue(client, client.create_queue(QueueName="main")["QueueUrl"])

        engine = SparkEngine(session)
        analyzed(engine, archive)
        executed(engine, archive, planned(archive), queue.url)

        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - pyspark has no other way
        end_session()

    # The JVM writes the archive as it ends.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
