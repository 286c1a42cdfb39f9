"""Answers of a server at the endpoint that is not AWS, for a client that asks nobody."""

import io
from functools import partial
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

PAGE = "<html><head><title>Blocked</title></head><body>by the proxy</body></html>"

FOREIGN: dict[str, tuple[int, str]] = {
    "a page": (200, PAGE),
    "nothing": (200, ""),
    "a page that is no XML": (200, "<!doctype html><p>Sign in<br>"),
    "a list": (200, "[1]"),
    "null": (200, "null"),
    "a page that refuses": (403, PAGE),
    "a text that refuses": (407, "authentication required"),
    "a refusal without a text": (403, ""),
    "a page of a gateway": (502, PAGE),
    "a text of a gateway": (502, "bad gateway"),
}
"""Status and body by what they are. No queue and no table answers so."""


def answer_always(events: Any, status: int, body: str) -> None:
    """Answer every request of a client, or of a session, by its *events*."""
    events.register("before-send", partial(_respond, status, body.encode()))


def _respond(status: int, body: bytes, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    raw = io.BytesIO(body)
    raw.stream = lambda *_, **__: iter([raw.read()])  # type: ignore[attr-defined]
    return AWSResponse(request.url, status, {"Content-Type": "text/html"}, raw)  # type: ignore[arg-type]
