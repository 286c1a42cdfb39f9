"""README-SAR.md: what its prose names is in the template; its tables are generated."""

import re

from tests.contract.cloudformation import Stack
from tests.contract.template import ALL_PARTS, ROOT, TEMPLATE

PAGE = (ROOT / "README-SAR.md").read_text("utf-8")


def test_it_names_every_policy_that_the_stack_creates_and_attaches_to_nothing() -> None:
    stack = Stack.of(TEMPLATE, ALL_PARTS)
    outputs = {name for name in stack.outputs if name.endswith("PolicyArn")}

    assert {f"{name}Arn" for name in stack.of_type("AWS::IAM::ManagedPolicy")} == outputs
    assert all(f"`{name}`" in PAGE for name in outputs)


def test_outputs_and_parameters_that_it_names_are_the_template_s() -> None:
    known = TEMPLATE["Parameters"].keys() | TEMPLATE["Outputs"].keys()
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+|DLQ\w+)`", PAGE))

    assert named - known <= {"DlqReplay"}
