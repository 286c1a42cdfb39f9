"""The messages that a group is compared with."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dlq.explain.differences.comparison import Comparisons, Others, SampledGroup, SampledMessages
from dlq.explain.differences.features import features_of
from dlq.explain.differences.predicates import feature_table
from dlq.explain.signature.signature import shape_of

FIELDS = tuple(letter * 2 for letter in "abcdefghijklmnop")


@dataclass
class SampledGroups:
    """Groups of messages, of which some stand for many."""

    chance: random.Random = field(default_factory=lambda: random.Random(3))
    bodies: list[str] = field(default_factory=list)
    groups: list[SampledGroup] = field(default_factory=list)

    def group(
        self, name: str, *bodies: Any, population: int = 0, by_shape: bool = False
    ) -> SampledGroup:
        places = np.arange(len(self.bodies), len(self.bodies) + len(bodies))
        self.bodies += [json.dumps(message_body) for message_body in bodies]
        group = SampledGroup(name, places, population or len(bodies), by_shape)
        self.groups.append(group)
        return group

    def comparisons(self) -> Comparisons:
        keys = [shape_of(text).key for text in self.bodies]
        features = [features_of(text, len(text), (), {}) for text in self.bodies]
        shapes = np.unique(keys, return_inverse=True)[1]
        table = feature_table(pa.array(features))
        sample = SampledMessages(table, self.groups, shapes.astype(np.int64), np.zeros(len(shapes)))
        return Comparisons(sample)

    def alike(self, group: SampledGroup) -> Others | None:
        return self.comparisons().alike(group)

    def everybody(self, group: SampledGroup) -> Others | None:
        return self.comparisons().all(group)


def messages(others: Others | None) -> set[int]:
    return set() if others is None else set(others.messages.tolist())


@pytest.fixture
def world() -> SampledGroups:
    return SampledGroups()


def body(fields: Sequence[str], **more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(fields, "x"), **more}


@pytest.mark.parametrize("by_shape", [False, True])
def test_messages_of_the_same_shape_are_alike(world: SampledGroups, *, by_shape: bool) -> None:
    group = world.group("g", *[body(FIELDS)] * 20, by_shape=by_shape)
    same = world.group("same", *[body(FIELDS)] * 30, by_shape=by_shape)
    similar = world.group("similar", *[body(FIELDS[1:])] * 30, by_shape=by_shape)

    alike = world.alike(group)

    assert alike is not None
    assert (alike.are_alike, alike.have_same_shape) == (True, True)
    assert messages(alike) == set(same.messages)
    assert messages(world.everybody(group)) == {*same.messages, *similar.messages}


def test_shapes_have_the_same_proportions_as_in_the_group(world: SampledGroups) -> None:
    """Nine in ten messages of the group have the first shape, and one in ten of the others."""
    group = world.group("g", *[body(FIELDS)] * 18, *[body("xyz")] * 2)
    others = world.group("o", *[body(FIELDS)] * 10, *[body("xyz")] * 90)

    alike = world.alike(group)

    assert alike is not None
    weights = dict(zip(alike.messages, alike.weights, strict=True))
    total = sum(weights.values())
    first = sum(weights[number] for number in others.messages[:10])
    second = sum(weights[number] for number in others.messages[10:])
    assert first / total == pytest.approx(0.9)
    assert second / total == pytest.approx(0.1)
    # A few messages that stand for most of the weight are less informative than as many equal ones.
    assert alike.effective < 20


def test_a_few_messages_of_the_shape_by_chance_are_not_enough(world: SampledGroups) -> None:
    group = world.group("g", *[body(FIELDS)] * 60, by_shape=True)
    few = world.group("few", *[body(FIELDS)] * 5, by_shape=True)
    similar = world.group("similar", *[body(FIELDS[1:])] * 50, by_shape=True)

    alike = world.alike(group)

    assert alike is not None
    assert not alike.have_same_shape
    assert messages(alike) == {*few.messages, *similar.messages}


def test_the_most_similar_shapes_come_first_until_there_are_enough(world: SampledGroups) -> None:
    group = world.group("g", *[body(FIELDS)] * 20, by_shape=True)
    nearest = world.group("nearest", *[body(FIELDS[1:])] * 20, by_shape=True)
    near = world.group("near", *[body(FIELDS[2:])] * 20, by_shape=True)
    world.group("far", *[body(FIELDS[3:])] * 20, by_shape=True)

    assert messages(world.alike(group)) == {*nearest.messages, *near.messages}


def test_of_very_many_others_some_are_looked_at_one_by_one(world: SampledGroups) -> None:
    group = world.group("g", *[body(FIELDS)] * 20)
    world.group("other", *[body("xyz")] * 9000)

    everybody = world.everybody(group)

    assert everybody is not None
    assert 1000 < len(everybody.messages) <= 2000
