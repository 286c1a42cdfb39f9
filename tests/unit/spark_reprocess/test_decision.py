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


def test_comments_and_what_somebody_wrote_by_hand_stay() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 2, Action.LEAVE)), {"g-1": ["lead: x"]})
    by_hand = text.replace("    action: leave", "    action: leave   # ask payments first")

    decided = decide(by_hand, ["g-1"], Action.REDRIVE)

    assert decided == by_hand.replace("    action: leave ", "    action: redrive ")


@pytest.mark.parametrize("note", [None, 'they asked: "all"\n# of it', ""])
def test_a_group_on_one_line_can_be_decided(note: str | None) -> None:
    text = plan_text(plan_of())
    text = text.replace("groups: []", "groups: [{id: g-1, action: leave, title: t}]")

    [group] = read_plan(decide(text, ["g-1"], Action.DISCARD, note)).groups

    assert (group.action, group.note, group.title) == (Action.DISCARD, note or "", "t")


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


def test_a_patch_keeps_what_a_person_wrote_around_it() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 1, Action.LEAVE, Edit(ZIP))))
    head, _, tail = text.partition("    edit:\n")
    by_hand = f"""{head}    edit:
      # the zip that the shop corrected
      - op: replace
        path: /zip
        value: |-
          1
    # a comment behind it
    note: kept
"""
    assert tail.count("\n") == 1

    changed = with_patch(by_hand, "g-1", LONG)

    assert "}\n    # a comment behind it\n    note: kept\n" in changed
    assert read_plan(changed).groups[0].edit == Edit(LONG)
    removed = with_patch(by_hand, "g-1", None)
    assert removed == f"{head}    # a comment behind it\n    note: kept\n"


def test_a_group_in_one_line_is_for_a_person() -> None:
    one_line = "groups:\n  - {id: g-1, action: leave}\n"
    text = plan_text(plan_of()).replace("groups: []\n", one_line)

    with pytest.raises(InputError, match=r"edit groups\[0\] by hand"):
        with_patch(text, "g-1", ZIP)
