import re
import shlex
from typing import Any

import pytest

from spark_reprocess.command_line.cli import parse
from spark_reprocess.erase.erase import EraseOptions
from spark_reprocess.glue_job import OPTION, command_of
from tests.contract.cloudformation import Stack
from tests.contract.template import (
    FIFO,
    KEYS,
    NO_ALARMS,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    RETAINED,
    SPARK_JOB,
    TEMPLATE,
    grants_of,
)

OWN = "https://sqs.us-east-1.amazonaws.com/210987654321/orders"
POLICY = {"SparkJobPolicyUri": "s3://rules/dlq/(orders)!policy.yaml"}


def stack_of(**given: str) -> Stack:
    return Stack.of(TEMPLATE, SPARK_JOB | given)


def bucket_of(stack: Stack) -> dict[str, Any]:
    [bucket] = stack.of_type("AWS::S3::Bucket").values()
    return bucket


def job_of(stack: Stack) -> dict[str, Any]:
    [job] = stack.of_type("AWS::Glue::Job").values()
    return job


def command_line_of(stack: Stack, job: str = "SparkJob") -> list[str]:
    """What the job would run: Glue's arguments, as the script reads them."""
    arguments = stack.resources[job]["Properties"]["DefaultArguments"]
    passed = [word for pair in arguments.items() for word in pair]
    return command_of(["--JOB_NAME", "SparkJob", *passed, "--JOB_RUN_ID", "jr_1"])


def test_without_the_parameter_nothing_of_the_job_is_created() -> None:
    types = {one["Type"] for one in Stack.of(TEMPLATE, NO_ALARMS).resources.values()}

    assert not {kind for kind in types if "Glue" in kind or "S3" in kind or "Custom" in kind}
    assert not {"PublishJobFunction", "SparkJobRole"} & Stack.of(TEMPLATE).resources.keys()


def test_the_archive_outlives_the_stack_private_encrypted_and_versioned() -> None:
    stack = stack_of()
    bucket = stack.resources["ArchiveBucket"]
    policy = stack.resources["ArchiveBucketPolicy"]

    for one in (bucket, policy):
        assert (one["DeletionPolicy"], one["UpdateReplacePolicy"]) == RETAINED
    properties = bucket["Properties"]
    assert all(properties["PublicAccessBlockConfiguration"].values())
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "SSEAlgorithm" in str(properties["BucketEncryption"])
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert statement["Resource"] == ["arn:aws:s3:::archivebucket", "arn:aws:s3:::archivebucket/*"]


def test_nothing_that_is_archived_expires_by_itself() -> None:
    rules = bucket_of(stack_of())["LifecycleConfiguration"]["Rules"]

    expiring = [rule for rule in rules if "ExpirationInDays" in rule]
    assert [rule["Prefix"] for rule in expiring] == ["temporary/"]
    assert all(rule["Status"] == "Enabled" for rule in rules)


def test_the_job_runs_one_at_a_time_on_spark_4_1_and_is_not_retried_by_glue() -> None:
    job = job_of(stack_of(SparkJobWorkers="7", SparkJobTimeoutMinutes="30"))

    assert job["GlueVersion"] == "6.0"
    assert (job["Command"]["Name"], job["Command"]["PythonVersion"]) == ("glueetl", "3")
    assert job["ExecutionProperty"] == {"MaxConcurrentRuns": 1}
    assert job["MaxRetries"] == 0
    assert (job["WorkerType"], job["NumberOfWorkers"], job["Timeout"]) == ("G.1X", "7", "30")


def test_the_code_comes_from_the_bundle_that_the_stack_published() -> None:
    stack = stack_of()
    code = stack.of_type("AWS::CloudFormation::CustomResource")["JobCode"]

    assert job_of(stack)["Command"]["ScriptLocation"] == "JobCode.ScriptUri"
    assert job_of(stack)["DefaultArguments"]["--extra-py-files"] == "JobCode.PackageUri"
    assert (code["ServiceToken"], code["Bundle"]) == (
        "PublishJobFunction.Alias",
        "PublishJobFunction.Version",
    )
    assert (code["Bucket"], code["Prefix"]) == ("archivebucket", "code")


