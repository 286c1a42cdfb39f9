"""A custom resource that stops an EMR Serverless application before its stack deletes it.

CloudFormation can delete only a stopped application, and an application stops by itself only after
it was idle for some time. Runs in progress are cancelled. A cancelled run loses no message, and the
archive records its progress.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from functions.custom_resource import Event, answer_to

LIVE_RUNS = ["SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING", "QUEUED"]
STOPPED_STATES = {"CREATED", "STOPPED", "TERMINATED"}

CHECK_SECONDS = 5.0
ANSWER_RESERVE_SECONDS = 30.0
"""Reserved for the answer, before the function's time-out."""


class NotStoppedError(Exception):
    """The application did not stop in time."""


def lambda_handler(event: Mapping[str, Any], context: Any) -> None:  # noqa: ANN401 - Lambda's own
    """Stop the application on Delete, do nothing otherwise, and answer CloudFormation.

    Args:
        event: a custom resource's request; its property is ``ApplicationId``.
        context: Lambda's own; for the remaining time.
    """

    def seconds_left() -> float:
        return float(context.get_remaining_time_in_millis()) / 1000 - ANSWER_RESERVE_SECONDS

    answer_to(event, lambda event: _act(event, seconds_left))


def stop(
    client: Any,  # noqa: ANN401 - boto3's emr-serverless client
    application_id: str,
    seconds_left: Callable[[], float],
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Cancel the runs of an application, stop it, and wait until it has stopped.

    Raises:
        NotStoppedError: it did not stop in time.
        ClientError, BotoCoreError: a call of EMR Serverless failed.
    """
    while not _is_stopped(client, application_id):
        if seconds_left() <= 0:
            raise NotStoppedError(f"{application_id} did not stop in time: delete the stack again")
        sleep(CHECK_SECONDS)


def _is_stopped(client: Any, application_id: str) -> bool:  # noqa: ANN401
    """Request the next step, cancel or stop; return whether the application has stopped."""
    pages = client.get_paginator("list_job_runs").paginate(
        applicationId=application_id, states=LIVE_RUNS
    )
    runs = [run for page in pages for run in page["jobRuns"]]
    for run in runs:
        if run["state"] != "CANCELLING":
            client.cancel_job_run(applicationId=application_id, jobRunId=run["id"])
    if runs:
        return False
    state = client.get_application(applicationId=application_id)["application"]["state"]
    if state == "STARTED":
        client.stop_application(applicationId=application_id)
    return state in STOPPED_STATES


def _act(event: Event, seconds_left: Callable[[], float]) -> dict[str, str]:
    if event["RequestType"] == "Delete":
        stop(_client(), event["ResourceProperties"]["ApplicationId"], seconds_left)
    return {}


@cache
def _client() -> Any:  # noqa: ANN401
    return boto3.client("emr-serverless", config=Config(connect_timeout=5, read_timeout=10))
