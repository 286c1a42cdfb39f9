import json
from pathlib import Path
from typing import Any

import pytest

from dlq_cli.stack.survey import names_service

LOGS = "logs.eu-west-1.amazonaws.com"
KEY_POLICY = Path(__file__).parents[3] / "templates" / "examples" / "key-policy.json"


@pytest.mark.parametrize(
    ("statements", "is_named"),
    [
        ([{"Effect": "Allow", "Principal": {"Service": LOGS}}], True),
        ({"Effect": "Allow", "Principal": {"Service": ["s3.amazonaws.com", LOGS]}}, True),
        ([{"Effect": "Allow", "Principal": "*"}], True),
        ([{"Effect": "Allow", "Principal": {"AWS": "*"}}], True),
        ([{"Effect": "Allow", "NotPrincipal": {"AWS": "x"}}], True),
        ([], False),
        ([{"Effect": "Deny", "Principal": {"Service": LOGS}}], False),
        ([{"Effect": "Allow", "Principal": {"Service": "logs.us-east-1.amazonaws.com"}}], False),
        ([{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}}], False),
    ],
)
def test_a_key_policy_names_a_service(statements: Any, is_named: bool) -> None:
    assert names_service(json.dumps({"Statement": statements}), LOGS) == is_named


@pytest.mark.parametrize("service", [LOGS, "cloudwatch.amazonaws.com"])
def test_the_key_policy_of_the_documents_names_each_service(service: str) -> None:
    assert names_service(KEY_POLICY.read_text("utf-8"), service)
