"""The identity behind a run and its reason, for the ledger.

The identity is user and machine, and the AWS identity of the credentials.
"""

import getpass
import os
import socket
from dataclasses import dataclass

from botocore.config import Config

from dlq.aws.clients import aws_client, aws_session
from dlq.errors import InputError, JobError, without_sql
from dlq_replay.aws.sqs import describe

JOB_RUN_ID = "JOB_RUN_ID"
"""Glue's argument, and the environment variable in which ``glue_job`` passes it on."""

_STS = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 1})
"""Short: a run must not wait for STS in a network that cannot reach it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The credentials and the job run of a run.

    Attributes:
        caller_arn: of the user or the assumed role, from STS; None if STS did not answer.
        caller_fault: why STS did not answer; empty if it did.
        job_run_id: of AWS Glue, or else of the Spark application; empty for local mode.
    """

    caller_arn: str | None = None
    caller_fault: str = ""
    job_run_id: str = ""

    def __str__(self) -> str:
        """Format the caller for people; empty if nothing is known of it."""
        if not (self.caller_arn or self.caller_fault):
            return ""
        identity = self.caller_arn or f"unknown ({self.caller_fault})"
        return f"{identity}, job run {self.job_run_id}" if self.job_run_id else identity


def actor() -> str:
    """Return user and machine as ``user@host``; the user is "unknown" if nothing names one.

    The user comes from the environment (``LOGNAME``, ``USER``), so it is no proof of identity.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def require_reason(reason: str, *, execute: bool) -> None:
    """Raise InputError if a run executes something and gives no reason."""
    if execute and not reason.strip():
        raise InputError("--execute needs --reason: one sentence on why, for the ledger")


def caller(application_id: str | None, region: str | None = None) -> Caller:
    """Ask STS for the identity of the credentials. Never raises; needs no permission.

    *region* is that of STS if the environment names none.
    """
    job_run_id = os.environ.get(JOB_RUN_ID, "")
    # A local session's application id finds no logs.
    if not job_run_id and application_id and not application_id.startswith("local-"):
        job_run_id = application_id

    try:
        sts_region = aws_session().region_name or region
        arn = aws_client("sts", _STS, sts_region).get_caller_identity()["Arn"]
    except Exception as error:  # noqa: BLE001 - no error here may end the run
        return Caller(caller_fault=describe(error), job_run_id=job_run_id)
    return Caller(arn, job_run_id=job_run_id)


def text_of(error: JobError) -> str:
    """Return an error's text; in a run on AWS Glue without an operator's SQL.

    The log and the result of such a run keep it, and no erase reaches them.
    """
    return without_sql(error) if os.environ.get(JOB_RUN_ID) else str(error)
