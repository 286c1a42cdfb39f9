"""Answers CloudFormation for a custom resource: exactly once, also after an error.

Without an answer a deployment waits until it times out. A failed Delete would block the deletion of
the stack, so a Delete is always answered with success, and the error is logged.
"""

import json
import logging
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

ANSWER_ATTEMPTS = 3
ANSWER_TIMEOUT_SECONDS = 5

logger = logging.getLogger()
logger.setLevel(logging.INFO)

Event = Mapping[str, Any]


def put_answer(url: str, content: bytes) -> None:
    """Send an answer to CloudFormation.

    Args:
        url: the ``ResponseURL`` of the event.
        content: the answer as JSON.

    Raises:
        OSError: three tries failed.
    """
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own https URL
        url, data=content, method="PUT", headers={"Content-Type": ""}
    )
    for attempt in range(1, ANSWER_ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_SECONDS):  # noqa: S310
                return
        except OSError:
            if attempt == ANSWER_ATTEMPTS:
                raise
            logger.warning("the answer could not be sent; retrying")
            time.sleep(attempt)


def answer_to(
    event: Event,
    act: Callable[[Event], Mapping[str, str]],
    put: Callable[[str, bytes], None] = put_answer,
) -> None:
    """Carry out *event* with *act*, and send exactly one answer.

    Args:
        event: the request of a custom resource.
        act: carries out the request and returns the data of the answer.
        put: sends the answer to a URL.

    Raises:
        OSError: the answer could not be sent.
    """
    status, reason, data = "SUCCESS", "", {}
    try:
        data = dict(act(event))
    except Exception as error:
        logger.exception("the request failed")
        reason = f"{type(error).__name__}: {error}"
        status = "SUCCESS" if event["RequestType"] == "Delete" else "FAILED"
    answer = {
        "Status": status,
        "Reason": reason,
        # Must not change in an update, or CloudFormation would send a Delete for the old id.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data,
    }
    put(event["ResponseURL"], json.dumps(answer).encode())
