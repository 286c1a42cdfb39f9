"""What masking leaves out where it can find nothing must not change what it does."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.failures import one_line
from spark_reprocess.analysis.normalization import mask_error, mask_ids

PIECES = st.sampled_from(
    [
        *("2026-11-21T03:15:02Z", "2026-11-21", "03:15", "0xdeadBEEF", "0x", "x0x1", "can't"),
        *("123e4567-e89b-12d3-a456-426614174000", "deadbeefcafe", "deadbeefcaf1", "-", " ", "_"),
        *("123456789012", "12345678901", "order_12", "ord12er3", "a1b2c3d4", "ab12é345", "7"),
        *("\u0661" * 12, "a\u06611b\u0662cdef", "é1a2b3c4", "K1\u017f2", "'quoted 12'", '"a1"'),
        "bob@example.com",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=8).map("".join)

EVERYTHING = "x-1b"
"""Beside it every mask is tried: a dash, a digit, and a word that mixes it with letters."""


@given(TEXTS)
def test_an_error_is_masked_as_if_everything_were_looked_for(text: str) -> None:
    beside = mask_error(f"{text} {EVERYTHING}")

    assert beside == one_line(f"{mask_error(text)} x-<n>b")


@given(TEXTS)
def test_ids_are_masked_as_if_everything_were_looked_for(text: str) -> None:
    assert mask_ids(f"{text} {EVERYTHING}") == one_line(f"{mask_ids(text)} {EVERYTHING}")


@given(TEXTS)
def test_no_digit_stays_in_an_error(text: str) -> None:
    assert not re.search(r"\d", mask_error(text))
