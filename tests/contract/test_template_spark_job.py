import pytest

from spark_reprocess.command_line.cli import parse
from spark_reprocess.erase.erase import EraseOptions
from spark_reprocess.glue_job import command_of
from tests.contract.cloudformation import Stack
from tests.contract.template import (
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    SPARK_JOB,
    TEMPLATE,
)

OWN = "https://sqs.us-east-1.amazonaws.com/210987654321/orders"
POLICY = {"SparkJobPolicyUri": "s3://rules/dlq/(orders)!policy.yaml"}


def stack_of(**given: str) -> Stack:
    return Stack.of(TEMPLATE, SPARK_JOB | given)


def command_line_of(stack: Stack, job: str = "SparkJob") -> list[str]:
    """What the job would run: Glue's arguments, as the script reads them."""
    arguments = stack.resources[job]["Properties"]["DefaultArguments"]
    passed = [word for pair in arguments.items() for word in pair]
    return command_of(["--JOB_NAME", "SparkJob", *passed, "--JOB_RUN_ID", "jr_1"])


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
        {"SparkJobSamples": "true"},
    ],
)
def test_the_job_understands_what_it_is_told(given: dict[str, str]) -> None:
    command = parse(command_line_of(stack_of(**given)))

    assert command.name == "run"
    assert command.options.archive == "s3://archivebucket/archive"
    assert command.options.execute is ("SparkJobExecute" in given)
    assert command.options.has_samples is ("SparkJobSamples" in given)


RETENTION = {"ArchiveRetentionDays": "90"}


def test_what_is_decided_expires_by_the_command_of_the_second_job() -> None:
    stack = stack_of(**RETENTION)
    command = parse(command_line_of(stack, "ExpireJob"))
    assert command.name == "erase"
    assert command.options == EraseOptions(
        "s3://archivebucket/archive", ids=[], older_than_days=90, wait_seconds=1800, execute=True
    )
