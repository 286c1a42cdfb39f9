"""Sessions of boto3 of which some calls are answered by a test, and never leave the process."""

import io
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

Answer = Callable[[str], tuple[Any, ...]]
"""A content type and a text for a request's body, and an HTTP status if it is not 200."""


def session_answering(answers: Mapping[str, Answer], **options: Any) -> boto3.session.Session:
    """Make a session whose calls of some operations, ``service.Operation``, never leave it."""
    session = boto3.session.Session(**{"region_name": os.environ["AWS_REGION"], **options})

    def respond(answer: Answer, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body = request.body or ""
        kind, text, *status = answer(body.decode() if isinstance(body, bytes) else str(body))
        raw = io.BytesIO(text.encode())
        raw.stream = lambda *_, **__: iter([raw.read()])  # type: ignore[attr-defined]
        return AWSResponse(request.url, (status or [200])[0], {"Content-Type": kind}, raw)  # type: ignore[arg-type]

    for operation, answer in answers.items():
        # What a handler of this event returns is the response; its type says None.
        handler: Any = partial(respond, answer)
        session.events.register(f"before-send.{operation}", handler)
    return session
