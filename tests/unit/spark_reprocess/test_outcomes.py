"""What became of what a plan sent, in numbers and in one sentence."""

from dataclasses import replace
from typing import Any

import pytest

from spark_reprocess.inspect.outcomes import Outcome

SENT_AT = 1_700_000_000.0
SOME = Outcome("g-1", {"sent": 340}, 340, SENT_AT, 12, 3, 150)


@pytest.mark.parametrize(
    ("changes", "passed_seconds", "sentence"),
    [
        (
            {"returned": 0, "parked": 0},
            100,
            (
                "sent 340, came back 0, nothing heard of 340 for 1 min 40 s, of which a failure "
                "returns after 2 min 30 s"
            ),
        ),
        # One in doubt came back, too.
        (
            {"sent": 1, "returned": 2, "parked": 0},
            360,
            "sent 1, came back 2 (2 being replayed, 0 parked again)",
        ),
        (
            {"failure_seconds": None, "parked": 0, "returned": 0},
            60,
            "sent 340, came back 0, nothing heard of 340 for 1 min",
        ),
    ],
)
def test_sentence(changes: dict[str, Any], passed_seconds: float, sentence: str) -> None:
    assert replace(SOME, **changes).sentence(SENT_AT + passed_seconds) == sentence


@pytest.mark.parametrize(
    ("changes", "passed_seconds", "is_known"),
    [
        ({}, 209, False),
        ({}, 210, True),
        ({"returned": 340}, 0, True),
        # A table that does not answer now may do so later.
        ({"returned": None, "parked": None}, 209, False),
        # Nobody can tell how long it takes, or nothing counts.
        ({"failure_seconds": None}, 0, True),
        ({"sent": 0, "last_sent_at": None}, 0, True),
    ],
)
def test_nothing_more_is_expected_a_minute_after_the_last_failure(
    changes: dict[str, Any], passed_seconds: float, is_known: bool
) -> None:
    assert replace(SOME, **changes).is_known(SENT_AT + passed_seconds) is is_known
