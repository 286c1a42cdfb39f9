"""How a custom resource answers CloudFormation: once, whatever happens.

An event that gets no answer keeps a deployment waiting for its time-out. A Delete that failed
would keep the stack from being deleted at all, so it is answered as done, and what went wrong is
in the log.
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
    """Send an answer to CloudFormation's own address.

    Raises:
        OSError: it was refused three times.
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
            logger.warning("CloudFormation did not take the answer; trying again")
            time.sleep(attempt)


def answer_to(
    event: Event,
    act: Callable[[Event], Mapping[str, str]],
    put: Callable[[str, bytes], None] = put_answer,
) -> None:
    """Do what *event* asks for with *act*, and send exactly one answer with what it returns.

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
        # The same through all updates, or CloudFormation would send a Delete for the old one.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data,
    }
    put(event["ResponseURL"], json.dumps(answer).encode())
