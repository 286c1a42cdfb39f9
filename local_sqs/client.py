"""boto3's SQS client, connected to the model instead of a network.

Serialisation, parsing, exceptions and retries are botocore's. Only the HTTP request is replaced.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from local_sqs.clock import VirtualClock
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel
from local_sqs.wire import Reply, decode, encode, encode_error, operation_of

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


def client_for(source: SqsModel | Front, config: Config | None = None) -> "SQSClient":
    """Return a client whose calls the model answers, in the caller's thread.

    A lost answer raises botocore's exceptions (ConnectionClosedError, ReadTimeoutError), with
    retries as in *config*. The pauses between retries take real time, so the default here is
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
    client.meta.events.register("before-send.sqs", _answer_from(front, timeout_seconds))
    return client


def _answer_from(front: Front, timeout_seconds: float) -> Callable[..., Any]:
    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        try:
            reply = _reply(front, request)
        except AnswerLostError as error:
            if not error.is_timeout:
                raise ConnectionClosedError(endpoint_url=request.url) from error
            if isinstance(front.model.clock, VirtualClock):
                front.model.clock.advance(timeout_seconds)
            raise ReadTimeoutError(endpoint_url=request.url) from error
        headers: Any = dict(reply.headers)
        return AWSResponse(request.url, reply.status, headers, _Raw(reply.body))

    return answer


def _reply(front: Front, request: AWSPreparedRequest) -> Reply:
    target: Any = request.headers["X-Amz-Target"]
    body: Any = request.body
    try:
        operation = operation_of(target.decode() if isinstance(target, bytes) else target)
        return encode(front.handle(operation, decode(body)))
    except SqsError as error:
        return encode_error(error)


class _Raw:
    """The raw response, from which an AWSResponse reads its body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> list[bytes]:
        return [self._body]
