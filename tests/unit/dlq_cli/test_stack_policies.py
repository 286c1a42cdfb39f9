import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlq_cli.stack.policies import ServiceCall, may_use_key

ACCOUNT = "123456789012"
ALARM = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:a"
PUBLISH = ServiceCall("cloudwatch.amazonaws.com", "sns:Publish", ACCOUNT, ALARM)
CLOUDWATCH = {"Service": "cloudwatch.amazonaws.com"}


def allow(principal: Any, action: Any = "sns:Publish", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": principal, "Action": action, "Resource": "*", **more}


def deny(**more: Any) -> dict[str, Any]:
    return {**allow("*", "sns:*"), "Effect": "Deny", **more}


def when(operator: str, key: str, value: Any) -> dict[str, Any]:
    return {"Condition": {operator: {key: value}}}


OTHER = "999999999999"


@pytest.mark.parametrize(
    "statements",
    [
        [allow(CLOUDWATCH)],
        [allow({"Service": ["s3.amazonaws.com", "cloudwatch.amazonaws.com"]}, ["SNS:Publish"])],
        [allow("*", "sns:*")],
        [allow({"AWS": "*"}, **when("StringEquals", "AWS:SourceOwner", ACCOUNT))],
        [allow(CLOUDWATCH, **when("StringEquals", "aws:SourceAccount", [OTHER, ACCOUNT]))],
        [allow(CLOUDWATCH, **when("ArnLike", "aws:SourceArn", f"arn:aws:*:*:{ACCOUNT}:alarm:*"))],
        [allow(CLOUDWATCH), deny(**when("Bool", "aws:SecureTransport", "false"))],
        [allow(CLOUDWATCH), deny(**when("StringNotEquals", "aws:SourceAccount", ACCOUNT))],
        [allow(CLOUDWATCH), deny(**when("IpAddress", "aws:SourceIp", "10.0.0.0/8"))],
        [allow(CLOUDWATCH), deny(Principal={"Service": "events.amazonaws.com"})],
        [allow(CLOUDWATCH, **when("StringEquals", "aws:PrincipalOrgID", "o-1"))],
        [{"Effect": "Allow", "NotPrincipal": {"AWS": "x"}, "Action": "sns:Publish"}],
    ],
)
def test_what_may_be_allowed_is_not_reported(statements: list[dict[str, Any]]) -> None:
    assert PUBLISH.is_allowed(json.dumps({"Statement": statements}))


@pytest.mark.parametrize(
    "statements",
    [
        [],
        [allow({"Service": "events.amazonaws.com"})],
        [allow({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "sns:*")],
        [allow(CLOUDWATCH, "sns:Subscribe")],
        [allow({"AWS": "*"}, **when("StringEquals", "AWS:SourceOwner", OTHER))],
        [allow(CLOUDWATCH, **when("ArnLike", "aws:SourceArn", f"arn:aws:*:*:{OTHER}:alarm:*"))],
        [allow(CLOUDWATCH), deny()],
        [allow(CLOUDWATCH), deny(**when("Bool", "aws:SecureTransport", "true"))],
        [allow(CLOUDWATCH), deny(**when("StringNotEquals", "aws:SourceAccount", OTHER))],
    ],
)
def test_what_is_denied_is_reported(statements: list[dict[str, Any]]) -> None:
    assert not PUBLISH.is_allowed(json.dumps({"Statement": statements}))


def test_one_statement_needs_no_list() -> None:
    assert PUBLISH.is_allowed(json.dumps({"Statement": allow(CLOUDWATCH)}))


LOGS = "logs.eu-west-1.amazonaws.com"
KEY_ACTIONS = ["kms:Encrypt*", "kms:Decrypt*", "kms:GenerateDataKey*"]
INSTALL_PAGE = Path(__file__).parents[3] / "docs" / "install.md"


@pytest.mark.parametrize(
    "statements",
    [
        [allow({"Service": LOGS}, KEY_ACTIONS)],
        [allow({"Service": LOGS}, ["kms:decrypt", "kms:GenerateDataKey*"])],
        [allow({"Service": LOGS}, "kms:Decrypt"), allow({"Service": LOGS}, "kms:Gen*")],
        [allow("*", "kms:*", **when("ArnLike", "aws:SourceArn", "arn:aws:logs:*"))],
    ],
)
def test_a_service_may_use_a_key(statements: list[dict[str, Any]]) -> None:
    assert may_use_key(json.dumps({"Statement": statements}), LOGS, ACCOUNT)


@pytest.mark.parametrize(
    "statements",
    [
        [],
        [allow({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "kms:*")],
        [allow({"Service": "logs.us-east-1.amazonaws.com"}, KEY_ACTIONS)],
        [allow({"Service": LOGS}, "kms:Decrypt")],
        [allow({"Service": LOGS}, "kms:Describe*")],
        [allow({"Service": LOGS}, KEY_ACTIONS, **when("StringEquals", "aws:SourceAccount", OTHER))],
    ],
)
def test_a_service_may_not_use_a_key(statements: list[dict[str, Any]]) -> None:
    assert not may_use_key(json.dumps({"Statement": statements}), LOGS, ACCOUNT)


@pytest.mark.parametrize("service", [LOGS, "cloudwatch.amazonaws.com"])
def test_the_key_policy_of_the_documents_lets_all_in(service: str) -> None:
    section = INSTALL_PAGE.read_text("utf-8").partition("### A key for the data")[2]
    documented = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0]

    assert may_use_key(documented, service, ACCOUNT)
