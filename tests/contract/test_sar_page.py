"""README-SAR.md: what it says of the roles is what the template has, both ways."""

import re

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.template import (
    KEYS,
    OTHER_MAIN_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    TEMPLATE,
    as_list,
    statements_of,
)

PAGE = (ROOT / "README-SAR.md").read_text("utf-8")
FUNCTIONS = {
    "the replay function": "ReplayRole",
    "the daily notice": "ReminderRole",
    "the publisher of the job's code": "PublishJobRole",
}
JOBS = {"the Spark job": "SparkJobRole", "the job of `ArchiveRetentionDays`": "ExpireRole"}
ROLES = FUNCTIONS | JOBS
APPLIES_TO = {
    **{words: {role} for words, role in ROLES.items()},
    "each function": set(FUNCTIONS.values()),
    "both jobs": set(JOBS.values()),
    "each role": set(ROLES.values()),
}
ALL = (
    SPARK_JOB
    | {"SparkJobPolicyUri": "s3://rules/policy.yaml", "ArchiveRetentionDays": "90"}
    | PRESCRIBED
    | KEYS
    | OTHER_MAIN_QUEUES
    | OWN_QUEUES
    | OWN_PARKED_QUEUE
)


def named_actions() -> dict[str, set[str]]:
    """The actions of the table, by role."""
    section = PAGE.partition("## What it may do (IAM)")[2].partition("\n## ")[0]
    named: dict[str, set[str]] = {role: set() for role in ROLES.values()}
    whose = ""
    for words, _, actions in re.findall(r"^\| (.*?) ?\| (.*?) \| (.*?) \|$", section, re.MULTILINE):
        if words in {"Role of", "---"}:
            continue
        whose = words or whose
        for role in APPLIES_TO[whose]:
            named[role] |= set(re.findall(r"`([a-z0-9]+:[A-Z]\w+)`", actions))
    return named


@pytest.mark.parametrize("role", ROLES.values())
def test_the_table_names_what_each_role_may_do_and_nothing_else(role: str) -> None:
    allowed = {
        action
        for statement in statements_of(Stack.of(TEMPLATE, ALL), role)
        for action in as_list(statement["Action"])
    }

    assert named_actions()[role] == allowed


def test_it_names_every_policy_that_the_stack_creates_and_attaches_to_nothing() -> None:
    stack = Stack.of(TEMPLATE, ALL)
    outputs = {name for name in stack.outputs if name.endswith("PolicyArn")}

    assert {f"{name}Arn" for name in stack.of_type("AWS::IAM::ManagedPolicy")} == outputs
    assert all(f"`{name}`" in PAGE for name in outputs)


def test_outputs_and_parameters_that_it_names_are_the_template_s() -> None:
    known = TEMPLATE["Parameters"].keys() | TEMPLATE["Outputs"].keys()
    named = re.findall(r"`([A-Z][a-z]+[A-Z]\w+|DLQ\w+)`", PAGE)

    assert len(named) > 50
    assert set(named) - known <= {"DlqReplay"}
