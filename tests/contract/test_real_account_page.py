"""docs/real-account.md: its commands refer to what there is, in words that a shell understands."""

import re
import subprocess

import pytest

from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    KEYS,
    OTHER_MAIN_QUEUES,
    OWN_QUEUES,
    PRESCRIBED,
    ROOT,
    TEMPLATE,
)

PAGE = (ROOT / "docs" / "real-account.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = "\n".join(BLOCKS).replace("\\\n", " ")
EMR = load_template(ROOT / "templates" / "emr-serverless.yaml")

SET_BY_THE_SHELL = {"1", "2", "@", "PATH", "PWD"}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_shell_can_read_the_commands(block: str) -> None:
    subprocess.run(["/bin/bash", "-n"], input=block, text=True, check=True)


def test_every_variable_is_set_before_it_is_used() -> None:
    known = set(SET_BY_THE_SHELL)
    for line in COMMANDS.splitlines():
        known |= set(re.findall(r"\b([A-Za-z_][A-Za-z_0-9]*)=", line))
        known |= set(re.findall(r"\bfor (\w+) in", line))
        used = {plain or braced for plain, braced in re.findall(r"\$(?:(\w+|@)|\{(\w+))", line)}
        assert used <= known, line


def test_outputs_and_resources_are_those_of_the_template() -> None:
    calls = re.findall(r"(?:\$\(|`)output (\w+)( \$STACK-emr)?", PAGE)

    assert len(calls) > 15
    for name, is_emr in calls:
        assert name in (EMR if is_emr else TEMPLATE)["Outputs"]
    assert set(re.findall(r"\$\(resource (\w+)", PAGE)) <= TEMPLATE["Resources"].keys()


def test_the_parameters_of_every_deployment_are_accepted() -> None:
    deployments = re.findall(r"^deploy \S+ (.*)$", COMMANDS, re.MULTILINE)

    assert len(deployments) > 5
    for text in deployments:
        given = dict(word.split("=", 1) for word in re.findall(r"\w+=(?:\$\(.*?\)+|\S+)", text))
        assert given.keys() <= TEMPLATE["Parameters"].keys()
        # What a command finds out stands for a value of its kind.
        found_out = {
            n: (OWN_QUEUES | OTHER_MAIN_QUEUES | KEYS | PRESCRIBED)[n]
            for n, value in given.items()
            if "$" in value
        }
        filled = given | found_out
        assert Stack.of(TEMPLATE, filled).broken_rules == []
