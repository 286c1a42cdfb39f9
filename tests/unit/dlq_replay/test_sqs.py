"""The adapter against botocore's own stub: answers that a local server cannot be made to give."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
    UnauthorizedSSOTokenError,
)
from botocore.stub import ANY, Stubber

from dlq_replay.aws.sqs import SqsQueue, without_recursion_header
from dlq_replay.errors import QueueError
from dlq_replay.replaying.sending import BatchRejected, Confirmed, Refused, Unconfirmed
from dlq_replay.wire.message import SendEntry
from tests.support.builders import message, queue_url

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

TWO = [SendEntry("first"), SendEntry("second")]


@pytest.fixture
def client() -> "SQSClient":
    return boto3.client(
        "sqs", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


@pytest.fixture
def stub(client: "SQSClient") -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def queue(client: "SQSClient") -> SqsQueue:
    return SqsQueue(client, queue_url("main"))


def sent(entry_id: str) -> dict[str, str]:
    return {"Id": entry_id, "MessageId": f"copy-{entry_id}", "MD5OfMessageBody": "0"}


def failed(entry_id: str) -> dict[str, Any]:
    return {"Id": entry_id, "SenderFault": True, "Code": "TooBig", "Message": "second is too big"}


def test_entry_that_failed_is_refused_and_one_that_is_not_named_unconfirmed(
    stub: Stubber, queue: SqsQueue
) -> None:
    answer = {"Successful": [sent("0")], "Failed": [failed("1")]}
    stub.add_response("send_message_batch", answer)

    first, second, third = queue.send([*TWO, SendEntry("third")])
    assert [first, second] == [Confirmed("copy-0"), Refused("TooBig")]
    assert isinstance(third, Unconfirmed)


@pytest.mark.parametrize(
    ("code", "text", "status", "retries", "result"),
    [
        ("AccessDenied", "no", 403, 0, Refused("AccessDenied", "AccessDenied: no")),
        ("InternalError", "oops", 500, 0, Unconfirmed("InternalError: oops")),
        # The try before the refused one may have been carried out and its answer lost.
        ("Throttled", "slow", 400, 1, Unconfirmed("Throttled: slow")),
    ],
)
def test_refused_call_refuses_every_entry_unless_sqs_may_have_taken_them(
    stub: Stubber, queue: SqsQueue, code: str, text: str, status: int, retries: int, result: object
) -> None:
    meta = {"RetryAttempts": retries}
    stub.add_client_error("send_message_batch", code, text, status, response_meta=meta)

    assert queue.send(TWO) == [result] * 2


def test_entry_that_spoils_its_call_is_refused_alone(stub: Stubber, queue: SqsQueue) -> None:
    stub.add_client_error("send_message_batch", "InvalidParameterValue", "a body is too long", 400)
    assert queue.send_once(TWO) == BatchRejected()

    stub.add_client_error("send_message_batch", "InvalidParameterValue", "a body is too long", 400)
    stub.add_response("send_message_batch", {"Successful": [sent("0")], "Failed": []})
    stub.add_client_error("send_message_batch", "InvalidParameterValue", "too long", 400)

    good, bad = queue.send(TWO)
    assert good == Confirmed("copy-0")
    assert bad == Refused("InvalidParameterValue")


class RaisingClient:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def send_message_batch(self, **_request: Any) -> Any:
        raise self.error

    change_message_visibility_batch = delete_message_batch = send_message_batch


NO_ANSWER = ReadTimeoutError(endpoint_url="http://localhost")
NO_CONNECTION = EndpointConnectionError(endpoint_url="http://localhost")
EXPIRED = CredentialRetrievalError(provider="iam-role", error_msg="still expired")


@pytest.mark.parametrize(
    ("error", "tries_once", "result"),
    [
        (NO_ANSWER, False, Unconfirmed),
        (NO_CONNECTION, False, Unconfirmed),
        # The try before may have been carried out and its answer lost.
        (EXPIRED, False, Unconfirmed),
        (NoCredentialsError(), False, Refused),
        (ParamValidationError(report="the body"), False, Refused),
        (NO_ANSWER, True, Unconfirmed),
        (NO_CONNECTION, True, Refused),
        (ConnectTimeoutError(endpoint_url="http://localhost"), True, Refused),
        (EXPIRED, True, Refused),
        (UnauthorizedSSOTokenError(), True, Refused),
    ],
)
def test_call_without_an_answer_is_unconfirmed_unless_it_never_left(
    error: Exception, result: type[object], *, tries_once: bool
) -> None:
    queue = SqsQueue(RaisingClient(error), "url", tries_once=tries_once)  # type: ignore[arg-type]
    results = queue.send(TWO)

    assert [type(each) for each in results] == [result] * 2
    assert not any("the body" in str(each) for each in results)


def test_deletion_goes_in_calls_of_ten(stub: Stubber, queue: SqsQueue) -> None:
    for count in (10, 2):
        answer = {"Successful": [{"Id": str(n)} for n in range(count)], "Failed": []}
        stub.add_response("delete_message_batch", answer, {"QueueUrl": ANY, "Entries": ANY})

    assert queue.delete([message(str(n)) for n in range(12)]) == []


def test_lost_answer_to_a_deletion_or_a_change_names_every_message() -> None:
    queue = SqsQueue(RaisingClient(NO_ANSWER), "url")  # type: ignore[arg-type]

    assert [message("a")] == queue.delete([message("a")])
    assert [message("a")] == queue.change_visibility([(message("a"), 0)])


ANSWER = {"Successful": [{"Id": "0"}], "Failed": [failed("1")]}
A_AND_B = [message("a"), message("b")]


def test_what_was_not_deleted_or_changed_is_named(stub: Stubber, queue: SqsQueue) -> None:
    expected = {
        "QueueUrl": queue_url("main"),
        "Entries": [
            {"Id": "0", "ReceiptHandle": "r-a", "VisibilityTimeout": 0},
            {"Id": "1", "ReceiptHandle": "r-b", "VisibilityTimeout": 39_600},
        ],
    }
    stub.add_response("delete_message_batch", ANSWER)
    stub.add_response("change_message_visibility_batch", ANSWER, expected)

    assert queue.delete(A_AND_B) == [message("b")]
    changes = list(zip(A_AND_B, (0, 39_600), strict=True))
    assert queue.change_visibility(changes) == [message("b")]


class StoppedError(Exception):
    """Ends a request before it leaves."""


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of an invocation, whose trace botocore adds to each request."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "replay")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5;Lineage=25:3")


def sends_trace_header(client: "SQSClient") -> bool:
    """Return whether a request of *client* leaves with the header."""
    headers: list[str] = []

    def capture(request: Any, **_: Any) -> None:
        headers.extend(request.headers)
        raise StoppedError

    client.meta.events.register("before-send", capture)
    with pytest.raises(StoppedError):
        client.list_queues()
    client.meta.events.unregister("before-send", capture)
    return "X-Amzn-Trace-Id" in headers


@pytest.mark.usefixtures("in_lambda")
def test_client_sends_no_recursion_header(client: "SQSClient") -> None:
    assert sends_trace_header(client)
    assert not sends_trace_header(without_recursion_header(client))


@pytest.mark.usefixtures("in_lambda")
def test_the_header_is_removed_whoever_adds_it(client: "SQSClient") -> None:
    def add(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = "Root=1-6"

    client.meta.events.register_first("request-created.sqs", add)

    assert not sends_trace_header(without_recursion_header(client))


def test_a_botocore_that_names_its_parts_otherwise_can_be_imported() -> None:
    """Lambda updates botocore by itself: an import that fails would stop every replay function."""
    program = """
