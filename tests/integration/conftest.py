"""One Spark session and one SQS server for all tests of the job: both take seconds to start."""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.endpoint
import pytest
from botocore.config import Config

from dlq.archive.storage.files import Archive, open_archive
from dlq_replay.aws.breaker_table import breaker_client_config
from dlq_replay.aws.sqs import SqsQueue
from local_sqs.clock import VirtualClock
from local_sqs.server import serve_in_thread
from tests.support.failure_table import create_failure_table
from tests.support.served import empty, served_aws
from tests.support.small_jobs import QUICK_SPARK

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from pyspark.sql import SparkSession

    from dlq.engine import Engine
    from tests.integration.desk import MakeDesk

MakeQueue = Callable[..., SqsQueue]
Capture = pytest.CaptureFixture[str]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def sqs_endpoint() -> Iterator[str]:
    with serve_in_thread() as served:
        yield served.url


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """DynamoDB, S3 and STS."""
    with served_aws() as url:
        # moto loads a service at its first call, which takes longer than clients of ours wait.
        boto3.client("dynamodb", endpoint_url=url).list_tables()
        boto3.client("sts", endpoint_url=url).get_caller_identity()
        yield url


@pytest.fixture(scope="module")
def account_server() -> Iterator[str]:
    with served_aws() as url:
        yield url


@pytest.fixture
def endpoint(account_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty account, which every client of the test asks."""
    empty()
    monkeypatch.setenv("AWS_ENDPOINT_URL", account_server)
    return account_server


@pytest.fixture
def dynamodb(moto_endpoint: str) -> Any:
    """A client that waits for longer than the product's: this server is slower than DynamoDB."""
    config = breaker_client_config().merge(Config(read_timeout=10))
    region = os.environ["AWS_REGION"]
    return boto3.client("dynamodb", region, endpoint_url=moto_endpoint, config=config)


@pytest.fixture
def failure_table(dynamodb: Any) -> str:
    """Make a table of failures that no other test knows; return its name."""
    name = f"failures-{next(_numbers)}"
    create_failure_table(dynamodb, name)
    return name


@pytest.fixture(scope="session")
def started_spark(sqs_endpoint: str, moto_endpoint: str) -> "SparkSession":
    from spark_reprocess.session import get_session  # noqa: PLC0415 - pyspark loads slowly

    with pytest.MonkeyPatch.context() as patch:
        # Spark's workers have the environment of the moment in which the JVM starts.
        patch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
        patch.setenv("AWS_ENDPOINT_URL_S3", moto_endpoint)
        for name, value in QUICK_SPARK.items():
            patch.setenv(name, value)
        session = get_session()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture
def spark(
    started_spark: "SparkSession", sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> "SparkSession":
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    return started_spark


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with an ``engine`` on the local one; marked ``both_engines`` on Spark too.

    The marker ``on_spark`` is for what only a job of Spark does.
    """
    if "engine" not in metafunc.fixturenames:
        return
    names = ["local"]
    if metafunc.definition.get_closest_marker("both_engines"):
        names = ["local", "spark"]
    elif metafunc.definition.get_closest_marker("on_spark"):
        names = ["spark"]
    # Together, so that one session of Spark serves them all.
    metafunc.parametrize("engine", names, indirect=True, scope="function")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start Spark before all else that a test needs: its variables stay in the environment."""
    for test in items:
        parameters = getattr(getattr(test, "callspec", None), "params", {})
        if isinstance(test, pytest.Function) and parameters.get("engine") == "spark":
            test.fixturenames = ["started_spark", *test.fixturenames]


@pytest.fixture
def engine(
    request: pytest.FixtureRequest,
    sqs_endpoint: str,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> "Engine":
    """The engine that runs the verbs of a test; see ``pytest_generate_tests``."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_endpoint)
    if request.param == "spark":
        from spark_reprocess.engine import SparkEngine  # noqa: PLC0415 - pyspark loads slowly

        return SparkEngine(request.getfixturevalue("started_spark"))
    from dlq.local_engine import LocalEngine  # noqa: PLC0415 - DuckDB loads slowly

    return LocalEngine()


@pytest.fixture
def quick_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the drains of ``run`` use short polls: the server here answers them in full."""
    from dlq import scheduled_run  # noqa: PLC0415 - as above
    from dlq.drain.drain import DrainRequest  # noqa: PLC0415 - pyspark loads slowly

    monkeypatch.setattr(scheduled_run, "DrainRequest", partial(DrainRequest, wait_seconds=0))


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let botocore's pauses before retries pass on a clock of their own: no test waits for them."""
    monkeypatch.setattr(botocore.endpoint, "time", VirtualClock())


@pytest.fixture
def sqs(sqs_endpoint: str) -> "SQSClient":
    return boto3.client("sqs", endpoint_url=sqs_endpoint, region_name=os.environ["AWS_REGION"])


@pytest.fixture
def make_queue(sqs: "SQSClient") -> MakeQueue:
    """Make queues that no other test knows; what fails *receives* times goes to *dead_letters*."""

    def make(
        name: str = "queue",
        dead_letters: SqsQueue | None = None,
        receives: int = 3,
        **attributes: str,
    ) -> SqsQueue:
        if dead_letters is not None:
            arn = dead_letters.describe()["QueueArn"]
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": receives}
            attributes["RedrivePolicy"] = json.dumps(policy)
        stem, dot, suffix = name.partition(".")
        unique = f"{stem}-{next(_numbers)}{dot}{suffix}"
        fifo = {"FifoQueue": "true"} if suffix == "fifo" else {}
        settings = {**fifo, **attributes}
        url = sqs.create_queue(QueueName=unique, Attributes=settings)["QueueUrl"]  # type: ignore[arg-type]
        return SqsQueue(sqs, url)

    return make


@pytest.fixture(params=["disk", "s3"])
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Archive:
    """An archive on disk, or on S3, for which plain pyspark has no file system."""
    if request.param == "disk":
        return open_archive(str(tmp_path / "my archive [1]"), creates=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", request.getfixturevalue("moto_endpoint"))
    bucket = re.sub(r"[^a-z0-9]+", "-", request.node.name)[:63].strip("-")
    boto3.client("s3", region_name=os.environ["AWS_REGION"]).create_bucket(Bucket=bucket)
    return open_archive(f"s3://{bucket}/dead letters", creates=True)


@pytest.fixture
def make_desk(
    engine: "Engine", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["MakeDesk"]:
    """Make an operator's desk, with a server of its own that can be disturbed."""
    from tests.integration.desk import set_up  # noqa: PLC0415 - pyspark loads slowly

    with serve_in_thread() as world:
        monkeypatch.setenv("AWS_ENDPOINT_URL", world.url)
        yield partial(set_up, engine, world, tmp_path)
