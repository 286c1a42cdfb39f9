import re
from pathlib import Path

import pyarrow as pa
import pytest

from dlq.engine import Engine
from dlq.errors import InputError
from dlq.explain.analyze import check_conditions, rules_by_group
from dlq.explain.grouping import OTHERS, OTHERS_TITLE
from dlq.explain.outputs import GROUPS_SCHEMA
from dlq.plan.action_policy import read_policy

ROOT = Path(__file__).parents[2]


GROUPS = pa.table(
    {
        "group_id": ["g-1", "g-2", "g-3", OTHERS],
        "title": ["TimeoutError: payments", "KeyError: vat", "text hello", OTHERS_TITLE],
        "count": [412, 9000, 3, 9000],
    }
)
POLICY = """\
version: 1
rules:
  - {name: too many, when: count > 5000, action: leave}
  - {name: payments, when: "title LIKE '%payments%' AND count > 1", action: redrive}
  - {name: errors, when: "title LIKE '%Error%'", action: discard}
"""


@pytest.mark.both_engines
def test_the_first_rule_that_matches_decides_and_null_does_not_match(engine: Engine) -> None:
    decided = rules_by_group(engine, read_policy(POLICY), GROUPS)

    assert {group: rule.name for group, rule in decided.items()} == {
        "g-1": "payments",
        "g-2": "too many",
    }
    assert rules_by_group(engine, read_policy(POLICY), GROUPS.slice(0, 0)) == {}
    of_null = read_policy("version: 1\nrules: [{name: n, when: title = null, action: discard}]")
    assert rules_by_group(engine, of_null, GROUPS) == {}


@pytest.mark.both_engines
def test_every_bad_condition_is_named_by_its_place(engine: Engine) -> None:
    policy_text = """\
version: 1
rules:
  - {name: one, when: colour = 'red', action: leave}
  - {name: fine, when: count > 1, action: leave}
  - name: two
    when: count >
    action: leave
  - {name: three, when: count, action: leave}
"""

    with pytest.raises(InputError) as raised:
        check_conditions(engine, read_policy(policy_text))

    faults = str(raised.value).splitlines()[1:]
    places = [fault.split(":")[0].strip() for fault in faults]
    assert places == ["rules[0].when", "rules[2].when", "rules[3].when"]
    assert "rule 'one': when \"colour = 'red'\": " in faults[0]


@pytest.mark.both_engines
def test_the_guide_shows_a_policy_that_is_sound_and_the_columns_that_there_are(
    engine: Engine,
) -> None:
    guide = (ROOT / "docs" / "schedule.md").read_text("utf-8")
    section = re.split(r"^###? ", guide.partition("## The policy\n")[2], flags=re.MULTILINE)[0]
    [example] = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    columns = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}

    policy = read_policy(example)
    check_conditions(engine, policy)

    assert [rule.action for rule in policy.rules] == ["leave", "redrive", "discard"]
    assert columns == set(GROUPS_SCHEMA.names)


def test_the_shop_window_shows_a_policy_that_is_sound(engine: Engine) -> None:
    readme = (ROOT / "README-SAR.md").read_text("utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    [named] = re.findall(r"Spark SQL over (.*?) of a group", readme, re.DOTALL)

    check_conditions(engine, read_policy(example))

    assert set(re.findall(r"`(\w+)`", named)) < set(GROUPS_SCHEMA.names)


@pytest.mark.both_engines
def test_a_condition_that_fails_on_a_group_is_a_sentence(engine: Engine) -> None:
    large = "count * 9000000000000000000 > 1"
    policy = read_policy(f"version: 1\nrules: [{{name: n, when: {large}, action: leave}}]")

    with pytest.raises(
        InputError, match=r"^when 'count \* 90+ > 1': fails on a group: .*; use forms"
    ):
        rules_by_group(engine, policy, GROUPS)
