"""An installation in moto: queues, function, trigger and a stack whose outputs name them."""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3

REGION = "us-east-1"
STACK = "replay-stack"
_DAY = 86_400


def client(name: str) -> Any:
    """Return a client of the servers where ``AWS_ENDPOINT_URL`` differences now."""
    return _client(name, os.environ.get("AWS_ENDPOINT_URL"))


@cache
def _client(name: str, endpoint_url: str | None) -> Any:
    return boto3.client(name, region_name=REGION, endpoint_url=endpoint_url)  # type: ignore[call-overload]


def make_queue(name: str, target_arn: str | None = None, count: int = 5, **more: str) -> str:
    policy = {"deadLetterTargetArn": target_arn, "maxReceiveCount": count}
    redrive = {"RedrivePolicy": json.dumps(policy)} if target_arn else {}
    attributes = {"MessageRetentionPeriod": str(14 * _DAY), "VisibilityTimeout": "180", **more}
    made = client("sqs").create_queue(QueueName=name, Attributes={**attributes, **redrive})
    return str(made["QueueUrl"])


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:123456789012:{name}"


def _make_function(name: str, queue: str | None, timeout_seconds: int, **variables: str) -> str:
    """Make a Lambda function, behind a queue if one is named; return its ARN."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("handler.py", "")
    made = client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=client("iam").get_role(RoleName="r")["Role"]["Arn"],
        Handler="handler.lambda_handler",
        Code={"ZipFile": content.getvalue()},
        Timeout=timeout_seconds,
        Environment={"Variables": variables},
    )
    if queue is not None:
        make_mapping(name, queue)
    return str(made["FunctionArn"])


def make_mapping(function: str, queue: str) -> None:
    client("lambda").create_event_source_mapping(
        FunctionName=function,
        EventSourceArn=arn(queue),
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )


def _make_role() -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))


def make_installation(*others: str) -> str:
    """Make all of it where ``AWS_ENDPOINT_URL`` differences; return the stack's name.

    *others* are names of configured main queues. They are not made.
    """
    parked = make_queue("parked")
    dlq = make_queue("dlq", arn("parked"), 1000)
    main_queue = make_queue("main", arn("dlq"), MessageRetentionPeriod=str(4 * _DAY))

    _make_role()
    function_arn = _make_function(
        "replay",
        "dlq",
        30,
        OTHER_MAIN_QUEUE_ARNS=",".join(arn(name) for name in others),
        MAIN_QUEUE_URL=main_queue,
        DLQ_URL=dlq,
        PARKED_QUEUE_URL=parked,
        MAX_ATTEMPTS="5",
        BACKOFF_RATE="10",
        BACKOFF_CAP_SECONDS="900",
    )

    make_stack(
        STACK,
        ReplayFunctionArn=function_arn,
        MainQueueUrl=main_queue,
        DeadLetterQueueArn=arn("dlq"),
        ParkedQueueArn=arn("parked"),
        ArchiveUri="s3://dead-letters/archive",
        FailureTableName="failures",
        SparkJobName="redrive",
    )
    return STACK


FLEET = "fleet-stack"
QUEUE_TAG = "shop"
"""The name of a fleet's stack, and the value of the tag of its members."""


SWEEP_RULE = "sweep-rule"


def fleet_outputs(**more: str) -> dict[str, str]:
    """Return the outputs of a fleet's stack whose members are read by schedule."""
    function = f"arn:aws:lambda:{REGION}:123456789012:function"
    return {
        "QueueTag": QUEUE_TAG,
        "ReplayFunctionArn": f"{function}:replay",
        "SweepFunctionArn": f"{function}:sweep",
        "SweepRuleName": SWEEP_RULE,
        "ParkedQueueArn": arn("parked"),
        "ArchiveUri": "s3://dead-letters/archive",
        "FailureTableName": "failures",
        **more,
    }


def make_fleet(**variables: str) -> str:
    """Make a fleet that reads by schedule where ``AWS_ENDPOINT_URL`` points; no queue joins.

    *variables* are added to those of its function.
    """
    parked = make_queue("parked")
    _make_role()
    _make_function(
        "replay",
        None,
        30,
        QUEUE_TAG=QUEUE_TAG,
        PARKED_QUEUE_URL=parked,
        MAX_ATTEMPTS="5",
        BACKOFF_RATE="10",
        BACKOFF_CAP_SECONDS="900",
        **variables,
    )
    client("events").put_rule(Name=SWEEP_RULE, ScheduleExpression="rate(1 minute)")
    make_stack(FLEET, **fleet_outputs())
    return FLEET


def url_of(name: str) -> str:
    return str(client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def tags_of(name: str) -> Mapping[str, str]:
    return client("sqs").list_queue_tags(QueueUrl=url_of(name)).get("Tags", {})  # type: ignore[no-any-return]


def join(*names: str) -> None:
    """Tag queues as members of the fleet."""
    for name in names:
        client("sqs").tag_queue(QueueUrl=url_of(name), Tags={"dlq-replay": QUEUE_TAG})


def tagged_resources(_: str) -> tuple[str, str]:
    """Answer GetResources, which moto lacks for queues, for those with the tag ``dlq-replay``."""
    resources: list[Any] = []
    for url in client("sqs").list_queues().get("QueueUrls", []):
        name = url.rpartition("/")[2]
        tags = [{"Key": key, "Value": value} for key, value in tags_of(name).items()]
        if any(tag["Key"] == "dlq-replay" for tag in tags):
            resources.append({"ResourceARN": arn(name), "Tags": tags})
    answer = {"PaginationToken": "", "ResourceTagMappingList": resources}
    return "application/x-amz-json-1.1", json.dumps(answer)


def make_consumer(name: str, timeout_seconds: int, queue: str = "main") -> None:
    """Have a Lambda function consume the queue *of*."""
    _make_function(name, queue, timeout_seconds)


def make_stack(name: str, **outputs: str) -> None:
    topic = {"T": {"Type": "AWS::SNS::Topic", "Properties": {}}}
    values = {output: {"Value": value} for output, value in outputs.items()}
    template = json.dumps({"Resources": topic, "Outputs": values})
    client("cloudformation").create_stack(StackName=name, TemplateBody=template)
