"""Values that go with a shape, and values that are free."""

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_reprocess.analysis.leads.comparison import ConstantFields
from spark_reprocess.analysis.leads.features import features_of, path_text
from spark_reprocess.analysis.leads.predicates import feature_table

KINDS = ("placed", "paid", "sent", "refunded")


def constant_of(by_shape: list[list[dict[str, Any]]], shape: int) -> dict[tuple[str, str], bool]:
    """Of each feature of some shapes whether *shape* fixes it."""
    texts = [json.dumps(one) for bodies in by_shape for one in bodies]
    shapes = np.repeat(np.arange(len(by_shape)), [len(bodies) for bodies in by_shape])
    table = feature_table(pa.array([features_of(text, len(text), (), {}) for text in texts]))
    is_constant = ConstantFields(table, shapes).of(shape)
    return {
        (path_text(table.paths[table.field[feature]]), tag): bool(is_constant[feature])
        for feature, tag in enumerate(table.tags)
    }


def of_kind(kind: str, count: int, chance: random.Random, **own: Any) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "status": f"is-{kind}",
            "tenant": chance.choice(("acme", "globex")),
            "digits": KINDS.index(kind) + 10,
            "id": f"{chance.getrandbits(64):x}",
            **own,
        }
        for _ in range(count)
    ]


@pytest.fixture
def shapes() -> list[list[dict[str, Any]]]:
    chance = random.Random(1)
    return [of_kind(kind, 20, chance) for kind in KINDS]


@pytest.mark.parametrize(
    ("own", "feature", "is_constant"),
    [
        # Each shape has one of its own: what kind it is.
        ({}, ("body.kind", "=placed"), True),
        ({}, ("body.status", "=is-placed"), True),
        ({}, ("body.digits", "~2"), True),
        # The others vary in it: it is free to tell something.
        ({}, ("body.tenant", "=acme"), False),
        ({"tenant": "acme"}, ("body.tenant", "=acme"), False),
        # A field full of ids is not constant by a value that some have in common.
        ({"id": "0000"}, ("body.id", "=0000"), False),
        # No other shape has it.
        ({"coupon": "none"}, ("body.coupon", "=none"), True),
        # Types say what the shape says anyway; that is not this module's question.
        ({}, ("body.kind", "T"), False),
    ],
)
def test_what_each_other_shape_has_one_value_of_goes_with_the_shape(
    shapes: list[list[dict[str, Any]]],
    own: dict[str, str],
    feature: tuple[str, str],
    *,
    is_constant: bool,
) -> None:
    """The messages of the shape that is asked about have the fields *own* as well."""
    shapes[0] = [{**one, **own} for one in shapes[0]]

    assert constant_of(shapes, 0)[feature] is is_constant


def test_too_few_messages_of_the_others_do_not_make_a_field_free(
    shapes: list[list[dict[str, Any]]],
) -> None:
    shapes[0] = [{**one, "note": "x"} for one in shapes[0]]
    shapes[1][:4] = [{**one, "note": n} for n, one in zip("abcd", shapes[1], strict=False)]

    assert constant_of(shapes, 0)["body.note", "=x"]


def test_of_one_shape_alone_everything_is_constant() -> None:
    chance = random.Random(2)

    found = constant_of([of_kind("placed", 20, chance)], 0)

    assert found["body.kind", "=placed"]
    assert found["body.tenant", "=acme"]
