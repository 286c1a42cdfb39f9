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
from dlq.scheduled_run import RunSummary
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
    make_desk: MakeDesk, ahead: float
) -> None:
    """Its id, and that of each plan after it, is not the time of its analysis."""
    desk = make_desk(standard(12))
    with clock_that_is_off(ahead):
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


class Nights(ScheduledRuns):
    """Scheduled runs, whose machines may have clocks that are off.

    Attributes:
        parked_number: of messages that were parked so far.
        arrivals: in the main queue, by the body.
    """

    parked_number = 0

    def __init__(self, engine: Engine, make_queue: MakeQueue, folder: Path) -> None:
        super().__init__(engine, make_queue, folder)
        self.arrivals = Counter[str]()

    def park_new(self, count: int) -> None:
        self.park(*map(parked, range(self.parked_number, self.parked_number + count)))
        self.parked_number += count

    def night(self) -> RunSummary:
        summary = self.run()
        self.arrivals.update(bodies(receive_all(self.main)))
        return summary

    def assert_each_arrived_once(self) -> None:
        assert len(self.arrivals) == self.parked_number
        assert set(self.arrivals.values()) == {1}


@contextmanager
def clock_that_is_off(ahead: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: real_time() + ahead)
        yield


@pytest.fixture
def nights(engine: Engine, make_queue: MakeQueue, tmp_path: Path) -> Nights:
    return Nights(engine, make_queue, tmp_path)


def test_each_night_by_a_clock_of_its_own_sends_nothing_twice(nights: Nights) -> None:
    for ahead in (3 * DAY, -2 * DAY, 5 * 3600, 0):
        nights.park_new(3)
        with clock_that_is_off(ahead):
            assert nights.night().pending.messages == 0

    nights.assert_each_arrived_once()
    counted = count(open_archive(nights.archive))
    assert (counted.count("sent"), counted.count("pending")) == (12, 0)


def test_each_verb_by_a_clock_of_its_own_sends_nothing_twice(
    engine: Engine, nights: Nights
) -> None:
    """A message is written off, restored, and sent under its new id; by three more clocks."""
    with clock_that_is_off(3 * DAY):
        nights.park_new(3)
        nights.night()
    archive = open_archive(nights.archive)

    nights.park_new(1)
    with clock_that_is_off(-40 * DAY):
        drain(engine, archive, DrainRequest(nights.parked.url))
        plan = reported(engine, archive, "discard")
        assert executed(engine, archive, plan, nights.main.url).count("discarded") == 1
    with clock_that_is_off(40 * DAY):
        wanted = RestoreRequest(
            parked_queue_urls=(nights.parked.url,),
            include_discarded=True,
            execute=True,
            reason="after all",
        )
        assert restore(engine, archive, wanted).count("restored") == 1
    nights.night()
    with clock_that_is_off(-3 * DAY):
        sent = attempts_of(archive)[0].claim.message_ids[0]
        erase(None, archive, EraseRequest([sent], execute=True, reason="asked to"))
    nights.night()

    nights.assert_each_arrived_once()
    counted = count(archive)
    assert (counted.count("sent"), counted.count("pending")) == (3, 0)
    assert (counted.count("restored"), counted.messages) == (1, 4)
