"""``redrive`` while things go wrong: SQS refuses, falls silent, loses its queue; the disk fills."""

import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import StopCause
from dlq.cli.command import main
from dlq.erase.erase import EraseRequest, erase
from local_sqs.faults import Effect
from tests.integration.conftest import Capture
from tests.integration.desk import SEND, MakeDesk, standard
from tests.integration.spark_world import parked, receive_all
from tests.support.approved_plan import approve
from tests.support.stops import sentence_of

CHUNK = 130
"""A chunk has about 100 messages, by a hash of their ids. Two tasks send one each."""


def test_what_is_unconfirmed_is_settled_by_a_discard(make_desk: MakeDesk, capsys: Capture) -> None:
    desk = make_desk(standard(100))
    desk.meet(Effect.LOSE, probability=0.5, seed=3)
    desk.redrive()
    desk.world.front.faults.clear()
    unconfirmed = sorted(desk.recorded(Disposition.UNCONFIRMED))

    discard = str(approve(Path(desk.plan), "discard"))
    discarded = desk.redrive(discard, reason="they are in the table of orders")
    again = desk.redrive(discard, unconfirmed="send")

    assert (discarded.count("discarded"), again.count("discarded")) == (len(unconfirmed), 0)
    assert desk.arrived() == Counter(message.message_id for message in desk.sent)
    assert main(["show", "--archive", desk.archive.root, unconfirmed[0]]) == 0
    assert "they are in the table of orders" in capsys.readouterr().out
    assert main(["status", "--archive", desk.archive.root, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts == {"pending": 0, "sent": 100 - len(unconfirmed), "discarded": len(unconfirmed)}
    later = EraseRequest(older_than_days=15, execute=True)
    expired = erase(None, desk.archive, later, now_seconds=lambda: time.time() + 17 * 86_400)
    assert (expired.messages, expired.pending) == (100, 0)


@pytest.mark.both_engines
def test_fifo_queue_asks_again_until_it_knows(make_desk: MakeDesk) -> None:
    groups = [parked(2 * n, MessageGroupId=f"g-{n % 9}", SequenceNumber=str(n)) for n in range(120)]
    desk = make_desk(groups, "main.fifo")
    desk.meet(Effect.LOSE, probability=0.2, seed=3)
    desk.meet(Effect.THROTTLE, probability=0.1, seed=4)

    assert desk.redrive().count("sent") == 120
    arrived = [message.body for message in receive_all(desk.destination)]
    for number in range(9):
        of_group = [letter for letter in desk.sent if letter.message_group_id == f"g-{number}"]
        in_order = [letter.body for letter in of_group]
        assert [body for body in arrived if body in in_order] == in_order


@pytest.mark.both_engines
def test_ledger_that_cannot_be_written_stops_the_run_and_stays_true(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(600))
    ledger, disk, no_disk = (Path(desk.archive.root, name) for name in ("ledger", "disk", "none"))
    disk.mkdir()
    ledger.symlink_to(disk)
    no_disk.write_bytes(b"")

    def lose_the_disk() -> None:
        # A file takes the link's place in one step: no task can make the folder in between.
        no_disk.replace(ledger)

    desk.at_send(15, lose_the_disk)
    summary = desk.redrive()
    ledger.unlink()
    disk.rename(ledger)

    assert re.search("cannot (read|write) ledger/", sentence_of(summary.stopped_by))
    assert 0 < summary.count("unconfirmed") <= 2 * CHUNK
    sent = desk.recorded(Disposition.SENT)
    assert len(sent) == summary.count("sent")
    assert sent <= set(desk.arrived())


def test_disabled_key_stops_the_run(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(600))
    desk.meet(Effect.REFUSE, code="KMS.DisabledException")

    summary = desk.redrive()

    assert summary.stopped_by
    assert summary.stopped_by.cause is StopCause.QUEUE
    assert summary.stopped_by.detail.startswith("KMS.DisabledException")
    assert 0 < summary.count("failed") <= 2 * CHUNK
    assert summary.count("not_reached") == 600 - summary.count("failed")


def test_throttled_key_leaves_nothing_unsent(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(100))
    desk.meet(Effect.REFUSE, code="KMS.ThrottlingException", times=3)

    assert desk.redrive().count("sent") == 100


@pytest.mark.both_engines
def test_ten_seconds_never_hold_more_than_the_rate(make_desk: MakeDesk) -> None:
    """Most messages lie in one chunk's task, and some calls take long: the server's own times."""
    desk = make_desk([*standard(230), parked(1), parked(3)])
    desk.meet(Effect.DELAY, probability=0.1, seed=5, seconds=1.0)
    desk.meet(Effect.THROTTLE, probability=0.1, seed=6)

    summary = desk.redrive(max_rate=20.0)

    calls = desk.world.front.log.records(SEND)
    assert summary.count("sent") == 232
    for first in calls:
        window = [c for c in calls if first.at_ms <= c.at_ms < first.at_ms + 10_000]
        assert sum(call.entry_count for call in window) <= 210
