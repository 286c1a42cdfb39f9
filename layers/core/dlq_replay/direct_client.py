"""SQS's JSON protocol with little around it, for the calls that carry messages.

A call through botocore's client takes twice the processor time and more, and a batch of dead
letters or a redrive is little else than calls: docs/decisions/0003-direct-calls.md. Endpoint,
credentials, configuration, exceptions and every other call are botocore's.
"""

import base64
import json
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partialmethod
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - its name
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.httpsession import get_cert_path
from botocore.parsers import create_parser
from botocore.session import Session
from botocore.utils import get_environ_proxies

from dlq_replay.connections import Answer, Connections
from dlq_replay.deadline import require_time_left
from dlq_replay.signing import FrozenCredentials, Signer, can_sign

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_OK = 200
_PASSING_STATUSES = frozenset({429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    {"RequestThrottled", "Throttling", "ThrottlingException", "OverLimit", "KmsThrottled"}
)
_LONGEST_PAUSE_SECONDS = 20.0


def direct_client(client: "SQSClient", session: Session) -> "SQSClient":
    """Return a client that sends, receives and deletes directly, and else does as *client* does.

    It follows the configuration of *client*: time-outs, number of tries, user agent. Where the way
    leads through a proxy, or an endpoint variant, a client certificate or an unusual URL is asked
    for, *client* itself is returned. Neither botocore's events nor what instruments its client see
    direct calls.

    Args:
        client: made by *session*.
        session: for credentials, and for the certificates to trust.
    """
    config: Any = client.meta.config
    endpoint = client.meta.endpoint_url
    is_plain = not (
        config.proxies
        or config.client_cert
        or config.use_fips_endpoint
        or config.use_dualstack_endpoint
    )
    if not (is_plain and can_sign(endpoint)) or get_environ_proxies(endpoint):
        return client
    bundle = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    connections = Connections(
        endpoint, config.connect_timeout, config.read_timeout, bundle or get_cert_path(verify=True)
    )
    return cast("SQSClient", DirectClient(client, session.get_credentials(), connections))


class DirectClient:
    """Calls as botocore's client has them, with the same answers and the same exceptions.

    Its own are those that SQS is asked thousands of times; it passes all others on.
    """

    def __init__(
        self,
        client: "SQSClient",
        credentials: Any,  # noqa: ANN401 - botocore's, of several classes without a common one
        connections: Connections,
        pause: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Take what calls need.

        Args:
            client: for the configuration, and for all other calls.
            credentials: botocore's, None for none.
            connections: to the endpoint.
            pause: waits so many seconds between tries.
            draw: a random number from 0 to 1.
        """
        config: Any = client.meta.config
        self._client = client
        self._credentials = credentials
        self._connections = connections
        self._pause = pause
        self._draw = draw
        self._tries = (config.retries or {}).get("total_max_attempts", 1)
        self._signer = Signer(client.meta.endpoint_url, client.meta.region_name)
        self._user_agent = config.user_agent
        self._parser = create_parser("json")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the client has
        return getattr(self._client, name)

    def _call(self, operation: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's
        body = json.dumps(request, default=_base64).encode()
        for repeats in range(self._tries):
            if repeats:
                longest = min(_LONGEST_PAUSE_SECONDS, 2.0 ** (repeats - 1))
                self._pause(self._draw() * longest)
            is_last = repeats == self._tries - 1
            require_time_left()
            try:
                answer = self._connections.post(body, self._headers(operation, body))
            except (ConnectionError, HTTPClientError):
                if is_last:
                    raise
                continue
            if answer.status == _OK:
                return _parsed(answer)
            error = self._error(operation, answer, repeats)
            if is_last or not _is_passing(error, answer.status):
                raise error
        raise AssertionError("the last try returns or raises")

    def begin(self, operation: str, **request: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401
        """Make a call, once; return what waits for its answer and does as the call itself would.

        Args:
            operation: by SQS's name.
            request: as the call takes it.

        Raises:
            What the call raises where nothing was sent, or nobody knows.
        """
        body = json.dumps(request, default=_base64).encode()
        read = self._connections.begin(body, self._headers(operation, body))

        def end() -> dict[str, Any]:
            answer = read()
            if answer.status != _OK:
                raise self._error(operation, answer, repeats=0)
            return _parsed(answer)

        return end

    send_message_batch = partialmethod(_call, "SendMessageBatch")
    receive_message = partialmethod(_call, "ReceiveMessage")
    delete_message_batch = partialmethod(_call, "DeleteMessageBatch")

    def _headers(self, operation: str, body: bytes) -> dict[str, str]:
        own = {
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{operation}",
            # Errors then bear the names by which botocore knows them.
            "x-amzn-query-mode": "true",
        }
        signed = self._signer.headers(own, body, self._frozen(), datetime.now(UTC))
        return {**signed, "user-agent": self._user_agent}

    def _frozen(self) -> FrozenCredentials:
        if self._credentials is None:
            raise NoCredentialsError
        try:
            frozen: FrozenCredentials = self._credentials.get_frozen_credentials()
        except RuntimeError as error:
            # botocore's word for credentials that were renewed and had expired all the same.
            raise CredentialRetrievalError(
                provider=self._credentials.method, error_msg=str(error)
            ) from error
        return frozen

    def _error(self, operation: str, answer: Answer, repeats: int) -> ClientError:
        model: Any = self._client.meta.service_model.operation_model(operation)
        raw = {"status_code": answer.status, "headers": answer.headers, "body": answer.body}
        parsed = self._parser.parse(raw, model.output_shape)
        parsed["ResponseMetadata"]["RetryAttempts"] = repeats
        code = parsed["Error"].get("QueryErrorCode", parsed["Error"]["Code"])
        exceptions: Any = self._client.exceptions
        error: ClientError = exceptions.from_code(code)(parsed, operation)
        return error


def _is_passing(error: ClientError, status: int) -> bool:
    code = error.response["Error"]["Code"].rpartition(".")[2]
    return status in _PASSING_STATUSES or code in _PASSING_CODES


def _parsed(answer: Answer) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(answer.body)
    except ValueError as error:
        raise HTTPClientError(error="the answer is no JSON") from error
    for message in parsed.get("Messages", ()):
        for attribute in message.get("MessageAttributes", {}).values():
            if "BinaryValue" in attribute:
                attribute["BinaryValue"] = base64.b64decode(attribute["BinaryValue"])
    return parsed


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is nothing that SQS takes")
