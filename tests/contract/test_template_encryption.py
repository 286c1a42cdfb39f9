import re
from typing import Any

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    DATA_KEY,
    KEYS,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    QUEUE_KEYS,
    SPARK_JOB,
    TEMPLATE,
    message_queues_of,
    statements_of,
)

ROLES = ["ReplayRole", "SparkJobRole"]


def kms_statements(stack: Stack, role: str) -> dict[str, dict[str, Any]]:
    statements = statements_of(stack, role)
    return {one["Sid"]: one for one in statements if "kms:" in str(one["Action"])}


def test_created_queues_are_encrypted_with_the_first_key_or_that_of_sqs() -> None:
    created = message_queues_of(Stack.of(TEMPLATE, KEYS)).values()
    of_sqs = message_queues_of(Stack.of(TEMPLATE)).values()

    assert [one["KmsMasterKeyId"] for one in created] == [QUEUE_KEYS[0]] * 3
    assert not any("SqsManagedSseEnabled" in one for one in created)
    assert [one["SqsManagedSseEnabled"] for one in of_sqs] == [True] * 3


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("own", [{}, OWN_QUEUES | OWN_PARKED_QUEUE])
def test_what_was_encrypted_with_any_of_the_keys_can_be_read_and_sent_on_through_sqs_alone(
    role: str, own: dict[str, str]
) -> None:
    [statement] = kms_statements(Stack.of(TEMPLATE, own | SPARK_JOB | KEYS), role).values()

    assert statement["Resource"] == QUEUE_KEYS
    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    through = {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": through}


@pytest.mark.parametrize("role", ROLES)
def test_without_keys_no_role_mentions_kms(role: str) -> None:
    assert not kms_statements(Stack.of(TEMPLATE, SPARK_JOB), role)


@pytest.mark.parametrize(
    ("given", "created"),
    [
        ({}, {"MainQueue", "DeadLetterQueue", "ParkedQueue"}),
        (OWN_QUEUES, {"ParkedQueue"}),
        (OWN_QUEUES | OWN_PARKED_QUEUE, set()),
    ],
)
def test_queues_that_the_stack_creates_refuse_plain_http_and_yours_keep_their_policies(
    given: dict[str, str], created: set[str]
) -> None:
    stack = Stack.of(TEMPLATE, given)
    policies = stack.of_type("AWS::SQS::QueuePolicy")
    of_its_own = {"ReminderFailures"}

    assert policies.keys() == {f"{queue}Policy" for queue in created | of_its_own}
    for queue in created | of_its_own:
        policy = policies[f"{queue}Policy"]
        [statement] = policy["PolicyDocument"]["Statement"]
        assert policy["Queues"] == [f"https://sqs.us-east-1.amazonaws.com/123456789012/{queue}"]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Action"] == "sqs:*"
        assert statement["Resource"] == f"arn:aws:sqs:us-east-1:123456789012:{queue}"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize(
    "value",
    [
        "alias/aws/sqs",
        "arn:aws:kms:us-east-1:123456789012:alias/mine",
        "1234abcd-12ab-34cd-56ef-1234567890ab",
    ],
)
@pytest.mark.parametrize("name", [*KEYS, *DATA_KEY])
def test_only_a_key_s_arn_can_stand_in_a_policy(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*must be"):
        Stack.of(TEMPLATE, {name: value})


KEY = DATA_KEY["DataKmsKeyArn"]


def test_the_data_key_encrypts_all_that_the_stack_stores() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | DATA_KEY)
    [encryption] = stack.resources["ArchiveBucket"]["Properties"]["BucketEncryption"][
        "ServerSideEncryptionConfiguration"
    ]

    assert encryption == {
        "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY},
        "BucketKeyEnabled": True,
    }
    [table] = stack.of_type("AWS::DynamoDB::Table").values()
    assert table["SSESpecification"] == {
        "SSEEnabled": True,
        "SSEType": "KMS",
        "KMSMasterKeyId": KEY,
    }
    groups = stack.of_type("AWS::Logs::LogGroup").values()
    assert {group["KmsKeyId"] for group in groups} == {KEY}
    [topic] = stack.of_type("AWS::SNS::Topic").values()
    assert topic["KmsMasterKeyId"] == KEY
    failures = stack.resources["ReminderFailures"]["Properties"]
    assert failures["KmsMasterKeyId"] == KEY
    assert "SqsManagedSseEnabled" not in failures


def test_without_a_data_key_the_keys_are_aws_s_own() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    [encryption] = stack.resources["ArchiveBucket"]["Properties"]["BucketEncryption"][
        "ServerSideEncryptionConfiguration"
    ]

    assert encryption == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    assert not re.search("KmsKeyId|KmsMasterKeyId|SSESpecification|kms:V", str(stack.resources))


@pytest.mark.parametrize(
    ("role", "services"),
    [
        ("ReplayRole", {"dynamodb"}),
        ("PublishJobRole", {"s3"}),
        ("ReminderRole", {"s3", "sns", "sqs"}),
        ("SparkJobRole", {"s3", "dynamodb"}),
    ],
)
def test_each_role_uses_the_data_key_through_the_services_that_it_calls(
    role: str, services: set[str]
) -> None:
    statements = statements_of(Stack.of(TEMPLATE, SPARK_JOB | DATA_KEY), role)

    def may_decrypt(service: str) -> bool:
        through = {"kms:ViaService": f"{service}.us-east-1.amazonaws.com"} if service else {}
        return is_allowed(Call("kms:Decrypt", KEY, through), statements)

    known = {"s3", "sns", "sqs", "dynamodb", "secretsmanager", ""}
    assert {service for service in known if may_decrypt(service)} == services


def test_policies_for_people_and_consumers_use_the_data_key_too() -> None:
    policies = Stack.of(TEMPLATE, SPARK_JOB | DATA_KEY).of_type("AWS::IAM::ManagedPolicy")

    for name, service in (("RecordFailuresPolicy", "dynamodb"), ("RunSparkJobPolicy", "s3")):
        statements = policies[name]["PolicyDocument"]["Statement"]
        through = {"kms:ViaService": f"{service}.us-east-1.amazonaws.com"}
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            assert is_allowed(Call(action, KEY, through), statements), name
