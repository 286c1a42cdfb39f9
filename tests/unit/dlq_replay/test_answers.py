"""An answer that is not AWS's says nothing of what was done: it counts as a lost answer."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import botocore.endpoint
import botocore.session
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from dlq.aws.clients import aws_client, aws_session, sqs_sender
from dlq.cli.command import main
from dlq_replay.aws.answers import ForeignAnswerError, is_foreign, with_checked_answers
from dlq_replay.aws.breaker_table import breaker_client_config, read_items, update_item
from dlq_replay.aws.sqs import SqsQueue, client_config
from dlq_replay.aws.wiring import make_client
from dlq_replay.errors import QueueError, TableError
from dlq_replay.replaying.sending import Unconfirmed
from dlq_replay.wire.message import SendEntry
from functions.publish_job import handler as publish_job
from functions.reminder import handler as reminder
from local_sqs.clock import VirtualClock
from tests.support.builders import message, queue_url
from tests.support.foreign_answers import FOREIGN, PAGE, answer_always


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let botocore's pauses before retries pass on a clock of their own."""
    monkeypatch.setattr(botocore.endpoint, "time", VirtualClock())


@pytest.mark.parametrize(
    ("protocol", "body", "is_of_aws"),
    [
        ("json", b"{}", True),
        ("json", b' {"Messages": []}\n', True),
        ("json", b"[1]", False),
        ("json", b"null", False),
        ("json", b'"text"', False),
        ("json", b"\xff\xfe", False),
        ("json", PAGE.encode(), False),
        ("rest-json", PAGE.encode(), False),
        ("query", b"<DescribeStacksResponse><a/></DescribeStacksResponse>", True),
        ("query", b'<?xml version="1.0"?><a xmlns="http://s3.amazonaws.com/"><b/></a>', True),
        ("query", b"<cut", False),
        ("query", b"bad gateway", False),
        ("query", PAGE.encode(), False),
        ("rest-xml", b'<HTML xmlns="http://www.w3.org/1999/xhtml"></HTML>', False),
        ("ec2", b"<!doctype html><p>Sign in<br>", False),
        ("smithy-rpc-v2-cbor", b"\xbf\xff", True),
    ],
)
def test_what_a_service_never_sends_is_foreign(
    protocol: str, body: bytes, *, is_of_aws: bool
) -> None:
    assert is_foreign(protocol, body, may_be_empty=True) is not is_of_aws


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_nothing_is_foreign_where_something_is_due(protocol: str) -> None:
    assert is_foreign(protocol, b" \n", may_be_empty=False)
    assert not is_foreign(protocol, b"", may_be_empty=True)


METRICS: dict[str, Any] = {"MetricDataQueries": [], "StartTime": 0, "EndTime": 60}


def of_botocore() -> Any:
    session = with_checked_answers(botocore.session.get_session())
    session.set_config_variable("region", os.environ["AWS_REGION"])
    return make_client(session, "sqs", client_config(1))


CLIENTS: dict[str, Callable[[], Any]] = {
    "the function": of_botocore,
    "the job": lambda: sqs_sender(queue_url("main")),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("answer", FOREIGN)
def test_nothing_counts_as_sent_refused_deleted_or_empty(answer: str, client: str) -> None:
    made = CLIENTS[client]()
    answer_always(made.meta.events, *FOREIGN[answer])
    queue = SqsQueue(made, queue_url("main"), tries_once=client == "the job")
    held = message("m-1", "body")

    results = queue.send([SendEntry("first"), SendEntry("second")])

    assert [type(result) for result in results] == [Unconfirmed, Unconfirmed]
    assert queue.delete([held]) == [held]
    assert queue.change_visibility([(held, 0)]) == [held]
    with pytest.raises(QueueError):
        queue.receive()
    with pytest.raises(QueueError, match=r"and not an answer of AWS|: 50\d: "):
        queue.describe()


@pytest.mark.parametrize("answer", FOREIGN)
def test_no_item_seems_missing_or_written(answer: str) -> None:
    made = aws_client("dynamodb", breaker_client_config())
    answer_always(made.meta.events, *FOREIGN[answer])

    with pytest.raises(TableError):
        read_items(made, "failures", Keys=[{"message_id": {"S": "m-1"}}])
    with pytest.raises(TableError):
        update_item(made, TableName="failures", Key={"message_id": {"S": "m-1"}})


@pytest.mark.parametrize("answer", FOREIGN)
@pytest.mark.parametrize(
    ("function", "service", "call", "request_of"),
    [
        (reminder, "sns", "publish", {"TopicArn": "arn:aws:sns:us-east-1:1:t", "Message": "m"}),
        (reminder, "cloudwatch", "get_metric_data", METRICS),
        (publish_job, "s3", "put_object", {"Bucket": "archive", "Key": "code", "Body": b"code"}),
        (publish_job, "s3", "list_object_versions", {"Bucket": "archive"}),
    ],
)
def test_the_other_functions_take_no_page_for_an_answer(
    function: Any,
    service: str,
    call: str,
    request_of: dict[str, Any],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    made = function._client.__wrapped__(service)  # noqa: SLF001 - the client of a handler
    answer_always(made.meta.events, *FOREIGN[answer])
    # S3 confirms a write without a word.
    is_of_s3 = (call, answer) == ("put_object", "nothing")

    with nullcontext() if is_of_s3 else pytest.raises((BotoCoreError, ClientError)):
        getattr(made, call)(**request_of)


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "cloudformation": ("describe_stacks", {}),
    "sts": ("get_caller_identity", {}),
    "lambda": ("list_event_source_mappings", {}),
    "glue": ("get_job", {"JobName": "redrive"}),
    "logs": ("filter_log_events", {"logGroupName": "shop"}),
    "s3": ("list_objects_v2", {"Bucket": "archive"}),
}


@pytest.mark.parametrize("service", CALLS)
@pytest.mark.parametrize("answer", FOREIGN)
def test_callers_get_the_errors_that_they_expect(answer: str, service: str) -> None:
    made = aws_client(service)
    answer_always(made.meta.events, *FOREIGN[answer])
    call, request = CALLS[service]

    with pytest.raises((BotoCoreError, ClientError)):
        getattr(made, call)(**request)


def test_an_object_is_not_written_by_a_page() -> None:
    made = aws_client("s3")
    answer_always(made.meta.events, 200, PAGE)

    with pytest.raises(ForeignAnswerError):
        made.put_object(Bucket="archive", Key="messages/d-1", Body=b"")


def test_bodies_that_are_values_are_not_looked_at() -> None:
    made = aws_client("s3")
    answer_always(made.meta.events, 200, PAGE)

    assert made.get_object(Bucket="archive", Key="report.html")["Body"].read() == PAGE.encode()
    assert made.get_bucket_policy(Bucket="archive")["Policy"] == PAGE


@pytest.mark.parametrize(("status", "body"), [(200, PAGE), (407, "authentication required")])
def test_a_command_answers_a_page_with_a_sentence(
    status: int, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = aws_session()
    answer_always(session.events, status, body)

    assert main(["status"], lambda: session) == 2

    assert capsys.readouterr().err == (
        f"dlq: the stacks cannot be listed: ForeignAnswerError: HTTP {status}, and not an answer "
        "of AWS; look for a proxy, and at AWS_ENDPOINT_URL\n"
    )
