"""One group's decision is changed in the text of a plan, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.editing.edit import Edit
from spark_reprocess.errors import InputError
from spark_reprocess.plan.decision import decide
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from spark_reprocess.plan.reading import read_plan

HEX = "0" * 64
EDIT = Edit(None, (("tenant", "'acme'"),))


def plan_of(*groups: PlannedGroup) -> Plan:
    return Plan(
        "20261121T040000Z-00ff00", "/a", Snapshot(("d-1",), 3, HEX, None, None, HEX), groups
    )


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

    decided = read_plan(decide(plan_text(plan), "g-1", action, note))

    expected = replace(group, action=action, note=group.note if note is None else note)
    assert decided.groups == (*others[:place], expected, *others[place:])
    assert replace(decided, groups=plan.groups) == plan


def test_comments_and_what_somebody_wrote_by_hand_stay() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 2, Action.LEAVE)), {"g-1": ["lead: x"]})
    by_hand = text.replace("    action: leave", "    action: leave   # ask payments first")

    decided = decide(by_hand, "g-1", Action.REDRIVE)

    assert decided == by_hand.replace("    action: leave ", "    action: redrive ")


@pytest.mark.parametrize("note", [None, 'they asked: "all"\n# of it', ""])
def test_a_group_on_one_line_can_be_decided(note: str | None) -> None:
    text = plan_text(plan_of())
    text = text.replace("groups: []", "groups: [{id: g-1, action: leave, title: t}]")

    [group] = read_plan(decide(text, "g-1", Action.DISCARD, note)).groups

    assert (group.action, group.note, group.title) == (Action.DISCARD, note or "", "t")


def test_a_group_that_is_not_in_the_plan_is_named() -> None:
    text = plan_text(plan_of(PlannedGroup("g-1", "t", 2, Action.LEAVE)))

    with pytest.raises(InputError, match=r"plan .* has no group g-9; its groups are g-1"):
        decide(text, "g-9", Action.REDRIVE)


def test_actions_that_share_an_alias_are_left_to_a_person() -> None:
    text = plan_text(plan_of()).replace(
        "groups: []",
        "groups:\n  - {id: g-1, action: &same leave}\n  - {id: g-2, action: *same}",
    )

    with pytest.raises(InputError, match=r"edit line \d+ by hand"):
        decide(text, "g-1", Action.REDRIVE)
