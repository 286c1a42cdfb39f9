"""Plans as people edit them: what is written, read and refused, and what a decision changes."""

import json
import re
from dataclasses import replace
from textwrap import indent
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dlq.errors import InputError
from dlq.plan.changes import decide, with_patch
from dlq.plan.edit import Edit, Patch
from dlq.plan.json_text import Number
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.plan.plan_reading import read_plan
from dlq.plan.yaml_text import read_document
from tests.property.strategies import json_of
from tests.support.golden import assert_stored, stored_texts

SNAPSHOT = Snapshot(("20261121T031502Z-ab12cd",), 3, table_sha256="0" * 64)

hostile = st.text(max_size=80) | st.sampled_from(
    [
        "a\n    action: redrive",
        "x'\n  - id: g-2",
        '" # no',
        "{a: [b, &c *d !e %f @g `h",
        "null",
        "1.5e3",
        "2026-11-21",
        "\x85\u2028\ufeff\x00",
        ": - ? | >",
    ]
)


decimals = st.from_regex(r"-?[1-9][0-9]*\.[0-9]{2}", fullmatch=True).map(Number)
documents = json_of(st.none() | st.booleans() | hostile | decimals, hostile, 3, max_leaves=5)


def plan(*groups: PlannedGroup, where: str | None = None, policy_sha256: str | None = None) -> Plan:
    snapshot = replace(SNAPSHOT, where=where, policy_sha256=policy_sha256)
    return Plan("20261121T040000Z-00ff00", "/archive of mine", snapshot, groups)


def group(
    group_id: str = "g-1", title: str = "a title", action: Action = Action.LEAVE
) -> PlannedGroup:
    return PlannedGroup(group_id, title, 2, action)


