import random

import pytest

from demo.identity import Content
from demo.workload import MAX_GROUPS, DemoMessage, Trait, in_groups, invent


def test_each_message_has_the_same_group_in_every_run() -> None:
    first, again = (in_groups(invent(120, random.Random(1))) for _ in range(2))

    assert first == again
    assert [m.content for m in first] == [m.content for m in invent(120, random.Random(1))]


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (24, 3), (120, 17), (500, MAX_GROUPS)])
def test_groups_are_few_enough_to_share_and_enough_to_pass_by(count: int, groups: int) -> None:
    messages = in_groups(invent(count, random.Random(1)))

    assert len({m.group for m in messages}) == groups


def test_bug_hits_a_quarter_of_the_groups() -> None:
    messages = in_groups(invent(500, random.Random(1)))

    assert len({m.group for m in messages if m.trait is Trait.BROKEN}) <= MAX_GROUPS // 4


def test_own_messages_without_room_for_a_mark_have_groups_too() -> None:
    full = DemoMessage.of(1, Content("b" * 1_048_576))

    assert in_groups([full])[0].group == in_groups([full])[0].group is not None
