"""One group's decision is changed in the text of a plan, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.editing.edit import Edit, Patch
from spark_reprocess.editing.json_text import read_json
from spark_reprocess.errors import InputError
from spark_reprocess.plan.decision import decide, with_patch
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from spark_reprocess.plan.reading import read_plan

HEX = "0" * 64
EDIT = Edit(None, (("tenant", "'acme'"),))


def plan_of(*groups: PlannedGroup) -> Plan:
    return Plan("20261121T040000Z-00ff00", "/a", Snapshot(("d-1",), 3, HEX, HEX), groups)


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
    st.lists(groups, max_size=3, unique_by=lambda one: one.group_id),
    groups.map(lambda one: replace(one, group_id="g-1")),
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
    plan = plan_of(*others[:place], group, *others[place:])

    decided = read_plan(decide(plan_text(plan), ["g-1"], action, note))

    expected = replace(group, action=action, note=group.note if note is None else note)
    assert decided.groups == (*others[:place], expected, *others[place:])
    assert replace(decided, groups=plan.groups) == plan


def test_comments_around_an_entry_stay() -> None:
    two = [PlannedGroup(f"g-{n}", "t", 2, Action.LEAVE) for n in (1, 2)]
    text = plan_text(plan_of(*two), {"g-2": ["lead: x"]})
    by_hand = text.replace("count: 2\n    action: leave\n", "count: 2\n    action: leave  # no\n\n")

    changed = decide(by_hand, ["g-1"], Action.REDRIVE)

    first, second = by_hand.split("\n\n  # lead: x")
    assert changed == first.replace("leave  # no", "redrive") + "\n\n  # lead: x" + second
    assert second.endswith("  # no\n\n")


def test_a_group_that_is_not_in_the_plan_is_named() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 2, Action.LEAVE)))

    with pytest.raises(InputError, match=r"plan .* has no group g-9; its groups are g-1"):
        decide(text, ["g-9"], Action.REDRIVE)


def patch(text: str) -> Patch:
    return Patch.of(read_json(text))


ZIP = patch('[{"op": "replace", "path": "/zip", "value": "10115"}]')
LONG = patch('[{"op": "remove", "path": "/a"}, {"op": "add", "path": "/n", "value": 1.10}]')


def test_several_groups_are_decided_at_once() -> None:
    made = [PlannedGroup(f"g-{n}", "t", 1, Action.LEAVE, note=f"n{n}") for n in range(4)]
    text = plan_text(plan_of(*made))

    changed = read_plan(decide(text, ["g-3", "g-1", "g-3"], Action.DISCARD, "why"))

    assert [one.action.value for one in changed.groups] == ["leave", "discard", "leave", "discard"]
    assert [one.note for one in changed.groups] == ["n0", "why", "n2", "why"]
    with pytest.raises(InputError, match="has no group g-9"):
        decide(text, ["g-1", "g-9"], Action.LEAVE)


@given(
    st.lists(groups, max_size=2, unique_by=lambda one: one.group_id),
    groups.map(lambda one: replace(one, group_id="g-1")),
    st.sampled_from([None, ZIP, LONG]),
    st.sampled_from([None, ZIP, LONG]),
)
def test_a_patch_changes_its_group_alone(
    others: list[PlannedGroup], group: PlannedGroup, before: Patch | None, after: Patch | None
) -> None:
    attributes = group.edit.set_attributes if group.edit else ()
    old = Edit(before, attributes) if before or attributes else None
    new = Edit(after, attributes) if after or attributes else None
    plan = plan_of(replace(group, edit=old), *others)
    text = plan_text(plan)

    changed = with_patch(text, "g-1", after)

    assert read_plan(changed).groups == (replace(group, edit=new), *others)
    # And back again, to the character, where the patch stood at the same place.
    if before is not None and after is not None:
        assert with_patch(changed, "g-1", before) == text


def test_a_patch_replaces_one_that_a_person_wrote() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 1, Action.LEAVE, Edit(ZIP), "kept")))
    head, _, tail = text.partition("    edit:\n")
    by_hand = f"""{head}    edit:
      # the zip that the shop corrected
      - op: replace
        path: /zip
        value: |-
          1
"""
    assert tail.count("\n") == 1

    assert read_plan(by_hand).groups[0].edit == Edit(patch(ZIP.text.replace("10115", "1")))
    assert with_patch(by_hand, "g-1", ZIP) == text
    assert with_patch(by_hand, "g-1", None) == head


@pytest.mark.parametrize("entry", ["  - {id: g-1, action: leave}", "- id: g-1\n  action: leave"])
def test_an_entry_of_another_layout_is_written_anew(entry: str) -> None:
    text = plan_text(plan_of()).replace("groups: []\n", f"groups:\n{entry}\n")

    [group] = read_plan(with_patch(decide(text, ["g-1"], Action.REDRIVE), "g-1", ZIP)).groups

    assert (group.action, group.edit) == (Action.REDRIVE, Edit(ZIP))


def test_groups_in_one_line_are_for_a_person() -> None:
    text = plan_text(plan_of()).replace("groups: []", "groups: [{id: g-1, action: leave}]")

    with pytest.raises(InputError, match=r"groups\[0\]: is written in an unusual way"):
        with_patch(text, "g-1", ZIP)
