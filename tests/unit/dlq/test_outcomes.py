"""Outcomes of the messages that a plan sent, in numbers and in one sentence."""

from dataclasses import replace
from typing import Any

import pytest

from dlq.archive.ledger.claims import timestamp
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.open_set import claimed_table
from dlq.archive.ledger.run_results import write_result_files
from dlq.inspect.outcomes import Outcome, sends_of_plan
from tests.support.ledgers import NOW, MemoryArchive, settle

SENT_AT = 1_700_000_000.0
SOME = Outcome("g-1", {"sent": 340}, 340, SENT_AT, 12, 3, 150)


@pytest.mark.parametrize(
    ("changes", "passed_seconds", "sentence"),
    [
        (
            {"returned": 0, "parked": 0},
            100,
            (
                "sent 340, 340 of 340 have not failed again in 1 min 40 s; a failure takes "
                "2 min 30 s"
            ),
        ),
        (
            {"returned": 0, "parked": 0},
            360,
            "340 of 340 did not fail again; a failure takes 2 min 30 s",
        ),
        # One unconfirmed failed again, too.
        (
            {"sent": 1, "returned": 2, "parked": 0},
            360,
            "sent 1, 2 failed again (2 being replayed, 0 parked again)",
        ),
        (
            {"failure_seconds": None, "parked": 0, "returned": 0},
            60,
            "sent 340, 340 of 340 have not failed again in 1 min",
        ),
        (
            {"sent_twice": 2, "returned": 340, "parked": 0},
            60,
            "sent 340 (2 of them twice), 340 failed again (340 being replayed, 0 parked again)",
        ),
        (
            {"sent_twice": 2, "returned": None},
            60,
            "sent 340 (2 of them twice), how many failed again is not known",
        ),
    ],
)
def test_sentence(changes: dict[str, Any], passed_seconds: float, sentence: str) -> None:
    assert replace(SOME, **changes).sentence(SENT_AT + passed_seconds) == sentence


@pytest.mark.parametrize("is_closed", [True, False])
def test_message_with_several_results_counts_once(*, is_closed: bool) -> None:
    archive = MemoryArchive()
    sends: list[tuple[str, str, str, Disposition, str]] = [
        ("p-1", "run-1", "twice", Disposition.SENT, ""),
        ("p-1", "run-2", "twice", Disposition.SENT, ""),
        ("p-1", "run-1", "once", Disposition.SENT, ""),
        ("p-1", "run-1", "refused-first", Disposition.FAILED, "InternalError"),
        ("p-1", "run-2", "refused-first", Disposition.SENT, ""),
        ("p-1", "run-1", "by-two-plans", Disposition.SENT, ""),
        ("p-2", "run-3", "by-two-plans", Disposition.SENT, ""),
        ("p-2", "run-3", "by-another-plan", Disposition.SENT, ""),
        ("p-2", "run-3", "by-another-plan", Disposition.SENT, ""),
        ("p-1", "run-1", "discarded", Disposition.DISCARDED, ""),
    ]
    for number, (plan_id, run_id, message_id, outcome, detail) in enumerate(sends):
        settle(archive, plan_id, {message_id: outcome}, run_id, NOW + number, detail=detail)
    if is_closed:
        assert write_result_files(archive, ("p-1", "run-1")) == ()

    rows = sends_of_plan(claimed_table(archive), "p-1").sort_by("message_id").to_pylist()

    assert [(row["message_id"], row["is_twice"], row["sent_at"]) for row in rows] == [
        ("by-two-plans", True, timestamp(NOW + 5)),
        ("once", False, timestamp(NOW + 2)),
        ("refused-first", False, timestamp(NOW + 4)),
        ("twice", True, timestamp(NOW + 1)),
    ]


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
