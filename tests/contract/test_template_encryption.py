import re

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    DATA_KEY,
    KEYS,
    SPARK_JOB,
    TEMPLATE,
    statements_of,
)


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


def test_without_a_data_key_the_keys_are_aws_s_own() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)

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
