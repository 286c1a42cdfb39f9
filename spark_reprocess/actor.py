"""Who acts, for the ledger: the name that this machine gives, and what AWS says of the caller."""

import getpass
import os
import socket
from dataclasses import dataclass

import boto3
from botocore.config import Config

from dlq_replay.sqs import describe

JOB_RUN_ID = "JOB_RUN_ID"
"""The environment variable in which ``glue_job`` hands on the id of the AWS Glue job run."""

_STS = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 1})
"""A run must not wait for STS: a network without a way to it costs 2 s."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose credentials a run acts with, and in which job run.

    Attributes:
        caller_arn: of the user or the assumed role, as STS says it; None where STS did not answer.
        caller_fault: why it did not; empty where it did.
        job_run_id: of AWS Glue, or else of the Spark application; empty on a machine of one's own.
    """

    caller_arn: str | None = None
    caller_fault: str = ""
    job_run_id: str = ""

    def __str__(self) -> str:
        """Format it for people."""
        who = self.caller_arn or f"unknown ({self.caller_fault})"
        return f"{who}, job run {self.job_run_id}" if self.job_run_id else who


def actor() -> str:
    """Name the user and the machine, ``user@host``; the user is "unknown" where nothing tells.

    The user is what the environment says (``LOGNAME``, ``USER``), so it proves nothing.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def caller(application_id: str | None, region: str | None = None) -> Caller:
    """Ask STS whose credentials these are. Never raises; needs no permission.

    Args:
        application_id: Spark's.
        region: where STS is asked if the environment names no Region.
    """
    job_run_id = os.environ.get(JOB_RUN_ID) or _of_cluster(application_id)
    try:
        session = boto3.session.Session()
        chosen = os.environ.get("AWS_REGION") or session.region_name or region
        arn = session.client("sts", region_name=chosen, config=_STS).get_caller_identity()["Arn"]
    except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
        return Caller(None, describe(error), job_run_id)
    return Caller(arn, "", job_run_id)


def _of_cluster(application_id: str | None) -> str:
    """Return the application's id, which finds its logs; a local session's finds nothing."""
    return "" if application_id is None or application_id.startswith("local-") else application_id
