from typing import Any

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.template import (
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
