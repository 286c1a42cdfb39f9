"""A custom resource that stops an EMR Serverless application before its stack deletes it.

CloudFormation deletes an application only when it is stopped, and it stops by itself only when it
has been idle for a while. Runs that are under way are cancelled: a run that is cut off loses
nothing, and the archive says how far it came.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from functions.custom_resource import Event, answer_to

LIVE_RUNS = ["SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING", "QUEUED"]
AT_REST = {"CREATED", "STOPPED", "TERMINATED"}

LOOK_EVERY_SECONDS = 5.0
ANSWER_RESERVE_SECONDS = 30.0
"""Kept back from the function's time-out for the answer."""


class NotStoppedError(Exception):
    """The application was still at work when time was up."""


def lambda_handler(event: Mapping[str, Any], context: Any) -> None:  # noqa: ANN401 - Lambda's own
    """Stop the application on Delete, do nothing otherwise, and answer CloudFormation.

    Args:
        event: a custom resource's request; its property is ``ApplicationId``.
        context: says how much time is left.
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
    """Cancel the runs of an application, stop it, and wait until it is at rest.

    Raises:
        NotStoppedError: time was up before.
        ClientError, BotoCoreError: the application is out of reach.
    """
    while _is_at_work(client, application_id):
        if seconds_left() <= 0:
            raise NotStoppedError(f"{application_id} did not stop in time: delete the stack again")
        sleep(LOOK_EVERY_SECONDS)


def _is_at_work(client: Any, application_id: str) -> bool:  # noqa: ANN401
    """Look, push on what holds it up, and tell whether to look again."""
    pages = client.get_paginator("list_job_runs").paginate(
        applicationId=application_id, states=LIVE_RUNS
    )
    runs = [run for page in pages for run in page["jobRuns"]]
    for run in runs:
        if run["state"] != "CANCELLING":
            client.cancel_job_run(applicationId=application_id, jobRunId=run["id"])
    if runs:
        return True
    state = client.get_application(applicationId=application_id)["application"]["state"]
    if state == "STARTED":
        client.stop_application(applicationId=application_id)
    return state not in AT_REST


def _act(event: Event, seconds_left: Callable[[], float]) -> dict[str, str]:
    if event["RequestType"] == "Delete":
        stop(_client(), event["ResourceProperties"]["ApplicationId"], seconds_left)
    return {}


@cache
def _client() -> Any:  # noqa: ANN401
    return boto3.client("emr-serverless", config=Config(connect_timeout=5, read_timeout=10))
