"""Machines whose clocks are hours and days off: nothing is sent twice, and numbers add up."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlq.archive.storage.files import open_archive
from dlq.drain.drain import DrainRequest, drain
from dlq.engine import Engine
from dlq.erase.erase import EraseRequest, erase
from dlq.inspect.status import count
from dlq.redrive.request import RestoreRequest
from dlq.redrive.restore import restore
from tests.integration.conftest import MakeQueue
from tests.integration.desk import MakeDesk, ScheduledRuns, standard
from tests.integration.spark_world import (
    analyzed,
    bodies,
    executed,
    parked,
    receive_all,
    reported,
)
from tests.support.approved_plan import approve
from tests.support.ledgers import attempts_of

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
        of_wrong_clock = reported(desk.engine, desk.archive)
    assert desk.redrive(of_wrong_clock, limit=4).count("sent") == 4

    findings = analyzed(desk.engine, desk.archive)
    behind = re.search("of this machine is (3 d|2 d 23 h) behind an id", findings.clock)
    assert (behind is not None) is (ahead > 0)
    next_one = str(approve(Path(findings.plan_path)))
    is_after = Path(next_one).parent.name > Path(of_wrong_clock).parent.name
    assert is_after, "an analysis is numbered after those that there are"
    dry_run = desk.redrive(of_wrong_clock, execute=False, reason="")
    assert (dry_run.count("send"), dry_run.count("sent_before")) == (8, 4)
    assert desk.redrive(next_one).count("sent") == 8

    again = desk.redrive(of_wrong_clock)
    assert (again.count("sent"), again.count("sent_before")) == (0, 12)
    assert desk.arrived() == Counter(message.message_id for message in desk.sent)
    counted = count(desk.archive)
    assert (counted.count("sent"), counted.count("pending")) == (12, 0)


def test_each_verb_by_a_clock_of_its_own_sends_nothing_twice(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = ScheduledRuns(engine, make_queue, tmp_path)
    arrived = Counter[str]()
    parked_so_far = 0

    @contextmanager
    def clock(ahead: float) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real_time() + ahead)
            yield

    for ahead in (3 * DAY, -2 * DAY, 5 * 3600, 0):
        nights.park(*(parked(parked_so_far + n) for n in range(3)))
        parked_so_far += 3
        with clock(ahead):
            assert nights.run().pending.messages == 0
        arrived.update(bodies(receive_all(nights.main)))
    archive = open_archive(nights.archive)

    # One that is written off, restored, and sent under its new id; by three more clocks.
    nights.park(parked(parked_so_far))
    with clock(-40 * DAY):
        drain(engine, archive, DrainRequest(nights.parked.url))
        plan = str(approve(Path(analyzed(engine, archive).plan_path), "discard"))
        assert executed(engine, archive, plan, nights.main.url).count("discarded") == 1
    with clock(40 * DAY):
        wanted = RestoreRequest(
            parked_queue_urls=(nights.parked.url,),
            include_discarded=True,
            execute=True,
            reason="after all",
        )
        restored = restore(engine, archive, wanted)
        assert restored.count("restored") == 1
    nights.run()
    arrived.update(bodies(receive_all(nights.main)))
    with clock(-3 * DAY):
        sent = attempts_of(archive)[0].claim.message_ids[0]
        erase(None, archive, EraseRequest([sent], execute=True, reason="asked to"))
    nights.run()
    arrived.update(bodies(receive_all(nights.main)))

    assert len(arrived) == parked_so_far + 1
    assert set(arrived.values()) == {1}
    counted = count(archive)
    assert (counted.count("sent"), counted.count("pending")) == (len(arrived) - 1, 0)
    assert (counted.count("restored"), counted.messages) == (1, len(arrived))
