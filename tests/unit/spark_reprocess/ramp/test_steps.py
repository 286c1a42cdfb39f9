"""How far a group is, and the records that several runs share."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dlq_replay.replaying.returns import Returns
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.errors import ArchiveError
from spark_reprocess.ramp.rule import GroupRamp, Verdict
from spark_reprocess.ramp.steps import Step, Steps, ended_steps, group_ramp

NONE = Returns()
UNKNOWN, GOOD = Verdict.UNKNOWN, Verdict.GOOD


def step(
    number: int,
    messages: int = 1,
    *,
    run_id: str = "run-1",
    before: int = 0,
    stops: int = 0,
    sent: Mapping[str, int] | None = None,
) -> Step:
    sent_at = None if sent is None else 9.0
    counts = {"g": messages}, {"g": before}, {"g": stops}
    return Step(number, run_id, 5.0, *counts, sent_at=sent_at, sent=sent)


ONE, TWO, OPEN = step(1, sent={"g": 1}), step(2, 2, sent={"g": 2}), step(2, 2)
LATER = step(3, 1, before=5, sent={"g": 1}), step(4, 2, before=6, sent={"g": 2})
REFUSED = step(2, 2, sent={"other": 2})


@pytest.mark.parametrize(
    ("own", "left", "returns", "blocker", "allowed", "verdict", "why"),
    [
        ([ONE, TWO], 7, NONE, "", None, GOOD, ""),
        ([ONE, TWO], 7, NONE, "it rains", None, UNKNOWN, "it rains"),
        # Too many returns are bad, whatever else is known.
        ([ONE, TWO], 7, Returns(1), "it rains", None, Verdict.BAD, "1 of 3 messages came back"),
        ([ONE, OPEN], 0, Returns(1), "", None, Verdict.BAD, "1 of 3 messages came back, 0 may"),
        # What came back before the first step does not count; later steps count together.
        (LATER, 7, Returns(5), "", None, GOOD, ""),
        (LATER, 7, Returns(6), "", None, Verdict.BAD, "1 of 3"),
        (LATER, 7, Returns(6), "", "1", GOOD, ""),
        # The counter was made anew after its 90 days.
        (LATER, 7, Returns(2), "", None, GOOD, ""),
        # Returns that nobody counts are unknown.
        ([ONE, TWO], 7, None, "", None, UNKNOWN, "it is not known what came back"),
        ([ONE, OPEN], 0, None, "", None, UNKNOWN, "it is not known what came back"),
        # The last step needs no verdict once it is sent.
        ([ONE, TWO], 0, NONE, "it rains", None, Verdict.SENT, ""),
        ([ONE, TWO], 0, None, "", None, Verdict.SENT, ""),
        ([ONE, OPEN], 0, NONE, "it rains", None, UNKNOWN, "it rains"),
        # Only what SQS confirmed is sent.
        ([ONE, REFUSED], 7, Returns(1), "", None, Verdict.BAD, "1 of 1 message came back"),
    ],
)
def test_verdict(
    own: list[Step],
    left: int,
    returns: Returns | None,
    blocker: str,
    allowed: str | None,
    verdict: Verdict,
    why: str,
) -> None:
    ramp = group_ramp("g", own, left, returns, allowed, blocker, in_order=False)

    assert ramp.verdict is verdict
    assert (ramp.why == "") is (why == "")
    assert why in ramp.why


def test_on_fifo_a_return_that_may_come_still_goes_first() -> None:
    ramp, free = (
        group_ramp("g", [ONE, TWO], 7, Returns(1), "5", "", in_order=in_order)
        for in_order in (True, False)
    )

    why = "what came back must go first: collect again"
    assert ramp == GroupRamp("g", 2, 4, 3, 1, 5, UNKNOWN, why)
    assert free == GroupRamp("g", 2, 4, 3, 1, 5, GOOD)


def test_of_two_runs_the_first_record_counts_for_both(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    steps = Steps(archive, "p", "main")
    assert steps.create(step(1, run_id="run-a"))
    assert not steps.create(step(1, 9, run_id="run-b"))
    assert (steps.read(), ended_steps(steps.read())) == ([step(1, run_id="run-a")], 0)

    assert steps.end(steps.read()[0], 9.0, {"g": 1})
    assert not steps.end(step(1), 11.0, {})
    steps.create(step(2))
    archive.write(f"{steps.table(3, 'run-1')}/part.parquet", b"")

    ended = step(1, run_id="run-a", sent={"g": 1})
    assert (steps.read(), ended_steps(steps.read())) == ([ended, step(2)], 1)
    assert Steps(archive, "p", "other").read() == Steps(archive, "q", "main").read() == []
    archive.write("ledger/plan_id=p/steps/main/00001.sent.json", b"{}")
    with pytest.raises(ArchiveError, match=r"00001\.sent\.json"):
        steps.read()
