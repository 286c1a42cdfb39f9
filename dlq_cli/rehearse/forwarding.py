"""Makes the reads that an operator allowed, with the operator's own credentials."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, HTTPClientError
from botocore.httpsession import URLLib3Session

from dlq_cli.rehearse.aws_answers import Answer
from dlq_cli.rehearse.aws_requests import Call, Request
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

_KEPT = ("content-type", "x-amz-target", "smithy-protocol", "accept", "x-amzn-query-mode")
"""Headers that say what is asked. The others are of the handler's own signature."""

_DROPPED = ("connection", "content-length", "transfer-encoding", "content-encoding")
_SAFE_METHODS = ("GET", "HEAD")
_TIMEOUT_SECONDS = 10


class Forwarder:
    """Signs a read anew and sends it to AWS; the answer goes to the handler as it is."""

    def __init__(self, session: "Session") -> None:
        """Keep the session whose credentials are used."""
        self._session = session
        self._http = URLLib3Session(timeout=_TIMEOUT_SECONDS)

    def __call__(self, request: Request, call: Call) -> Answer:
        """Make the call.

        Raises:
            InputError: it cannot be made; nothing answered.
        """
        if call.protocol.startswith("rest-") and request.method not in _SAFE_METHODS:
            # Which operation it is was found by its path: only these two change nothing for sure.
            raise InputError("is allowed, and no GET or HEAD; answer it with --stub")
        try:
            client = self._session.client(call.service, region_name=call.region or None)  # type: ignore[call-overload]
            credentials = self._session.get_credentials()
            if credentials is None:
                raise InputError("is allowed, and there are no credentials")
            base = client.meta.endpoint_url.rstrip("/")
            parts = urlsplit(request.path)
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
            prepared = AWSRequest(request.method, f"{base}{path}", headers, request.body)
            name = call.operation.service_model.signing_name
            signer = S3SigV4Auth if call.service == "s3" else SigV4Auth
            signer(credentials.get_frozen_credentials(), name, client.meta.region_name).add_auth(
                prepared
            )
            answer = self._http.send(prepared.prepare())
        except (BotoCoreError, HTTPClientError, ValueError) as error:
            raise InputError(f"is allowed, and failed: {type(error).__name__}") from error
        kept = {n: v for n, v in answer.headers.items() if n.lower() not in _DROPPED}
        return Answer(answer.status_code, kept, answer.content)
