"""Encodes and decodes AWS JSON 1.0, the protocol between botocore and SQS.

Binary values are base64 text in the protocol and bytes inside. An error has its older code in
``x-amzn-query-error``, which boto3 uses to find the exception (``awsQueryCompatible`` in the
service model).
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from local_sqs.errors import SqsError

CONTENT_TYPE = "application/x-amz-json-1.0"
TARGET_PREFIX = "AmazonSQS."


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def operation_of(target: str) -> str:
    """Return the operation of an ``X-Amz-Target`` header.

    Raises:
        SqsError: it is not one of SQS.
    """
    if not target.startswith(TARGET_PREFIX):
        raise SqsError("UnknownOperationException", f"Not an operation of SQS: {target!r}")
    return target.removeprefix(TARGET_PREFIX)


def decode(body: bytes) -> dict[str, Any]:
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
    except (ValueError, AttributeError, TypeError, binascii.Error) as error:
        raise SqsError("SerializationException", "The request cannot be read.") from error
    return dict(request)


def encode(answer: Mapping[str, Any]) -> Reply:
    """Return the HTTP answer of a successful call."""
    body = json.dumps(answer, default=_blob).encode() if answer else b"{}"
    return Reply(200, {"Content-Type": CONTENT_TYPE}, body)


def encode_error(error: SqsError) -> Reply:
    """Return the HTTP answer of a refused call."""
    fault = "Sender" if error.is_sender_fault else "Receiver"
    headers = {"Content-Type": CONTENT_TYPE, "x-amzn-query-error": f"{error.code};{fault}"}
    body = {"__type": f"com.amazonaws.sqs#{error.shape}", "message": error.message}
    return Reply(error.status, headers, json.dumps(body).encode())


def _blob(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} cannot be encoded in an answer")
