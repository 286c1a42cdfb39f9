from dataclasses import replace
from hashlib import sha256

import pytest

from dlq.errors import InputError
from dlq.plan.action_policy import Policy, Rule, read_policy
from dlq.plan.plan import Action
from dlq.scheduled_run import RunRequest
from tests.support.golden import assert_stored, stored_texts

GOOD = """\
version: 1
rules:
  - name: payments was down
    when: title LIKE 'TimeoutError%' AND count <= 5000
    action: redrive
  - {name: old shop, when: "title LIKE '%legacy%'", action: discard}
"""


def test_rules_are_read_in_their_order() -> None:
    assert read_policy(GOOD) == Policy(
        (
            Rule(
                "payments was down", "title LIKE 'TimeoutError%' AND count <= 5000", Action.REDRIVE
            ),
            Rule("old shop", "title LIKE '%legacy%'", Action.DISCARD),
        )
    )


def test_what_came_back_is_redriven_again_only_on_request() -> None:
    assert not read_policy(GOOD).redrive_again
    assert read_policy(GOOD + "redrive_again: true\n").redrive_again


RUN = """\
run:
  max_rate: 100
  time_budget_seconds: 0.5
  mask: [body.customer.name, "C-[0-9]+"]
  ramp: false
  allow_returns: 2.5%
"""
OPEN = RunRequest(parked_queue_urls=("parked",))


def test_the_options_of_a_run_are_read_and_fill_in_what_the_command_line_leaves_open() -> None:
    assert OPEN.with_settings(read_policy(GOOD + RUN).run) == replace(
        OPEN,
        max_rate=100,
        time_budget_seconds=0.5,
        masks=("body.customer.name", "C-[0-9]+"),
        ramp=False,
        allow_returns="2.5%",
    )
    for text in (GOOD, f"{GOOD}run:\n", GOOD + "run: {max_rate: }\n"):
        assert OPEN.with_settings(read_policy(text).run) == OPEN


def test_an_option_of_the_command_line_comes_before_the_policy_s() -> None:
    given = RunRequest(
        parked_queue_urls=("parked",),
        max_rate=7,
        time_budget_seconds=60,
        masks=("sender_id",),
        ramp=True,
        allow_returns="3",
    )

    masks = ("sender_id", "body.customer.name", "C-[0-9]+")
    # Of two time budgets the shorter holds.
    expected = replace(given, masks=masks, time_budget_seconds=0.5)
    assert given.with_settings(read_policy(GOOD + RUN).run) == expected


@pytest.mark.parametrize("run", stored_texts("refused_policies"))
def test_a_fault_of_the_options_of_a_run_is_named_with_its_place(run: str) -> None:
    with pytest.raises(InputError) as raised:
        OPEN.with_settings(read_policy(f"{GOOD}{run}\n").run).check()

    assert_stored("refused_policies", run, str(raised.value))


@pytest.mark.parametrize("share", ["0", "999999999", "0%", "2.5%", "99.999999%", "100%"])
def test_allowed_returns_are_what_the_option_takes(share: str) -> None:
    settings = read_policy(f"{GOOD}run: {{allow_returns: {share}}}\n").run

    assert OPEN.with_settings(settings).allow_returns == share


def test_a_policy_has_the_hash_of_its_file_and_another_file_is_refused() -> None:
    wanted = sha256(GOOD.encode()).hexdigest()

    assert read_policy(GOOD, wanted).sha256 == read_policy(GOOD, wanted.upper()).sha256 == wanted
    with pytest.raises(InputError, match=f"has the SHA-256 [0-9a-f]{{64}} and not {wanted}"):
        read_policy(f"{GOOD} ", wanted)


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
    overrides_people: 1
"""


def test_every_fault_is_named_with_its_place() -> None:
    with pytest.raises(InputError) as raised:
        read_policy(BAD, name="rules.yaml")

    assert_stored("refused_policy", "every fault", str(raised.value))


@pytest.mark.parametrize("text", ["", "[]", "version: 1", "version: 1\nrules: []", "text", "1: [2"])
def test_what_is_no_policy_is_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="the policy"):
        read_policy(text)
