"""The templates that stand beside the application: pipe, EMR Serverless, nested application."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from spark_reprocess.command_line.cli import parse
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    ROOT,
    TEMPLATE,
    as_list,
    event_of,
    grants_of,
    statements_of,
)
from tests.contract.translation import faults_of

DLQ = "arn:aws:sqs:us-east-1:123456789012:orders-dlq"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:replay"
KEYS = ",".join(f"arn:aws:kms:us-east-1:123456789012:key/{n}" for n in ("main", "dlq"))

GIVEN: Mapping[str, dict[str, str]] = {
    "pipe-trigger": {"ReplayFunctionArn": FUNCTION, "DLQArn": DLQ},
    "emr-serverless": {
        "ParkedQueueArn": "arn:aws:sqs:us-east-1:123456789012:orders-parked",
        "MainQueueArn": "arn:aws:sqs:us-east-1:123456789012:orders",
        "DLQArn": DLQ,
        "BucketName": "orders-archive",
    },
    "nested-application": {
        "ApplicationId": "arn:aws:serverlessrepo:us-east-1:123456789012:applications/replay"
    },
}
TEMPLATES = {name: load_template(ROOT / "templates" / f"{name}.yaml") for name in GIVEN}


def stack_of(name: str, **given: str) -> Stack:
    return Stack.of(TEMPLATES[name], GIVEN[name] | given)


def test_there_is_no_template_that_is_not_tested() -> None:
    assert {path.stem for path in (ROOT / "templates").glob("*.yaml")} == TEMPLATES.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_cloudformation_s_rules_find_nothing(name: str) -> None:
    assert faults_of(TEMPLATES[name]) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_parameter_is_described_and_bounded(name: str) -> None:
    bounds = {"AllowedPattern", "AllowedValues", "MinValue"}
    for parameter, rule in TEMPLATES[name]["Parameters"].items():
        assert rule["Description"], parameter
        assert rule["ConstraintDescription"].startswith("must be ")
        assert bounds & rule.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_star_stands_only_where_aws_knows_no_resource(name: str) -> None:
    stack = stack_of(name)
    for role in stack.of_type("AWS::IAM::Role"):
        for statement in statements_of(stack, role):
            if "*" in as_list(statement["Resource"]):
                assert statement["Action"] == "cloudwatch:PutMetricData"
            assert not any("*" in action for action in as_list(statement["Action"]))


def pipe_of(stack: Stack) -> dict[str, Any]:
    [pipe] = stack.of_type("AWS::Pipes::Pipe").values()
    return pipe


def test_the_pipe_waits_for_the_answer_that_names_what_must_stay() -> None:
    pipe = pipe_of(stack_of("pipe-trigger"))

    assert (pipe["Source"], pipe["Target"]) == (DLQ, FUNCTION)
    assert pipe["TargetParameters"]["LambdaFunctionParameters"] == {
        "InvocationType": "REQUEST_RESPONSE"
    }
    assert "InputTemplate" not in pipe["TargetParameters"]
    assert "Enrichment" not in pipe


def test_the_pipe_takes_the_batches_that_the_mapping_takes() -> None:
    standard = pipe_of(stack_of("pipe-trigger"))["SourceParameters"]["SqsQueueParameters"]
    fifo = pipe_of(stack_of("pipe-trigger", DLQArn=f"{DLQ}.fifo"))["SourceParameters"]

    assert standard == {"BatchSize": 100, "MaximumBatchingWindowInSeconds": 1}
    assert fifo["SqsQueueParameters"] == {"BatchSize": 10}


def test_the_pipe_may_poll_and_invoke_and_decrypt() -> None:
    assert grants_of(stack_of("pipe-trigger", KmsKeyArns=KEYS), "PipeRole") == {
        DLQ: {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
        FUNCTION: {"lambda:InvokeFunction"},
        **{key: {"kms:Decrypt"} for key in KEYS.split(",")},
    }


def test_the_application_can_leave_polling_to_the_pipe() -> None:
    stack = Stack.of(TEMPLATE, {"ReplayEnabled": "false"})

    assert event_of(stack)["Enabled"] is False
    assert {"ReplayFunctionArn", "DeadLetterQueueArn"} <= stack.outputs.keys()


def test_the_nested_application_is_given_parameters_that_it_has() -> None:
    stack = stack_of("nested-application")
    [nested] = stack.of_type("AWS::Serverless::Application").values()

    assert {"BackoffRate", "MaxAttempts"} <= nested["Parameters"].keys()
    assert Stack.of(TEMPLATE, nested["Parameters"]).broken_rules == []
    version = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]["SemanticVersion"]
    assert nested["Location"]["SemanticVersion"] == version


def run_of(stack: Stack) -> dict[str, Any]:
    [schedule] = stack.of_type("AWS::Scheduler::Schedule").values()
    run = json.loads(schedule["Target"]["Input"])
    assert isinstance(run, dict)
    return run


def arguments_of(stack: Stack) -> list[str]:
    arguments = run_of(stack)["JobDriver"]["SparkSubmit"]["EntryPointArguments"]
    assert isinstance(arguments, list)
    return arguments


def test_the_schedule_starts_one_run_however_often_it_calls() -> None:
    stack = stack_of("emr-serverless")
    [application] = stack.of_type("AWS::EMRServerless::Application").values()

    assert run_of(stack)["ClientToken"] == "<aws.scheduler.execution-id>"
    assert application["SchedulerConfiguration"]["MaxConcurrentRuns"] == 1
    assert application["ReleaseLabel"] == "emr-spark-8.1.0"


def test_the_run_is_that_of_the_application_s_own_job() -> None:
    queue = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
    plain = stack_of("emr-serverless")
    acting = stack_of("emr-serverless", PolicyKey="dlq/policy.yaml", Execute="true")
    careful = stack_of("emr-serverless", JobOptions="--canary 50 --max-rate 100")

    assert arguments_of(plain) == [
        "run",
        *("--archive", "s3://orders-archive/archive"),
        *("--parked-queue-url", f"{queue}-parked"),
        *("--main-queue-url", queue),
        "--no-samples",
    ]
    assert arguments_of(acting) == [
        *arguments_of(plain)[:-1],
        *("--policy", "s3://orders-archive/dlq/policy.yaml"),
        *("--execute", "--reason", "schedule of the stack dead-letters"),
        "--no-samples",
    ]
    assert "--no-samples" not in arguments_of(stack_of("emr-serverless", Samples="true"))
    assert {parse(arguments_of(one)).name for one in (plain, acting, careful)} == {"run"}
    assert arguments_of(careful)[-4:] == ["--canary", "50", "--max-rate", "100"]
    assert stack_of("emr-serverless", Execute="true").broken_rules == ["ExecutionNeedsAPolicy"]


def test_on_emr_too_the_run_is_told_the_hash_that_the_policy_must_have() -> None:
    pinned = stack_of("emr-serverless", PolicyKey="p.yaml", PolicySha256="0a" * 32)

    assert arguments_of(pinned)[-3:-1] == ["--policy-sha256", "0a" * 32]
    assert pinned.broken_rules == []
    alone = stack_of("emr-serverless", PolicySha256="0a" * 32)
    assert alone.broken_rules == ["HashNeedsAPolicy"]


@pytest.mark.parametrize(
    "given",
    [
        {"PolicyKey": "dlq/*"},
        {"JobOptions": "--execute"},
        {"JobOptions": "--max-rate 5 --policy s3://b/x"},
        {"JobOptions": "--main-queue-url x"},
    ],
)
def test_on_emr_too_no_parameter_decides_for_another(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be"):
        stack_of("emr-serverless", **given)


def test_python_and_its_packages_come_from_the_packed_environment() -> None:
    submit = run_of(stack_of("emr-serverless"))["JobDriver"]["SparkSubmit"]
    parameters = submit["SparkSubmitParameters"]

    assert submit["EntryPoint"] == "s3://orders-archive/emr/spark_job.py"
    assert "--py-files s3://orders-archive/emr/spark_reprocess.zip" in parameters
    assert "spark.archives=s3://orders-archive/emr/environment.tar.gz#environment" in parameters
    for variable in ("driverEnv.PYSPARK_DRIVER_PYTHON", "driverEnv.PYSPARK_PYTHON"):
        assert f"spark.emr-serverless.{variable}=./environment/bin/python" in parameters
    assert "spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python" in parameters


@pytest.mark.parametrize("given", [{}, {"MaximumExecutors": "99"}])
def test_a_run_takes_as_many_executors_as_the_parameter_says_and_they_have_room(
    given: dict[str, str],
) -> None:
    stack = stack_of("emr-serverless", **given)
    [application] = stack.of_type("AWS::EMRServerless::Application").values()
    submit = run_of(stack)["JobDriver"]["SparkSubmit"]["SparkSubmitParameters"]
    executors = int(re.findall(r"spark\.dynamicAllocation\.maxExecutors=(\d+)", submit)[0])
    room = {key: int(text.split()[0]) for key, text in application["MaximumCapacity"].items()}
    # EMR Serverless, "Using Spark configurations": 4 vCPU and 14 GB, of which 10 % come on top.
    cpus, gigabytes = 4, 14 * 1.1

    assert executors == int(given.get("MaximumExecutors", 3))
    assert (executors + 1) * cpus <= room["Cpu"]
    assert (executors + 1) * gigabytes <= room["Memory"]
    new_account_cpus = 16
    assert given or (executors + 1) * cpus == new_account_cpus


def test_workers_reach_sqs_s3_and_cloudwatch_and_nothing_else() -> None:
    stack = stack_of("emr-serverless")
    endpoints = stack.of_type("AWS::EC2::VPCEndpoint").values()
    types = {resource["Type"] for resource in stack.resources.values()}

    assert {one["ServiceName"].rpartition(".")[2] for one in endpoints} == {
        "s3",
        "sqs",
        "monitoring",
    }
    policies = {
        one["ServiceName"].rpartition(".")[2]: one["PolicyDocument"]["Statement"]
        for one in endpoints
        if "PolicyDocument" in one
    }
    [sqs], [monitoring] = policies["sqs"], policies["monitoring"]
    queues = [
        GIVEN["emr-serverless"][name] for name in ("ParkedQueueArn", "MainQueueArn", "DLQArn")
    ]
    assert sqs["Resource"] == queues
    assert monitoring["Action"] == "cloudwatch:PutMetricData"
    assert not types & {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"}
    workers = stack.resources["WorkerSecurityGroup"]["Properties"]
    assert "SecurityGroupIngress" not in workers


def test_a_stack_that_is_deleted_ends_the_schedule_then_the_runs_then_the_application() -> None:
    """CloudFormation deletes what depends on another resource before that."""
    resources = TEMPLATES["emr-serverless"]["Resources"]

    assert resources["Schedule"]["DependsOn"] == "StopBeforeDelete"
    assert resources["StopBeforeDelete"]["Properties"]["ApplicationId"] == {"Ref": "Application"}
    assert "StopApplicationFunction" in str(resources["StopBeforeDelete"]["Properties"])


def test_the_function_that_stops_it_may_do_that() -> None:
    stack = stack_of("emr-serverless")

    assert grants_of(stack, "StopApplicationRole") == {
        "Application.Arn": {
            "emr-serverless:GetApplication",
            "emr-serverless:ListJobRuns",
            "emr-serverless:StopApplication",
        },
        "Application.Arn/jobruns/*": {"emr-serverless:CancelJobRun"},
        "StopApplicationLogGroup.Arn": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


def test_the_schedule_may_pass_the_job_s_role_to_emr_alone() -> None:
    [passing] = [
        one
        for one in statements_of(stack_of("emr-serverless"), "ScheduleRole")
        if one["Action"] == "iam:PassRole"
    ]

    assert passing["Resource"] == "JobRole.Arn"
    assert passing["Condition"] == {
        "StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}
    }


def test_on_emr_the_job_may_do_what_it_may_do_on_glue() -> None:
    """The queues, the archive, the metrics and the keys; each cluster's own files differ."""
    sids = {"DrainParkedQueue", "RedriveToMainQueue", "ListArchive", "ReadAndWriteArchive"}
    sids |= {"InspectDeadLetterQueue", "ReadPolicy", "PublishMetrics", "UseKeysOfQueues"}
    glue = Stack.of(
        TEMPLATE,
        {
            "CreateSparkJob": "true",
            "SparkJobPolicyUri": "s3://rules/p.yaml",
            "MainQueueKmsKeyArn": KEYS.split(",")[0],
        },
    )
    emr = stack_of("emr-serverless", PolicyKey="p.yaml", KmsKeyArns=KEYS)

    actions = [
        {one["Sid"]: one["Action"] for one in statements_of(stack, role) if one["Sid"] in sids}
        for stack, role in ((glue, "SparkJobRole"), (emr, "JobRole"))
    ]
    assert actions[0].keys() == sids
    assert actions[0] == actions[1]
