"""AWS JSON 1.0, the protocol of SQS; and boto3's client, connected to the model by it.

Binary values are base64 text in the protocol and bytes inside. An error has its older code in
``x-amzn-query-error``, which boto3 uses to find the exception (``awsQueryCompatible`` in the
service model).
"""

import base64
import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from urllib3 import HTTPResponse

from local_sqs.clock import VirtualClock
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def reply_to(
    front: Front, target: str, body: bytes, is_gone: Callable[[], bool] = lambda: False
) -> Reply:
    """Answer a request with that ``X-Amz-Target`` header. *is_gone*: see ``Front.handle``.

    Raises:
        AnswerLostError: the client gets no answer.
    """
    headers = {"Content-Type": "application/x-amz-json-1.0"}
    try:
        answer = front.handle(target.rpartition(".")[2], _decoded(body), is_gone)
    except SqsError as error:
        fault = "Sender" if error.is_sender_fault else "Receiver"
        headers["x-amzn-query-error"] = f"{error.code};{fault}"
        error_body = {"__type": f"com.amazonaws.sqs#{error.shape}", "message": error.message}
        return Reply(error.status, headers, json.dumps(error_body).encode())

    return Reply(200, headers, json.dumps(answer, default=_blob).encode())


def _decoded(body: bytes) -> dict[str, Any]:
    """Read the body of a request.

    Raises:
        SqsError: it is not a JSON object, or a binary value is not base64.
    """
    try:
        request = json.loads(body or b"{}")

        for entry in [request, *request.get("Entries", [])]:
            for attribute in (entry.get("MessageAttributes") or {}).values():
                if "BinaryValue" in attribute:
                    blob = base64.b64decode(attribute["BinaryValue"], validate=True)
                    attribute["BinaryValue"] = blob
    except (ValueError, AttributeError, TypeError) as error:
        raise SqsError("SerializationException", "The request cannot be read.") from error
    return dict(request)


def _blob(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} cannot be encoded in an answer")


def client_for(source: SqsModel | Front, config: Config | None = None) -> "SQSClient":
    """Return a client whose calls the model answers, in the caller's thread.

    Serialisation, parsing, exceptions and retries are botocore's; only the HTTP request is
    replaced. A lost answer raises botocore's exceptions (ConnectionClosedError, ReadTimeoutError),
    with retries as in *config*. The pauses between retries take real time, so the default here is
    ``retries={"total_max_attempts": 1}``.
    """
    front = Front.of(source)
    client = boto3.client(
        "sqs",
        region_name=front.model.region,
        endpoint_url=front.model.base_url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=config or Config(retries={"total_max_attempts": 1}),
    )
    timeout_seconds = getattr(client.meta.config, "read_timeout", 60)

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        target: Any = request.headers["X-Amz-Target"]
        body: Any = request.body
        try:
            reply = reply_to(front, target.decode() if isinstance(target, bytes) else target, body)
        except AnswerLostError as error:
            raise as_botocore(error, front, timeout_seconds) from error

        headers: Any = dict(reply.headers)
        raw = HTTPResponse(BytesIO(reply.body), preload_content=False)
        return AWSResponse(request.url, reply.status, headers, raw)

    handler: Any = answer
    client.meta.events.register("before-send.sqs", handler)
    return client


def as_botocore(error: AnswerLostError, front: Front, timeout_seconds: float = 60) -> Exception:
    """Return botocore's exception. A timeout advances a virtual clock by *timeout_seconds*."""
    url = front.model.base_url
    if not error.is_timeout:
        return ConnectionClosedError(endpoint_url=url)

    if isinstance(front.model.clock, VirtualClock):
        front.model.clock.advance(timeout_seconds)
    return ReadTimeoutError(endpoint_url=url)
