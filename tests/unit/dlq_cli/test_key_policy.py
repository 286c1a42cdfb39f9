import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlq_cli.stack.key_policy import closed_to

LOGS = "logs.eu-west-1.amazonaws.com"
PAGE = Path(__file__).parents[3] / "docs" / "install.md"


def policy(**changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": LOGS},
        "Action": ["kms:Encrypt*", "kms:Decrypt*", "kms:GenerateDataKey*"],
        "Resource": "*",
    }
    return {"Version": "2012-10-17", "Statement": [statement | changes]}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Principal": {"Service": ["cloudwatch.amazonaws.com", LOGS]}},
        {"Principal": "*"},
        {"Action": "kms:*"},
        {"Action": ["kms:decrypt", "kms:GenerateDataKey*"]},
    ],
)
def test_a_service_that_a_statement_names_is_let_in(changes: dict[str, Any]) -> None:
    assert closed_to(policy(**changes), [LOGS]) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"Principal": {"AWS": "arn:aws:iam::123456789012:root"}},
        {"Principal": {"AWS": "*"}},
        {"Principal": {"Service": "logs.us-east-1.amazonaws.com"}},
        {"Effect": "Deny"},
        {"Action": "kms:Decrypt"},
        {"Action": "kms:Describe*"},
    ],
)
def test_any_other_is_not(changes: dict[str, Any]) -> None:
    assert closed_to(policy(**changes), [LOGS]) == (LOGS,)


def test_rights_of_several_statements_add_up() -> None:
    both = policy(Action="kms:Decrypt")["Statement"] + policy(Action="kms:Gen*")["Statement"]

    assert closed_to({"Statement": both}, [LOGS]) == ()
    assert closed_to({}, [LOGS]) == (LOGS,)


def test_the_key_policy_of_the_documents_lets_all_in() -> None:
    section = PAGE.read_text("utf-8").partition("### A key for the data")[2]
    documented = json.loads(re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0])

    assert closed_to(documented, [LOGS, "cloudwatch.amazonaws.com"]) == ()