import botocore.handlers

del botocore.handlers.add_recursion_detection_header
import dlq_replay.aws.sqs
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_lambda_runs_imports_only_modules_that_botocore_documents() -> None:
    root = Path(__file__).parents[3]
    import_line = re.compile(r"^(?:from|import) (botocore[\w.]*)", re.MULTILINE)
    imported: set[str] = set()
    for source in (*root.glob("layers/core/dlq_replay/**/*.py"), *root.glob("functions/**/*.py")):
        imported.update(import_line.findall(source.read_text("utf-8")))

    documented = {"botocore", "botocore.config", "botocore.exceptions", "botocore.session"}
    assert imported == documented


def test_credentials_that_expired_while_they_were_refreshed_have_sent_nothing() -> None:
    """botocore raises no class of its own for it."""
    past = "2020-01-01T00:00:00Z"
    expired = {"access_key": "a", "secret_key": "s", "token": "t", "expiry_time": past}
    session: Any = botocore.session.get_session()
    session._credentials = RefreshableCredentials.create_from_metadata(  # noqa: SLF001
        expired, refresh_using=lambda: expired, method="test"
    )
    url = "http://127.0.0.1:1/123456789012/main"
    client = session.create_client("sqs", region_name="us-east-1", endpoint_url=url)
    queue = SqsQueue(client, url, tries_once=True)

    results = queue.send(TWO)

    assert [type(result) for result in results] == [Refused, Refused]
    assert {result.code for result in results if isinstance(result, Refused)} == {
        "CredentialRetrievalError"
    }
    with pytest.raises(QueueError, match="CredentialRetrievalError"):
        queue.receive(wait_seconds=0)
