"""Machines whose clocks are hours and days off: nothing is sent twice, and numbers add up."""

import time
from collections import Counter
from pathlib import Path

import pytest

from spark_reprocess.archive.ledger.disposition import CLAIM_TTL_SECONDS
from spark_reprocess.inspect.status import count
from tests.integration.desk import MakeDesk, standard
from tests.integration.spark_world import analyzed, reported
from tests.support.approved_plan import approve

DAY = 86_400
real_time = time.time


@pytest.mark.parametrize("ahead", [3 * DAY, -3 * DAY])
def test_plan_of_a_clock_that_is_off_sends_nothing_that_another_plan_sent(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """Its id, and that of each plan after it, is not the time of its analysis."""
    desk = make_desk(standard(12))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real_time() + ahead)
        of_wrong_clock = reported(desk.spark, desk.archive)
    assert desk.redrive(of_wrong_clock, limit=4).count("sent") == 4

    findings = analyzed(desk.spark, desk.archive)
    assert ("of this machine is 2 d 23 h behind an id" in findings.clock) is (ahead > 0)
    next_one = str(approve(Path(findings.plan_path)))
    is_after = Path(next_one).parent.name > Path(of_wrong_clock).parent.name
    assert is_after, "an analysis is numbered after those that there are"
    dry_run = desk.redrive(of_wrong_clock, execute=False, reason="")
    assert (dry_run.count("send"), dry_run.count("sent_before")) == (8, 4)
    assert desk.redrive(next_one).count("sent") == 8

    again = desk.redrive(of_wrong_clock)
    assert (again.count("sent"), again.count("sent_before")) == (0, 12)
    assert desk.arrived() == Counter(one.message_id for one in desk.sent)
    counted = count(desk.archive, CLAIM_TTL_SECONDS)
    assert (counted.count("sent"), counted.count("pending")) == (12, 0)
