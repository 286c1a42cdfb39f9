import json
import random

import pytest

from demo.identity import DEMO_ID, Attribute, Content
from demo.input_file import MAX_MESSAGE_BYTES
from demo.workload import DemoMessage, Trait, broken_count, from_input, invent


def attributes(count: int) -> dict[str, Attribute]:
    return {f"a{n}": Attribute("String", "v") for n in range(count)}


def test_same_seed_invents_the_same_messages() -> None:
    assert invent(30, random.Random(7)) == invent(30, random.Random(7))
    assert invent(30, random.Random(7)) != invent(30, random.Random(8))


def test_invented_messages_are_distinct_json_with_each_kind_of_attribute() -> None:
    messages = invent(120, random.Random(1))

    assert len({m.identity for m in messages}) == 120
    types = {a.data_type for m in messages for a in m.content.attributes.values()}
    assert types == {"String", "Number", "Binary.hmac"}
    assert all(json.loads(m.content.body)["type"] for m in messages)


def test_shares_of_faults_are_kept() -> None:
    messages = invent(200, random.Random(1))

    assert sum(m.trait is Trait.BROKEN for m in messages) == 16
    assert 55 <= sum(m.trait is Trait.NEEDS_PAYMENTS for m in messages) <= 95


@pytest.mark.parametrize("seed", range(5))
def test_few_messages_meet_every_bug(seed: int) -> None:
    broken = [m for m in invent(10, random.Random(seed)) if m.trait is Trait.BROKEN]

    assert len({json.loads(m.content.body)["type"] for m in broken}) == 3


@pytest.mark.parametrize(("count", "broken"), [(1, 1), (2, 2), (10, 3), (120, 10)])
def test_few_messages_have_enough_broken_ones_to_see(count: int, broken: int) -> None:
    assert broken_count(count) == broken


def test_message_with_room_gets_the_demo_id() -> None:
    with_room = DemoMessage.of(5, Content("b", attributes(7)))
    without_slot = DemoMessage.of(5, Content("b", attributes(8)))
    without_bytes = DemoMessage.of(5, Content("b" * MAX_MESSAGE_BYTES))

    assert with_room.identity == "m00005"
    assert DEMO_ID not in without_slot.content.attributes
    assert without_slot.identity == without_slot.content.fingerprint
    assert DEMO_ID not in without_bytes.content.attributes


def test_the_products_own_attributes_take_no_room_of_the_demo_id() -> None:
    content = Content("b", {**attributes(7), "sqs-dlq-replay-nb": Attribute("Number", "1")})

    assert DemoMessage.of(1, content).identity == "m00001"


def test_input_keeps_order_and_gets_each_fault() -> None:
    messages, faults = from_input([(n, Content(f"body {n}")) for n in range(1, 101)])

    assert [m.number for m in messages] == list(range(1, 101))
    assert faults == []
    assert sum(m.trait is Trait.BROKEN for m in messages) == 8
    assert sum(m.trait is Trait.NEEDS_PAYMENTS for m in messages) == 40


def test_bug_hits_whole_kinds_of_payload() -> None:
    rare = [(n, Content(json.dumps({"rare": n}))) for n in range(1, 9)]
    common = [(n, Content(json.dumps({"common": n}))) for n in range(9, 101)]

    messages, _ = from_input([*rare, *common])

    assert {m.number for m in messages if m.trait is Trait.BROKEN} == set(range(1, 9))


def test_message_that_nothing_tells_from_another_is_reported() -> None:
    twin = Content("b", attributes(9))

    messages, faults = from_input([(1, twin), (2, Content("b")), (3, twin), (4, Content("b"))])

    assert [m.number for m in messages] == [1, 2, 4]
    assert [(f.line, "equals line 1" in f.rule) for f in faults] == [(3, True)]
