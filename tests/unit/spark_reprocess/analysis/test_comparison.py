"""Whom a group is compared with."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_reprocess.analysis.comparison import Comparison, Comparisons, SampledGroup, Scope
from spark_reprocess.analysis.signature import shape_of
from spark_reprocess.analysis.trait_table import trait_table
from spark_reprocess.analysis.traits import traits_of

FIELDS = ("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh")


@dataclass
class Sample:
    """Groups of messages, of which some stand for many."""

    chance: random.Random = field(default_factory=lambda: random.Random(3))
    bodies: list[str] = field(default_factory=list)
    groups: list[SampledGroup] = field(default_factory=list)

    def group(
        self, name: str, *bodies: Any, population: int = 0, by_shape: bool = False
    ) -> SampledGroup:
        places = np.arange(len(self.bodies), len(self.bodies) + len(bodies))
        self.bodies += [json.dumps(one) for one in bodies]
        group = SampledGroup(name, places, population or len(bodies), by_shape)
        self.groups.append(group)
        return group

    def compared(self, group: SampledGroup) -> list[Comparison]:
        names, shapes = np.unique([shape_of(one).key for one in self.bodies], return_inverse=True)
        table = trait_table(pa.array([traits_of(one, len(one), (), {}) for one in self.bodies]))
        comparisons = Comparisons(
            table, self.groups, shapes.astype(np.int64), [str(name) for name in names]
        )
        return list(comparisons.of(group))

    def those(self, compared: Comparison) -> set[int]:
        return set(compared.others.messages.tolist())


@pytest.fixture
def sample() -> Sample:
    return Sample()


def body(fields: Sequence[str], **more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(fields, "x"), **more}


def test_alone_there_is_nobody_to_be_compared_with(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20)

    assert sample.compared(group) == []


def test_an_error_is_compared_with_messages_of_its_shapes_and_with_all(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20)
    same = sample.group("same", *[body(FIELDS)] * 30)
    other = sample.group("other", *[body("xyz")] * 30)

    alike, everybody = sample.compared(group)

    assert (alike.are_alike, alike.scope) == (True, Scope.EVERYTHING)
    assert sample.those(alike) == set(same.messages)
    assert (everybody.are_alike, everybody.scope) == (False, Scope.EVERYTHING)
    assert sample.those(everybody) == {*same.messages, *other.messages}


def test_an_error_of_shapes_that_nobody_else_has_is_compared_with_all_only(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20)
    sample.group("other", *[body("xyz")] * 30)

    (everybody,) = sample.compared(group)

    assert not everybody.are_alike


def test_shapes_are_mixed_as_the_group_mixes_them(sample: Sample) -> None:
    """Nine in ten of the group are of the one shape, and one in ten of the others."""
    group = sample.group("g", *[body(FIELDS)] * 18, *[body("xyz")] * 2)
    others = sample.group("o", *[body(FIELDS)] * 10, *[body("xyz")] * 90)

    alike, _ = sample.compared(group)

    weights = dict(zip(alike.others.messages, alike.others.weights, strict=True))
    first, second = others.messages[:10], others.messages[10:]
    total = sum(weights.values())
    assert sum(weights[one] for one in first) / total == pytest.approx(0.9)
    assert sum(weights[one] for one in second) / total == pytest.approx(0.1)
    # A few messages that stand for most of it tell less than as many that stand for their like.
    assert alike.others.effective < 20


def test_a_message_of_a_sampled_group_stands_for_many(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20)
    sample.group("large", *[body("xyz")] * 10, population=10_000)
    sample.group("small", *[body("xyz")] * 10)

    (everybody,) = sample.compared(group)

    assert everybody.others.weight == 10_010
    assert everybody.others.effective == pytest.approx(10_010**2 / (10 * 1000**2 + 10), rel=1e-6)


def test_a_shape_that_was_parked_for_other_reasons_too_is_compared_with_those(
    sample: Sample,
) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20, by_shape=True)
    same = sample.group("same", *[body(FIELDS)] * 20, by_shape=True)
    sample.group("other", *[body("xyz")] * 50, by_shape=True)

    (compared,) = sample.compared(group)

    assert (compared.are_alike, compared.scope) == (True, Scope.EVERYTHING)
    assert sample.those(compared) == set(same.messages)


def test_a_few_that_fell_into_another_group_by_chance_are_not_its_like(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 60, by_shape=True)
    sample.group("few", *[body(FIELDS)] * 5, by_shape=True)
    sample.group("other", *[body("xyz")] * 50, by_shape=True)

    compared = sample.compared(group)

    assert all(len(sample.those(one)) > 5 for one in compared)


def test_a_shape_of_its_own_is_compared_with_similar_ones_in_what_it_fixes(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS[1:])] * 20, by_shape=True)
    near = sample.group("near", *[body(FIELDS)] * 20, by_shape=True)
    similar = sample.group("similar", *[body(FIELDS[:6])] * 20, by_shape=True)
    other = sample.group("other", *[body("xyz")] * 20, by_shape=True)

    fixed, free = sample.compared(group)

    assert (fixed.scope, fixed.are_alike) == (Scope.FIXED, True)
    assert sample.those(fixed) == {*near.messages, *similar.messages}
    assert fixed.nearest is not None
    assert set(fixed.nearest.messages) == set(near.messages)
    assert (free.scope, free.are_alike) == (Scope.FREE, False)
    assert sample.those(free) == {*near.messages, *similar.messages, *other.messages}


def test_the_nearest_are_as_many_shapes_as_it_takes_to_be_enough(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS[1:])] * 20, by_shape=True)
    nearest = sample.group("nearest", *[body(FIELDS)] * 4, by_shape=True)
    near = sample.group("near", *[body(FIELDS[2:])] * 20, by_shape=True)
    far = sample.group("far", *[body(FIELDS[:5])] * 20, by_shape=True)

    fixed, _ = sample.compared(group)

    assert fixed.nearest is not None
    assert set(fixed.nearest.messages) == {*nearest.messages, *near.messages}
    assert set(far.messages) <= sample.those(fixed)


def test_a_shape_like_no_other_is_compared_with_all(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20, by_shape=True)
    other = sample.group("other", *[body("xyz")] * 30, by_shape=True)

    (everybody,) = sample.compared(group)

    assert (everybody.are_alike, everybody.scope) == (False, Scope.EVERYTHING)
    assert sample.those(everybody) == set(other.messages)


def test_of_very_many_others_some_are_looked_at_one_by_one(sample: Sample) -> None:
    group = sample.group("g", *[body(FIELDS)] * 20)
    sample.group("other", *[body("xyz")] * 9000)

    (everybody,) = sample.compared(group)

    assert 1000 < len(everybody.others.messages) <= 4000
    assert everybody.others.weight == 9000
