"""What can be claimed of messages, and of how many it holds."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.claims import Claims, Held, Sort
from spark_reprocess.analysis.trait_table import trait_table
from spark_reprocess.analysis.traits import traits_of, way_text

Told = dict[tuple[str, str], tuple[float, float]]
BODIES = (
    {"tenant": "acme", "amount": 5},
    {"tenant": "acme", "amount": 7},
    {"tenant": "acme", "amount": "seven"},
    {"amount": 512},
    {"tenant": "globex", "address": {"city": "Paris"}},
    {"tenant": "globex", "address": {}},
)


def claims_of(bodies: tuple[Any, ...]) -> tuple[Claims, Held, int]:
    """Claims about each body three times, so that no value is too rare to be one; what holds."""
    texts = [json.dumps(one) for one in bodies for _ in range(3)]
    table = trait_table(pa.array([traits_of(text, 9, (), {}) for text in texts]))
    claims, messages = Claims(table, np.zeros(len(texts), np.int64)), len(texts)
    return claims, claims.held(table.counts(np.arange(messages)), float(messages)), messages


def told_of(bodies: tuple[Any, ...]) -> Told:
    """Of how many bodies each claim holds, and of how many it could."""
    claims, held, _ = claims_of(bodies)
    return {
        (way_text(said.way), said.tag if said.sort is Sort.TAG else said.sort.name): (
            held.had[claim] / 3,
            held.could[claim] / 3,
        )
        for claim in np.flatnonzero(claims.is_claim)
        if (said := claims.said(int(claim)))
    }


@pytest.mark.parametrize(
    ("claim", "holds", "could"),
    [
        (("body.tenant", "=acme"), 3, 5),
        (("body.tenant", "MISSING"), 1, 6),
        (("body.tenant", "PRESENT"), 5, 6),
        (("body.amount", "N"), 3, 4),
        (("body.amount", "T"), 1, 4),
        # Of one digit, among those that are numbers: that it is one is another claim.
        (("body.amount", "~1"), 2, 3),
        # What is in an object could be there only where there is one.
        (("body.address.city", "PRESENT"), 1, 2),
        (("body.address.city", "MISSING"), 1, 2),
        (("body.address", "MISSING"), 4, 6),
    ],
)
def test_a_claim_is_weighed_among_the_messages_for_which_it_could_hold(
    claim: tuple[str, str], holds: int, could: int
) -> None:
    assert told_of(BODIES)[claim] == (holds, could)


def test_nothing_is_claimed_of_what_every_message_has() -> None:
    told = told_of(BODIES)

    assert not {("body", "PRESENT"), ("body", "MISSING"), ("body", "+"), ("body.address", "+")} & {
        *told
    }


def test_where_an_object_was_not_looked_at_nothing_in_it_is_missing() -> None:
    keys = [f"key{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(395)]
    wide = {**dict.fromkeys(keys, "x"), "address": {f"in{chr(97 + n)}": 1 for n in range(20)}}

    told = told_of((wide, {"address": {"ina": 1}}))

    assert told["body.address.ina", "MISSING"] == (0, 1)
    assert told["body.address.ina", "PRESENT"] == (1, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3)
    ),
)


@given(st.lists(JSON, min_size=1, max_size=6).map(tuple))
def test_what_is_counted_is_what_the_holders_are(bodies: tuple[Any, ...]) -> None:
    claims, held, messages = claims_of(bodies)

    assert len(held.had) == len(held.could) == len(claims)
    for claim in np.flatnonzero(claims.is_claim):
        said = claims.said(int(claim))
        holders = claims.holders(int(claim))
        candidates = claims.candidates(int(claim))
        assert holders.sum() == held.had[claim], said
        assert not (holders & ~candidates).any(), said
        assert held.had[claim] <= held.could[claim] <= messages, said
        if not said.tag.startswith("~"):
            assert candidates.sum() == held.could[claim], said


@given(st.lists(JSON, min_size=1, max_size=6).map(tuple))
def test_a_field_is_there_or_missing(bodies: tuple[Any, ...]) -> None:
    claims, _, _ = claims_of(bodies)
    pairs: dict[str, dict[Sort, Any]] = {}
    for claim in np.flatnonzero(claims.is_claim):
        said = claims.said(int(claim))
        if said.sort is not Sort.TAG:
            pairs.setdefault(said.way, {})[said.sort] = claims.holders(int(claim))

    for found in pairs.values():
        assert not (found[Sort.PRESENT] & found[Sort.MISSING]).any()


def test_a_claim_names_its_field() -> None:
    claims, _, _ = claims_of(({"a": {"b": 1}}, {"a": {}}))
    of_b = [
        int(one)
        for one in np.flatnonzero(claims.is_claim)
        if way_text(claims.said(int(one)).way) == "body.a.b"
    ]

    assert len({claims.field(one) for one in of_b}) == 1
    assert all(claims.is_in_body(one) for one in of_b)
    size = [one for one in range(len(claims)) if claims.said(one).way == "body_bytes"]
    assert not any(claims.is_in_body(one) for one in size)
