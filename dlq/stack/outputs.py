"""The values that a stack's outputs give to a command's options."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq.cli.running import add_archive
from dlq.cli.verb import STACK_VARIABLE, Verb
from dlq.errors import InputError
from dlq_replay.aws.sqs import describe
from dlq_replay.aws.tagged_queues import TAG_KEY
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
        main_queue_url: None in a fleet, which has members in place of queues of its own.
        dlq_url: None in a fleet.
        parked_queue_url: of a fleet, the standard parked queue.
        archive: None if the stack has no Spark job, and so no archive.
        failure_table: None if consumers record no failures.
        spark_job: name of the AWS Glue job; None without one.
        replay_enabled: the parameter ``ReplayEnabled``.
        main_retention_seconds: the parameter ``MessageRetentionPeriod``.
        log_groups: names of the log groups in the parameter ``ConsumerLogGroupArns``.
        queue_tag: of a fleet, the value of the tag ``dlq-replay`` that its members carry; else
            None.
        fifo_parked_queue_url: of a fleet with FIFO members; else None.
        sweep_function_arn: of a fleet that reads its members by schedule; else None.
        sweep_rule: the name of the rule with that schedule; None without one.
    """

    stack: str
    status: str
    function_arn: str
    main_queue_url: str | None
    dlq_url: str | None
    parked_queue_url: str
    archive: str | None
    failure_table: str | None
    spark_job: str | None
    replay_enabled: bool
    main_retention_seconds: int
    pointer_bucket: str | None = None
    log_groups: tuple[str, ...] = ()
    queue_tag: str | None = None
    fifo_parked_queue_url: str | None = None
    sweep_function_arn: str | None = None
    sweep_rule: str | None = None

    def require_one_main_queue(self) -> str:
        """Return the URL of the main queue. Raises InputError if the stack is a fleet."""
        if self.main_queue_url is None:
            raise InputError(
                f"stack {self.stack}: has no main queue, because it is a fleet: its queues are "
                f"those with the tag {TAG_KEY}={self.queue_tag}; give a stack of one main queue"
            )
        return self.main_queue_url

    @property
    def queues_in_words(self) -> str:
        """The name of its main queue, or that it is a fleet, with the tag of its members."""
        if self.main_queue_url is None:
            return f"fleet {TAG_KEY}={self.queue_tag}"
        return self.main_queue_url.rpartition("/")[2]

    def require_archive(self) -> str:
        """Return the archive. Raises InputError if there is none."""
        if self.archive is None:
            raise InputError(
                f"stack {self.stack}: has no archive, because it was deployed without the Spark "
                "job; deploy it with CreateSparkJob=true, or give --archive"
            )
        return self.archive


@cache
def stack_options(verb: Verb) -> Mapping[str, bool]:
    """Return the options of a verb with ``--archive`` for which a stack has a value.

    With each, whether it may be repeated.
    """
    # Some verbs have an --archive of their own, which may be missing.
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    add_archive(parser)
    verb.add_arguments(parser)
    names = {f"--{field.name.replace('_', '-')}" for field in fields(StackValues)}
    options: dict[str, bool] = {}
    # argparse has no other list of options.
    for option, action in parser._option_string_actions.items():  # noqa: SLF001
        if option in names:
            options[option] = isinstance(action.default, list)
    return options


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
        client = clients_of(session)
        answer = client("cloudformation").describe_stacks(StackName=stack)
        values = _values(answer["Stacks"][0], client)
    if values is None:
        raise InputError(
            f"stack {stack}: has no output {_FUNCTION}, so it is not an installation of this "
            "product; dlq status --stack '' lists those that are (of a nested application, the "
            "nested stack)"
        )
    return values


def read_stacks(session: "Session") -> list[StackValues]:
    """Read the installations of the session's account and Region, by name.

    Raises:
        InputError: the stacks could not be listed.
    """
    installations: list[StackValues] = []
    with aws_errors("the stacks cannot be listed"):
        client = clients_of(session)
        for page in client("cloudformation").get_paginator("describe_stacks").paginate():
            for stack in page["Stacks"]:
                values = _values(stack, client)
                if values is not None:
                    installations.append(values)
    return sorted(installations, key=lambda installation: installation.stack)


def required(stack: str | None) -> str:
    """Return *stack*, for a verb that requires one. Raises InputError if it is None."""
    if stack is None:
        raise InputError(
            f"no stack is given: use --stack NAME, set {STACK_VARIABLE}, or choose one by dlq use; "
            "dlq status lists them"
        )
    return stack


def _values(stack: "StackTypeDef", client: Callable[[str], Any]) -> StackValues | None:
    """Return the values of a stack; None if it is not an installation.

    *client* makes the clients of the stack's Region.
    """
    outputs: dict[str, str] = {}
    for output in stack.get("Outputs", []):
        outputs[output["OutputKey"]] = output["OutputValue"]
    if _FUNCTION not in outputs:
        return None

    parameters: dict[str, str] = {}
    for parameter in stack.get("Parameters", []):
        parameters[parameter["ParameterKey"]] = parameter["ParameterValue"]

    # All queues are in one Region.
    main_queue_url = None if "QueueTag" in outputs else outputs["MainQueueUrl"]
    sqs_url = main_queue_url or f"{client('sqs').meta.endpoint_url}/account/queue"
    urls: dict[str, str] = {}
    for name in ("DeadLetterQueueArn", "ParkedQueueArn", "FifoParkedQueueArn"):
        if name in outputs:
            urls[name] = QueueAddress.from_arn(outputs[name]).url_beside(sqs_url)

    log_group_arns = filter(None, parameters.get("ConsumerLogGroupArns", "").split(","))
    return StackValues(
        stack=stack["StackName"],
        status=stack["StackStatus"],
        function_arn=outputs[_FUNCTION],
        main_queue_url=main_queue_url,
        dlq_url=urls.get("DeadLetterQueueArn"),
        parked_queue_url=urls["ParkedQueueArn"],
        archive=outputs.get("ArchiveUri"),
        failure_table=outputs.get("FailureTableName"),
        spark_job=outputs.get("SparkJobName"),
        replay_enabled=parameters.get("ReplayEnabled") != "false",
        main_retention_seconds=int(parameters.get("MessageRetentionPeriod", 345_600)),
        pointer_bucket=parameters.get("PointerBucketName") or None,
        log_groups=tuple(map(_log_group_name, log_group_arns)),
        queue_tag=outputs.get("QueueTag"),
        fifo_parked_queue_url=urls.get("FifoParkedQueueArn"),
        sweep_function_arn=outputs.get("SweepFunctionArn"),
        sweep_rule=outputs.get("SweepRuleName"),
    )


def _log_group_name(arn: str) -> str:
    return arn.partition(":log-group:")[2].removesuffix(":*")