def test_the_job_is_started_by_the_schedule() -> None:
    schedule = "cron(30 2 ? * MON-FRI *)"
    [trigger] = stack_of(SparkJobSchedule=schedule).of_type("AWS::Glue::Trigger").values()

    assert (trigger["Type"], trigger["Schedule"]) == ("SCHEDULED", schedule)
    assert trigger["StartOnCreation"] is True
    assert trigger["Actions"] == [{"JobName": "SparkJob"}]


@pytest.mark.parametrize(
    ("given", "failure_table", "no_samples"),
    [
        ({}, ["--failure-table", "FailureTable"], ["--no-samples"]),
        ({"CircuitBreaker": "false"}, [], ["--no-samples"]),
        ({"SparkJobSamples": "true"}, ["--failure-table", "FailureTable"], []),
    ],
)
def test_without_a_policy_the_job_archives_and_reports(
    given: dict[str, str], failure_table: list[str], no_samples: list[str]
) -> None:
    queue = "https://sqs.us-east-1.amazonaws.com/123456789012"
    command = command_line_of(stack_of(**given))

    assert command == [
        "run",
        *("--archive", "s3://archivebucket/archive"),
        *("--parked-queue-url", f"{queue}/ParkedQueue"),
        *("--main-queue-url", f"{queue}/MainQueue"),
        *failure_table,
        *no_samples,
    ]
    assert parse(command).options.has_samples is not bool(no_samples)


def test_the_job_works_between_queues_of_yours_too() -> None:
    command = command_line_of(stack_of(**OWN_QUEUES, **OWN_PARKED_QUEUE))

    assert f"--parked-queue-url {OWN}-parked --main-queue-url {OWN}" in shlex.join(command)


def test_with_a_policy_the_job_reads_it_and_acts_when_it_is_told_to() -> None:
    plan_only = command_line_of(stack_of(**POLICY))
    acting = command_line_of(stack_of(**POLICY, SparkJobExecute="true"))

    *before, samples = plan_only
    assert (before[-2:], samples) == (["--policy", POLICY["SparkJobPolicyUri"]], "--no-samples")
    reason = "schedule of the stack dead-letters"
    assert acting == [*before, "--execute", "--reason", reason, "--no-samples"]
    assert grants_of(stack_of(**POLICY), "SparkJobRole")[
        "arn:aws:s3:::" + POLICY["SparkJobPolicyUri"].removeprefix("s3://")
    ] == {"s3:GetObject"}


def test_the_job_is_told_the_hash_that_the_policy_must_have() -> None:
    pinned = stack_of(**POLICY, SparkJobPolicySha256="0aB1" * 16)
    command = command_line_of(pinned)

    assert command[-5:-3] == ["--policy", POLICY["SparkJobPolicyUri"]]
    assert command[-3:] == ["--policy-sha256", "0aB1" * 16, "--no-samples"]
    assert parse(command).options.policy_sha256 == "0ab1" * 16


@pytest.mark.parametrize(
    "uri", ["s3://rules/p", "s3://ru.les/a/b=c/p_1-2.yaml", POLICY["SparkJobPolicyUri"]]
)
def test_the_address_of_one_file_is_taken(uri: str) -> None:
    assert uri in command_line_of(stack_of(SparkJobPolicyUri=uri))


@pytest.mark.parametrize(
    "given",
    [
        {},
        OWN_QUEUES | OWN_PARKED_QUEUE,
        POLICY | {"SparkJobExecute": "true"},
    ],
)
def test_the_job_understands_what_it_is_told(given: dict[str, str]) -> None:
    command = parse(command_line_of(stack_of(**given)))

    assert command.name == "run"
    assert command.options.archive == "s3://archivebucket/archive"
    assert command.options.execute is ("SparkJobExecute" in given)


def test_the_log_goes_where_the_role_may_write_and_where_it_expires() -> None:
    stack = stack_of(LogRetentionDays="7")
    groups = stack.of_type("AWS::Logs::LogGroup")
    prefix = job_of(stack)["DefaultArguments"]["--custom-logGroup-prefix"]

    names = {groups[f"SparkJob{kind}LogGroup"]["LogGroupName"] for kind in ("Output", "Error")}
    assert names == {f"{prefix}/output", f"{prefix}/error"}
    assert {group["RetentionInDays"] for group in groups.values()} == {"7"}


