"""The proof: the verdict on each message is what the redrive then really does.

The demo's consumer with no fix, half a fix and the whole fix.
"""

import importlib
import random
import sys
from binascii import crc32
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from demo.business import FIXED, Bug, Payments, Shop
from demo.event_source import InvocationContext, interpret, to_event
from demo.workload import DemoMessage, Trait, invent
from dlq_cli.__main__ import main
from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import FailureError
from dlq_replay.message import Message
from spark_reprocess.archive.rehearsals import newest_rehearsal, read_verdicts
from spark_reprocess.plan.reading import read_plan
from tests.approved_plan import planned
from tests.builders import context, message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, executed
from tests.needs import needs_namespaces

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from pyspark.sql import SparkSession

pytestmark = needs_namespaces

ROOT = Path(__file__).parents[2]
_PATHS = f"{ROOT}:{ROOT / 'layers' / 'core'}"


def parked_copies() -> list[Message]:
    """What the demo parks: events that meet a bug, and some that came while payments was down."""
    events = [one for one in invent(60, random.Random(5)) if one.trait is not Trait.PLAIN]
    payments = [one for one in events if one.trait is Trait.NEEDS_PAYMENTS][:6]
    return [_parked(one) for one in events if one.trait is Trait.BROKEN or one in payments]


def _parked(source: DemoMessage) -> Message:
    try:
        Shop(Payments(lambda _: None)).process(source)
    except Exception as error:  # noqa: BLE001 - whatever the shop raises
        failure = FailureError(type(error).__name__, str(error))
    own = {
        name: MessageAttribute(one.data_type, one.value)
        for name, one in source.content.attributes.items()
    }
    ours = context(first_id=f"first-{source.number}", reason="attempts_exhausted", error=failure)
    return message(f"m-{source.number:03d}", source.content.body, {**own, **ours})


@pytest.fixture
def tables(moto_endpoint: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """Tables of this test alone; return the consumer's variables for them."""
    client = boto3.client("dynamodb", endpoint_url=moto_endpoint, region_name="us-east-1")
    names = {}
    for variable, key in (("FAILURE_TABLE", "message_id"), ("PROCESSED_TABLE", "id")):
        names[variable] = f"{variable}-{crc32(request.node.nodeid.encode())}"
        client.create_table(
            TableName=names[variable],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    return names


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, moto_endpoint: str) -> Any:
    """Load the demo's function anew, with variables of its own."""

    def load(variables: dict[str, str]) -> Any:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
        monkeypatch.delitem(sys.modules, "demo.app", raising=False)
        return importlib.import_module("demo.app").lambda_handler

    return load


def consumed(client: "SQSClient", url: str, handler: Any) -> dict[str, str]:
    """Receive everything once, as an event source mapping does; return the result by first id."""
    results: dict[str, str] = {}
    arguments: Any = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    while True:
        answer = client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=3600, **arguments
        )
        batch: Any = answer.get("Messages", [])
        if not batch:
            return results
        event = to_event(batch, "arn:aws:sqs:us-east-1:123456789012:orders")
        ids = [one["MessageId"] for one in batch]
        failed = interpret(handler(event, InvocationContext("consumer")), ids).failed
        for one in batch:
            first_id = Message.from_receive(one).first_id
            results.setdefault(first_id, "fail" if one["MessageId"] in failed else "pass")
            client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])


@pytest.mark.parametrize(
    "fixed",
    [(), (Bug.VAT, Bug.INVOICES), tuple(Bug)],
    ids=["no fix", "half a fix", "the whole fix"],
)
def test_verdict_is_what_the_redrive_does(
    spark: "SparkSession",
    sqs: "SQSClient",
    make_queue: MakeQueue,
    tmp_path: Path,
    tables: dict[str, str],
    loaded: Any,
    fixed: tuple[Bug, ...],
) -> None:
    queue, copies = make_queue("orders"), parked_copies()
    archive = archive_of(tmp_path, copies)
    path = planned(archive)
    plan = read_plan(Path(path).read_text())
    variables = {**tables, FIXED: ",".join(fixed), "QUEUE_URL": queue.url}

    verdicts: dict[str, str] = {}
    for group in plan.groups:
        main(
            [
                *("rehearse", "--archive", archive.root, "--plan", path),
                *("--group", group.group_id, "--handler", "app:lambda_handler"),
                *("--path", str(ROOT / "demo"), "--main-queue-url", queue.url),
                *("--env", f"PYTHONPATH={_PATHS}"),
                *(word for pair in variables.items() for word in ("--env", "=".join(pair))),
            ]
        )
        rehearsal = newest_rehearsal(archive, plan.plan_id, group.group_id)
        assert rehearsal is not None
        rows = read_verdicts(archive, rehearsal).to_pylist()
        verdicts |= {row["message_id"].replace("m-", "first-"): row["verdict"] for row in rows}
    handler = loaded(variables)
    summary = executed(spark, archive, path, queue.url)
    really = consumed(sqs, queue.url, handler)

    assert summary.count("sent") == len(copies)
    assert {f"first-{int(name[6:])}": word for name, word in verdicts.items()} == really
    words = set(really.values())
    assert words == ({"pass"} if fixed == tuple(Bug) else {"pass", "fail"})