def raw(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = yaml.safe_load(plan_text(plan(group("g-1"), group("g-2"))))
    return {**whole, **changes}


def faults_of(content: object) -> list[str]:
    return faults_in(yaml.safe_dump(content, sort_keys=False))


def _no_sql(sql: str) -> str | None:
    return "is no SQL" if "(" in sql else None


def faults_in(content: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_plan(content, _no_sql)
    lines = [line.strip() for line in str(caught.value).splitlines()]
    return lines[1:] or lines


@given(hostile, hostile, st.sampled_from(list(Action)))
@example("a\nb", "c\n\nd", Action.REDRIVE)
@example("\x85", "\u2028 \u2029 \ufeff", Action.DISCARD)
def test_plan_is_read_back_as_written(title: str, where: str, action: Action) -> None:
    full = plan(group("g-1", title, action), group("g-2"), where=where)

    for original in (full, plan(), plan(group(), policy_sha256="2" * 64)):
        assert read_plan(plan_text(original)) == original


def test_written_plan_teaches_every_action() -> None:
    comments = [line for line in plan_text(plan(group())).splitlines() if line.startswith("#")]

    assert all(any(action in line for line in comments) for action in Action)


THREE_GROUPS = plan(group("g-12"), group("g-1345"), group("g-2377"))


@pytest.mark.parametrize(("beginning", "full_id"), [("g-12", "g-12"), ("g-13", "g-1345")])
def test_the_beginning_of_an_id_is_enough(beginning: str, full_id: str) -> None:
    assert THREE_GROUPS.full_id(beginning) == full_id


@pytest.mark.parametrize(
    ("beginning", "fault"),
    [
        ("g-1", "has several groups g-1; its groups are g-12, g-1345"),
        ("g-9", "has no group g-9; its groups are g-12, g-1345, g-2377"),
    ],
)
def test_the_beginning_of_several_ids_or_of_none_is_refused(beginning: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        THREE_GROUPS.full_id(beginning)


@pytest.mark.parametrize("given", stored_texts("refused_plans"))
def test_every_fault_is_named_with_its_place(given: str) -> None:
    """Of keys that a plan has instead, and of an entry with an edit as a person wrote it."""
    content = json.loads(given)
    faults = (
        faults_in(with_entry(content)) if isinstance(content, str) else faults_of(raw(**content))
    )

    assert_stored("refused_plans", given, "\n".join(faults))


def test_a_key_that_is_there_twice_is_a_fault() -> None:
    plan_file = plan_text(plan(group("g-1"))) + "    action: redrive\n"

    [fault] = faults_in(plan_file)
    assert re.fullmatch(r"the plan: line \d+: 'action': is repeated; remove one", fault)


def test_a_fault_names_the_file() -> None:
    with pytest.raises(InputError, match=r"^a/plan\.yaml: version: 2: must be 1$"):
        read_plan("version: 2", name="a/plan.yaml")


WITH_EDITS = """
  - id: g-2
    action: redrive
    edit:
      - op: replace
        path: /price
        value: 1.10
      - {"op": "add", "path": "/far", "value": [1.0e+3, true, null, "yes", 12345678901234567890]}
    set_attributes:
      tenant: get_json_object(body, '$.tenant')
      debug: null
"""


def test_edit_is_read_digit_by_digit() -> None:
    read = read_plan(plan_text(plan(group("g-1"))) + WITH_EDITS).groups[1].edit

    assert read == Edit(
        Patch(
            '[{"op":"replace","path":"/price","value":1.10},'
            '{"op":"add","path":"/far","value":[1.0e+3,true,null,"yes",12345678901234567890]}]'
        ),
        (("tenant", "get_json_object(body, '$.tenant')"), ("debug", None)),
    )


@given(documents, hostile)
@example(['\x7f\x85\u2028\ufeff\ufffe😀\ud800/"\\'], "a: b")
def test_edit_is_read_back_as_written(value: Any, expression: str) -> None:
    edit = Edit(
        Patch.of([{"op": "add", "path": "/a~1b", "value": value}]),
        (("tenant", expression), ("debug", None)),
    )
    original = plan(replace(group("g-1"), edit=edit), replace(group("g-2"), edit=Edit(edit.patch)))

    assert read_plan(plan_text(original)) == original


def with_entry(keys: str) -> str:
    entry = indent(f"id: g\n{keys}\naction: redrive", "    ")
    return f"{plan_text(plan(group('g-1')))}  - {entry[4:]}\n"


def test_long_title_stays_on_one_line() -> None:
    title = "word " * 40

    assert f"    title: '{title}'" in plan_text(plan(group(title=title))).splitlines()


def test_digest_of_decisions_is_that_of_what_the_plan_does() -> None:
    original = plan(group("g-1", action=Action.REDRIVE), group("g-2"))
    edit = Edit(Patch.of([{"op": "remove", "path": "/a"}]))

    same = [
        plan(group("g-2", title="another"), group("g-1", "title", action=Action.REDRIVE)),
        plan(replace(group("g-1", action=Action.REDRIVE), note="a note", count=7)),
    ]
    others = [
        plan(group("g-1", action=Action.DISCARD)),
        plan(group("g-1", action=Action.REDRIVE), group("g-2", action=Action.REDRIVE)),
        plan(replace(group("g-1", action=Action.REDRIVE), edit=edit)),
        replace(original, plan_id="20261121T040000Z-00ff01"),
        replace(original, snapshot=replace(original.snapshot, table_sha256="1" * 64)),
    ]

    for each in same:
        assert each.decisions_sha256 == original.decisions_sha256
    for other in others:
        assert other.decisions_sha256 != original.decisions_sha256


EDIT = Edit(None, (("tenant", "'acme'"),))


groups = st.builds(
    PlannedGroup,
    group_id=st.sampled_from(["g-2", "g-3", "g-4"]),
    title=st.text(max_size=30),
    count=st.integers(0, 9),
    action=st.sampled_from(Action),
    edit=st.sampled_from([None, EDIT]),
    note=st.text(max_size=30),
)


@given(
    st.lists(groups, max_size=3, unique_by=lambda group: group.group_id),
    groups.map(lambda group: replace(group, group_id="g-1")),
    st.sampled_from(Action),
    st.none() | st.text(max_size=60),
    st.data(),
)
def test_a_decision_changes_its_group_alone(
    others: list[PlannedGroup],
    group: PlannedGroup,
    action: Action,
    note: str | None,
    data: st.DataObject,
) -> None:
    place = data.draw(st.integers(0, len(others)))
    original = plan(*others[:place], group, *others[place:])

    decided = read_plan(decide(plan_text(original), ["g-1"], action, note))

    expected = replace(group, action=action, note=group.note if note is None else note)
    assert decided.groups == (*others[:place], expected, *others[place:])
    assert replace(decided, groups=original.groups) == original


def test_comments_around_an_entry_stay() -> None:
    two = [PlannedGroup(f"g-{n}", "t", 2, Action.LEAVE) for n in (1, 2)]
    plan_file = plan_text(plan(*two), {"g-2": ["difference: x"]})
    by_hand = plan_file.replace(
        "count: 2\n    action: leave\n", "count: 2\n    action: leave  # no\n\n"
    )

    changed = decide(by_hand, ["g-1"], Action.REDRIVE)

    first, second = by_hand.split("\n\n  # difference: x")
    assert changed == first.replace("leave  # no", "redrive") + "\n\n  # difference: x" + second
    assert second.endswith("  # no\n\n")


ZIP = Patch('[{"op":"replace","path":"/zip","value":"10115"}]')
LONG = Patch('[{"op":"remove","path":"/a"},{"op":"add","path":"/n","value":1.10}]')


def test_several_groups_are_decided_at_once() -> None:
    made = [PlannedGroup(f"g-{n}", "t", 1, Action.LEAVE, note=f"n{n}") for n in range(4)]
    plan_file = plan_text(plan(*made))

    changed = read_plan(decide(plan_file, ["g-3", "g-1", "g-3"], Action.DISCARD, "why"))

    actions = [group.action.value for group in changed.groups]
    assert actions == ["leave", "discard", "leave", "discard"]
    assert [group.note for group in changed.groups] == ["n0", "why", "n2", "why"]
    with pytest.raises(InputError, match="has no group g-9"):
        decide(plan_file, ["g-1", "g-9"], Action.LEAVE)


@given(
    st.lists(groups, max_size=2, unique_by=lambda group: group.group_id),
    groups.map(lambda group: replace(group, group_id="g-1")),
    st.sampled_from([None, ZIP, LONG]),
    st.sampled_from([None, ZIP, LONG]),
)
def test_a_patch_changes_its_group_alone(
    others: list[PlannedGroup], group: PlannedGroup, before: Patch | None, after: Patch | None
) -> None:
    attributes = group.edit.set_attributes if group.edit else ()
    old = Edit(before, attributes) if before or attributes else None
    new = Edit(after, attributes) if after or attributes else None
    original = plan(replace(group, edit=old), *others)
    plan_file = plan_text(original)

    changed = with_patch(plan_file, "g-1", after)

    assert read_plan(changed).groups == (replace(group, edit=new), *others)
    # And back again, to the character, where the patch stood at the same place.
    if before is not None and after is not None:
        assert with_patch(changed, "g-1", before) == plan_file


def test_a_patch_replaces_one_that_a_person_wrote() -> None:
    plan_file = plan_text(plan(PlannedGroup("g-1", "t", 1, Action.LEAVE, Edit(ZIP), "kept")))
    head, _, tail = plan_file.partition("    edit:\n")
    by_hand = f"""{head}    edit:
      # the zip that the shop corrected
      - op: replace
        path: /zip
        value: |-
          1
"""
    assert tail.count("\n") == 1

    assert read_plan(by_hand).groups[0].edit == Edit(Patch(ZIP.text.replace("10115", "1")))
    assert with_patch(by_hand, "g-1", ZIP) == plan_file
    assert with_patch(by_hand, "g-1", None) == head


@pytest.mark.parametrize("entry", ["  - {id: g-1, action: leave}", "- id: g-1\n  action: leave"])
def test_an_entry_of_another_layout_is_written_again(entry: str) -> None:
    plan_file = plan_text(plan()).replace("groups: []\n", f"groups:\n{entry}\n")

    [group] = read_plan(with_patch(decide(plan_file, ["g-1"], Action.REDRIVE), "g-1", ZIP)).groups

    assert (group.action, group.edit) == (Action.REDRIVE, Edit(ZIP))


def test_groups_in_one_line_are_for_a_person() -> None:
    plan_file = plan_text(plan()).replace("groups: []", "groups: [{id: g-1, action: leave}]")

    with pytest.raises(InputError, match=r"groups\[0\]: is written in an unusual way"):
        with_patch(plan_file, "g-1", ZIP)


LAUGHS = "\n".join(
    ["l0: &l0 [x]", *(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))]
)


@pytest.mark.parametrize("text", stored_texts("refused_yaml"))
def test_what_is_refused_says_where(text: str) -> None:
    with pytest.raises(InputError) as raised:
        read_document("f", json.loads(text))

    assert_stored("refused_yaml", text, str(raised.value))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"a: {'[' * 10_000}", "f: is nested too deeply"),
        (LAUGHS, "f: line 2: is an alias (*); write it out"),
    ],
    ids=["deep", "laughs"],
)
def test_what_would_take_long_is_refused(text: str, fault: str) -> None:
    with pytest.raises(InputError) as raised:
        read_document("f", text)

    assert fault in str(raised.value)


scalars = st.none() | st.booleans() | st.integers() | st.text("abc: -#\n\"'")


@given(json_of(scalars, st.text("abcxyz"), 3, max_leaves=10))
def test_the_value_is_what_yaml_says(value: object) -> None:
    document = {"version": 1, "value": value}

    assert read_document("f", yaml.safe_dump(document)) == document