@pytest.mark.parametrize("queue_type", [{}, FIFO])
def test_the_job_may_empty_the_parked_queue_and_only_send_to_main(
    queue_type: dict[str, str],
) -> None:
    stack = stack_of(**queue_type)
    suffix = ".fifo" if queue_type else ""
    queues = {
        resource: actions
        for resource, actions in grants_of(stack, "SparkJobRole").items()
        if re.match("arn:aws:sqs:", resource)
    }

    assert queues == {
        f"arn:aws:sqs:us-east-1:123456789012:ParkedQueue{suffix}": {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ListDeadLetterSourceQueues",
        },
        f"arn:aws:sqs:us-east-1:123456789012:MainQueue{suffix}": {
            "sqs:SendMessage",
            "sqs:GetQueueAttributes",
        },
        f"arn:aws:sqs:us-east-1:123456789012:DeadLetterQueue{suffix}": {
            "sqs:GetQueueAttributes",
            "sqs:ListDeadLetterSourceQueues",
        },
    }


def test_glue_may_assume_the_role_whether_or_not_it_names_the_account() -> None:
    """If it names one, it must be this account. AWS documents the key for some services only."""
    role = stack_of().resources["SparkJobRole"]["Properties"]
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "glue.amazonaws.com"}
    assert statement["Condition"] == {"StringEqualsIfExists": {"aws:SourceAccount": "123456789012"}}


def test_glue_is_given_its_own_options_under_their_names() -> None:
    assert job_of(stack_of())["DefaultArguments"].keys() == {
        OPTION,
        "--extra-py-files",
        "--job-language",
        "--job-bookmark-option",
        "--TempDir",
        "--custom-logGroup-prefix",
    }


RETENTION = {"ArchiveRetentionDays": "90"}


@pytest.mark.parametrize("given", [SPARK_JOB, RETENTION])
def test_nothing_expires_without_days_or_without_an_archive(given: dict[str, str]) -> None:
    made = Stack.of(TEMPLATE, given).resources

    assert not {name for name in made if name.startswith("Expire")}


def test_what_is_decided_expires_after_each_run_of_the_spark_job() -> None:
    stack = stack_of(**RETENTION)
    trigger = stack.resources["ExpireTrigger"]["Properties"]
    after = {(one["JobName"], one["State"]) for one in trigger["Predicate"]["Conditions"]}

    assert (trigger["Type"], trigger["Predicate"]["Logical"]) == ("CONDITIONAL", "ANY")
    assert after == {("SparkJob", state) for state in ("SUCCEEDED", "FAILED", "TIMEOUT")}
    assert trigger["Actions"] == [{"JobName": "ExpireJob"}]
    command = parse(command_line_of(stack, "ExpireJob"))
    assert command.name == "erase"
    assert command.options == EraseOptions(
        "s3://archivebucket/archive", ids=[], older_than_days=90, execute=True
    )
    detail = stack.resources["SparkJobFailedRule"]["Properties"]["EventPattern"]["detail"]
    assert detail["jobName"] == ["SparkJob", "ExpireJob"]


def test_the_job_of_the_retention_has_the_code_and_the_network_of_the_spark_job() -> None:
    stack = stack_of(**RETENTION, **PRESCRIBED)
    spark, expire = (stack.resources[name]["Properties"] for name in ("SparkJob", "ExpireJob"))
    own = ("Description", "Role", "NumberOfWorkers", "DefaultArguments")

    assert {n: v for n, v in spark.items() if n not in own} == {
        n: v for n, v in expire.items() if n not in own
    }
    assert spark["DefaultArguments"].keys() == expire["DefaultArguments"].keys()


def test_the_role_of_the_retention_deletes_messages_and_touches_no_queue() -> None:
    """Ledgers of what was decided, plans and reports it can neither change nor delete."""
    given = RETENTION | PRESCRIBED | KEYS
    grants = grants_of(stack_of(**given), "ExpireRole")
    archive = "arn:aws:s3:::archivebucket/archive"
    may_write = {r for r, actions in grants.items() if "s3:PutObject" in actions}
    may_delete = {r for r, actions in grants.items() for one in actions if "s3:Delete" in one}

    temporary = "arn:aws:s3:::archivebucket/temporary/*"
    folders = ("messages", "ledger/erasures", "locks", "runs")
    assert may_write == {temporary, *(f"{archive}/{one}/*" for one in folders)}
    assert may_delete == {temporary, f"{archive}/messages/*"}
    assert grants[f"{archive}/messages/*"] == {"s3:PutObject", "s3:DeleteObjectVersion"}
    assert not any(re.match("(sqs|dynamodb|sns):", one) for many in grants.values() for one in many)
