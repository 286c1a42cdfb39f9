import re
from typing import Any

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    DATA_KEY,
    KEYS,
    OTHER_MAIN_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    SPARK_JOB,
    TEMPLATE,
    grants_of,
    statements_of,
)

QUEUE_KEYS = {
    "MainQueue": "MainQueueKmsKeyArn",
    "DeadLetterQueue": "DLQKmsKeyArn",
    "ParkedQueue": "ParkedQueueKmsKeyArn",
}
OTHER_KEYS = [
    "arn:aws:kms:us-east-1:123456789012:key/shared",
    "arn:aws:kms:us-east-1:123456789012:key/earlier",
]
ROLES = ["ReplayRole", "SparkJobRole"]


def kms_statements(stack: Stack, role: str) -> dict[str, dict[str, Any]]:
    statements = statements_of(stack, role)
    return {one["Sid"]: one for one in statements if "kms:" in str(one["Action"])}


@pytest.mark.parametrize(("queue", "parameter"), QUEUE_KEYS.items())
def test_a_created_queue_is_encrypted_with_its_own_key_or_that_of_sqs(
    queue: str, parameter: str
) -> None:
    given = {parameter: KEYS[parameter]}
    queues = Stack.of(TEMPLATE, given).of_type("AWS::SQS::Queue")

    encrypted_by_us = queues.pop(queue)
    assert encrypted_by_us["KmsMasterKeyId"] == KEYS[parameter]
    assert "SqsManagedSseEnabled" not in encrypted_by_us
    for other in queues.values():
        assert other["SqsManagedSseEnabled"] is True
        assert "KmsMasterKeyId" not in other


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("own", [{}, OWN_QUEUES | OWN_PARKED_QUEUE])
def test_what_was_encrypted_with_any_of_the_keys_can_be_read_and_sent_on(
    role: str, own: dict[str, str]
) -> None:
    grants = grants_of(Stack.of(TEMPLATE, own | SPARK_JOB | KEYS), role)

    for key in KEYS.values():
        assert grants[key] == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.mark.parametrize("role", ROLES)
def test_messages_of_other_queues_can_be_read_and_nothing_is_sent_with_their_keys(
    role: str,
) -> None:
    given = {"OtherSourceKmsKeyArns": ",".join(OTHER_KEYS)}
    statements = kms_statements(Stack.of(TEMPLATE, given | SPARK_JOB), role)

    assert statements.keys() == {"DecryptMessagesFromElsewhere"}
    assert statements["DecryptMessagesFromElsewhere"]["Action"] == "kms:Decrypt"
    assert statements["DecryptMessagesFromElsewhere"]["Resource"] == OTHER_KEYS


@pytest.mark.parametrize("role", ROLES)
def test_messages_are_sent_with_the_keys_of_other_main_queues(role: str) -> None:
    given = {"OtherSourceKmsKeyArns": ",".join(OTHER_KEYS)} | OTHER_MAIN_QUEUES
    grants = grants_of(Stack.of(TEMPLATE, given | SPARK_JOB), role)

    for key in OTHER_KEYS:
        assert grants[key] == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.mark.parametrize("role", ROLES)
def test_keys_are_used_through_sqs_alone(role: str) -> None:
    given = KEYS | SPARK_JOB | OTHER_MAIN_QUEUES | {"OtherSourceKmsKeyArns": OTHER_KEYS[0]}
    statements = kms_statements(Stack.of(TEMPLATE, given), role)

    assert len(statements) == 3
    for statement in statements.values():
        through = statement["Condition"]["StringEquals"]
        assert through == {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}


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
@pytest.mark.parametrize("name", [*KEYS, "OtherSourceKmsKeyArns"])
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


@pytest.mark.parametrize("name", [*KEYS, "OtherSourceKmsKeyArns"])
def test_messages_with_a_key_of_yours_are_not_archived_without_one(name: str) -> None:
    given = SPARK_JOB | {name: OTHER_KEYS[0]}

    assert Stack.of(TEMPLATE, given).broken_rules == ["KeyedMessagesNeedAKeyedArchive"]
    assert Stack.of(TEMPLATE, given | DATA_KEY).broken_rules == []
    assert Stack.of(TEMPLATE, given | {"AllowUnkeyedArchive": "true"}).broken_rules == []
    assert Stack.of(TEMPLATE, {name: OTHER_KEYS[0]}).broken_rules == []


def test_a_security_configuration_is_the_job_s_and_its_log_may_be_encrypted() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | {"GlueSecurityConfigurationName": "orders"})
    group = "arn:aws:logs:us-east-1:123456789012:log-group:/aws-glue/jobs-role-orders"

    assert stack.resources["SparkJob"]["Properties"]["SecurityConfiguration"] == "orders"
    allowed = statements_of(stack, "SparkJobRole")
    assert is_allowed(Call("logs:AssociateKmsKey", group), allowed)
    assert not is_allowed(Call("logs:CreateLogGroup", "*"), allowed)
    without = Stack.of(TEMPLATE, SPARK_JOB)
    assert "SecurityConfiguration" not in without.resources["SparkJob"]["Properties"]
    assert "CreateLogGroup" not in str(statements_of(without, "SparkJobRole"))
