import re
import textwrap
from hashlib import sha256

import pytest

from spark_reprocess.command_line import run
from spark_reprocess.errors import InputError
from spark_reprocess.plan import policy
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.policy import Policy, Rule, read_policy

GOOD = """\
version: 1
rules:
  - name: payments was down
    when: title LIKE 'TimeoutError%' AND count <= 5000
    action: redrive
  - {name: old shop, when: "title LIKE '%legacy%'", action: discard}
"""


def test_rules_are_read_in_their_order() -> None:
    found = read_policy(GOOD)

    assert found == Policy(
        (
            Rule(
                "payments was down",
                "title LIKE 'TimeoutError%' AND count <= 5000",
                Action.REDRIVE,
            ),
            Rule("old shop", "title LIKE '%legacy%'", Action.DISCARD),
        )
    )


def test_what_came_back_is_redriven_again_only_on_request() -> None:
    assert not read_policy(GOOD).redrive_again
    assert read_policy(GOOD + "redrive_again: true\n").redrive_again


def test_a_policy_has_the_hash_of_its_file_and_another_file_is_refused() -> None:
    wanted = sha256(GOOD.encode()).hexdigest()

    assert read_policy(GOOD, wanted).sha256 == read_policy(GOOD, wanted.upper()).sha256 == wanted
    with pytest.raises(InputError, match=f"has the SHA-256 [0-9a-f]{{64}} and not {wanted}"):
        read_policy(f"{GOOD} ", wanted)


@pytest.mark.parametrize("text", [policy.__doc__, run.VERB.about], ids=["module", "run --help"])
def test_the_examples_can_be_copied(text: str) -> None:
    [example] = re.findall(r"^ +version: 1\n(?:^ +.*\n)+", text, re.MULTILINE)

    assert read_policy(textwrap.dedent(example)).rules[0].name == "payments was down"


BAD = """\
version: 1
rule: []
redrive_again: sometimes
rules:
  - name: one
    when: count > 1
    action: resend
  - name: one
    when: "  "
    action: leave
    edit: []
  - just a text
  - name: ""
    when: 7
"""


def test_every_fault_is_named_with_its_place() -> None:
    with pytest.raises(InputError) as raised:
        read_policy(BAD, name="rules.yaml")

    condition = "must be a Spark SQL condition over the columns of groups.parquet"
    assert str(raised.value).splitlines() == [
        "rules.yaml has faults:",
        "  rule: is not known; remove it",
        "  redrive_again: 'sometimes': must be true or false",
        "  rules[0].action: 'resend': must be leave, redrive, discard",
        "  rules[1].edit: is not known; remove it",
        f"  rules[1].when: '  ': {condition}",
        "  rules[1].name: 'one' is another rule's too; each needs its own",
        "  rules[2]: must be a mapping with name, when, action",
        "  rules[3].name: '': must be a text that says what the rule is for",
        f"  rules[3].when: 7: {condition}",
        "  rules[3].action: None: must be leave, redrive, discard",
    ]


@pytest.mark.parametrize("text", ["", "[]", "version: 1", "version: 1\nrules: []", "text", "1: [2"])
def test_what_is_no_policy_is_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="the policy"):
        read_policy(text)
