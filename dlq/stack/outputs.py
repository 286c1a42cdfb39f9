"""The values that a stack's outputs give to a command's options, and the list of such stacks."""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq.cli.running import add_archive
from dlq.cli.terminal import print_answer, print_line, print_table
from dlq.cli.verb import DONE, STACK_VARIABLE, Verb
from dlq.errors import InputError
from dlq.stack.user_files import keep_stack_names
from dlq_replay.aws.sqs import describe
from dlq_replay.wire.addresses import QueueAddress

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_cloudformation.type_defs import StackTypeDef

_FUNCTION = "ReplayFunctionArn"


@dataclass(frozen=True, slots=True)
class StackValues:
    """The resources of an installation.

    Options of verbs take their value from the field of the same name.

    Attributes:
        archive: None if the stack has no Spark job, and so no archive.
        failure_table: None if consumers record no failures.
        spark_job: name of the AWS Glue job; None without one.
        replay_enabled: the parameter ``ReplayEnabled``.
        main_retention_seconds: the parameter ``MessageRetentionPeriod``.
        log_groups: names of the log groups in the parameter ``ConsumerLogGroupArns``.
    """

    stack: str
    status: str
    function_arn: str
    main_queue_url: str
    dlq_url: str
    parked_queue_url: str
    archive: str | None
    failure_table: str | None
    spark_job: str | None
    replay_enabled: bool
    main_retention_seconds: int
    pointer_bucket: str | None = None
    log_groups: tuple[str, ...] = ()

    def require_archive(self) -> str:
        """Return the archive. Raises InputError if there is none."""
        if self.archive is None:
            raise InputError(
                f"stack {self.stack}: has no archive, because it was deployed without the Spark "
                "job; deploy it with CreateSparkJob=true, or give --archive"
            )
        return self.archive


@cache
def stack_options(verb: Verb) -> tuple[str, ...]:
    """Return the options of a verb with ``--archive`` for which a stack has a value."""
    # Some verbs have an --archive of their own, which may be missing.
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    add_archive(parser)
    verb.add_arguments(parser)
    names = {f"--{field.name.replace('_', '-')}" for field in fields(StackValues)}
    # argparse has no other list of options.
    return tuple(option for option in parser._option_string_actions if option in names)  # noqa: SLF001


@contextmanager
def aws_errors(subject: str, hint: str = "") -> Iterator[None]:
    """Turn an error of AWS in the block into an InputError: the *subject*, why, and the *hint*."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        parts = [f"{subject}: {describe(error)}"]
        if hint:
            parts.append(hint)
        raise InputError("; ".join(parts)) from error


def clients_of(session: "Session") -> Callable[[str], Any]:
    """Return a function that makes one client for each service, and keeps it."""
    make: Callable[[str], Any] = session.client  # type: ignore[assignment]
    return cache(make)


def read_stack(session: "Session", stack: str) -> StackValues:
    """Read the outputs of an installation.

    Raises:
        InputError: there is no such stack, access is denied, or it is not one of this product.
    """
    hint = "check name, Region and credentials; dlq status --stack '' lists the installations"
    with aws_errors(f"stack {stack}", hint):
        answer = session.client("cloudformation").describe_stacks(StackName=stack)
        values = _values(answer["Stacks"][0])
    if values is None:
        raise InputError(
            f"stack {stack}: has no output {_FUNCTION}, so it is not an installation of this "
            "product; dlq status --stack '' lists those that are (of a nested application, the "
            "nested stack)"
        )
    return values


def list_installations(session: "Session") -> int:
    """Print the installations of the session's account and Region, by name; return the exit code.

    Raises:
        InputError: the stacks could not be listed.
    """
    installations: list[StackValues] = []
    with aws_errors("the stacks cannot be listed"):
        paginator = session.client("cloudformation").get_paginator("describe_stacks")
        for page in paginator.paginate():
            installations += filter(None, map(_values, page["Stacks"]))
    installations.sort(key=lambda installation: installation.stack)
    keep_stack_names(os.environ, [installation.stack for installation in installations])

    def show() -> None:
        if not installations:
            print_line("no installation in this account and Region (--region, --profile)")
            return
        headings = ("stack", "main queue", "archive", "status")
        rows = list(map(_shown_row, installations))
        print_table(headings, rows, spare=("status", "main queue"))
        print_line("next: dlq use STACK, or give one of these names as --stack")

    print_answer({"stacks": list(map(asdict, installations))}, show)
    return DONE


def _shown_row(installation: StackValues) -> tuple[str, str, str, str]:
    return (
        installation.stack,
        installation.main_queue_url.rpartition("/")[2],
        installation.archive or "none",
        installation.status.lower().replace("_", " "),
    )


def required(stack: str | None) -> str:
    """Return *stack*, for a verb that requires one. Raises InputError if it is None."""
    if stack is None:
        raise InputError(
            f"no stack is given: use --stack NAME, set {STACK_VARIABLE}, or choose one by dlq use; "
            "dlq status lists them"
        )
    return stack


def _values(stack: "StackTypeDef") -> StackValues | None:
    """Return the values of a stack; None if it is not an installation."""
    outputs: dict[str, str] = {}
    for output in stack.get("Outputs", []):
        outputs[output["OutputKey"]] = output["OutputValue"]
    if _FUNCTION not in outputs:
        return None

    parameters: dict[str, str] = {}
    for parameter in stack.get("Parameters", []):
        parameters[parameter["ParameterKey"]] = parameter["ParameterValue"]

    # The three queues are in one Region.
    main_queue_url = outputs["MainQueueUrl"]
    dlq = QueueAddress.from_arn(outputs["DeadLetterQueueArn"])
    parked_queue = QueueAddress.from_arn(outputs["ParkedQueueArn"])
    log_group_arns = filter(None, parameters.get("ConsumerLogGroupArns", "").split(","))
    return StackValues(
        stack=stack["StackName"],
        status=stack["StackStatus"],
        function_arn=outputs[_FUNCTION],
        main_queue_url=main_queue_url,
        dlq_url=dlq.url_beside(main_queue_url),
        parked_queue_url=parked_queue.url_beside(main_queue_url),
        archive=outputs.get("ArchiveUri"),
        failure_table=outputs.get("FailureTableName"),
        spark_job=outputs.get("SparkJobName"),
        replay_enabled=parameters.get("ReplayEnabled") != "false",
        main_retention_seconds=int(parameters.get("MessageRetentionPeriod", 345_600)),
        pointer_bucket=parameters.get("PointerBucketName") or None,
        log_groups=tuple(map(_log_group_name, log_group_arns)),
    )


def _log_group_name(arn: str) -> str:
    return arn.partition(":log-group:")[2].removesuffix(":*")
