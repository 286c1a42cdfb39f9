"""Features and predicates, for how many messages they hold, and the G-test of two shares."""

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.differences.contrast import evidence
from dlq.explain.differences.features import (
    MISSING,
    NEWLINE,
    PRESENT,
    TAG,
    features_of,
    path_text,
)
from dlq.explain.differences.predicates import Counts, FeatureTable, feature_table
from tests.property.strategies import json_of

BODIES = (
    {"tenant": "acme", "amount": 5},
    {"tenant": "acme", "amount": 7},
    {"tenant": "acme", "amount": "seven"},
    {"amount": 512},
    {"tenant": "globex", "address": {"city": "Paris"}},
    {"tenant": "globex", "address": {}, "lines": [{"n": 1}, {}], "inner": '{"e": {"f": 1}}'},
)


def predicates_of(bodies: tuple[Any, ...]) -> tuple[FeatureTable, Counts]:
    """Predicates about three copies of each body, so that no value is dropped; their counts."""
    texts = [json.dumps(body) for body in bodies for _ in range(3)]
    table = feature_table(pa.array([features_of(text, 9, (), {}) for text in texts]))
    return table, table.counts(np.arange(len(texts)), np.ones(len(texts)))


def counts_of(bodies: tuple[Any, ...]) -> dict[tuple[str, str], tuple[float, float]]:
    """For how many bodies each predicate holds, and to how many it applies."""
    table, counts = predicates_of(bodies)
    shares = {}
    for number in np.flatnonzero(table.is_predicate):
        path, tag = table.predicate(int(number))
        shares[path_text(path), tag] = counts.holds[number] / 3, counts.applies[number] / 3

    return shares


@pytest.mark.parametrize(
    ("predicate", "holds", "could"),
    [
        (("body.tenant", "=acme"), 3, 5),
        (("body.tenant", MISSING), 1, 6),
        (("body.tenant", PRESENT), 5, 6),
        (("body.amount", "number"), 3, 4),
        (("body.amount", "text"), 1, 4),
        (("body.amount", "~1"), 2, 4),
        # What is in an object could be there only where there is one.
        (("body.address.city", PRESENT), 1, 2),
        (("body.address.city", MISSING), 1, 2),
        (("body.address", MISSING), 4, 6),
        (("body.lines[].n", PRESENT), 1, 1),
        (("body.inner.e", PRESENT), 1, 1),
        (("body.inner.e.f", PRESENT), 1, 1),
    ],
)
def test_a_predicate_is_counted_among_the_messages_to_which_it_applies(
    predicate: tuple[str, str], holds: int, could: int
) -> None:
    assert counts_of(BODIES)[predicate] == (holds, could)


def test_nothing_is_missing_in_an_object_that_was_not_read() -> None:
    keys = [f"key{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(395)]
    wide = {**dict.fromkeys(keys, "x"), "address": {f"in{chr(97 + n)}": 1 for n in range(20)}}

    counts = counts_of((wide, {"address": {"ina": 1}}))

    assert counts["body.address.ina", MISSING] == (0, 1)
    assert counts["body.address.ina", PRESENT] == (1, 1)


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"])
documents = json_of(scalars, st.sampled_from("abc"), 3)


@given(st.lists(documents, min_size=1, max_size=6).map(tuple))
def test_what_is_counted_is_what_the_holders_are(bodies: tuple[Any, ...]) -> None:
    table, counts = predicates_of(bodies)

    assert len(counts.holds) == len(counts.applies) == len(table.is_predicate)
    for number in map(int, np.flatnonzero(table.is_predicate)):
        holders = table.holds(number)
        candidates = table.applies(number)
        assert holders.sum() == counts.holds[number], table.predicate(number)
        assert not (holders & ~candidates).any(), table.predicate(number)
        assert candidates.sum() == counts.applies[number], table.predicate(number)


def test_a_field_in_an_object_can_be_present_or_missing_and_a_body_cannot() -> None:
    for tag in (PRESENT, MISSING):
        counts = counts_of(({"a": {"b": 1}}, {"a": {}}))
        assert {path for path, own in counts if own == tag} == {"body.a", "body.a.b"}


PATHS = ("body", "body\x1fa", "body\x1fa\x1fb", "body\x1fc\x1d", "body\x1fc")
TAGS = ("text", "number", "object", "+", "=x", "=y", "~3")
MESSAGES = st.lists(
    st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(TAGS)), min_size=1, unique=True),
    min_size=1,
    max_size=30,
)


@given(MESSAGES)
def test_what_is_not_rare_is_counted_and_keeps_its_holders(
    messages: list[list[tuple[str, str]]],
) -> None:
    texts = []
    for message in messages:
        texts.append(NEWLINE.join(f"{path}{TAG}{tag}" for path, tag in message))
    table = feature_table(pa.array(texts))

    expected = {}
    for (path, tag), count in Counter(itertools.chain(*messages)).items():
        if tag[0] not in "=~" or count >= 3:
            expected[path, tag] = count

    features = [(table.paths[table.field[i]], tag) for i, tag in enumerate(table.tags)]
    counts = table.counts(np.arange(table.messages), np.ones(table.messages)).holds

    assert table.messages == len(messages)
    assert dict(zip(features, counts.astype(int).tolist(), strict=False)) == expected
    for number, feature in enumerate(features):
        places = [place for place, message in enumerate(messages) if feature in message]
        assert table.holders.of(np.array([number]))[0].tolist() == places


@given(st.lists(st.integers(1, 60), min_size=4, max_size=4))
def test_evidence_is_half_of_g(cells: list[int]) -> None:
    """The textbook formula of half of it: sum(observed * log(observed / expected))."""
    seen = np.array(cells, np.float64).reshape(2, 2)
    counts = seen.sum(axis=1)
    expected = np.outer(counts, seen.sum(axis=0)) / seen.sum()
    first, second = np.split(seen[:, 0] / counts, 2)
    count_1, count_2 = np.split(counts, 2)

    half_of_g = evidence(first, count_1, second, count_2)[0]

    assert half_of_g == pytest.approx((seen * np.log(seen / expected)).sum(), abs=1e-9)
