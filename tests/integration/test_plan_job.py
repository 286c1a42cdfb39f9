"""Plans, chunks and ledgers across runs, in a real Spark session."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_reprocess.errors import InputError
from tests.integration.desk import MakeDesk, standard
from tests.integration.spark_world import analyzed, archive_of, parked, reported

LATER = "20261122T000000Z-000000"


def test_large_group_is_sent_in_chunks_at_a_rate(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(130))

    assert desk.redrive(max_rate=500.0).count("sent") == 130
    assert len([p for p in desk.archive.list("ledger") if p.endswith("result.jsonl")]) == 2


def test_discarded_and_sent_messages_leave_the_analysis(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(n) for n in range(4)])
    desk.redrive(where="message_id < 'm-002'")
    desk.redrive(reported(desk.spark, desk.archive, "discard"))

    summary = analyzed(desk.spark, desk.archive)

    assert desk.arrived().total() == 2
    assert (summary.messages, summary.decided, summary.groups) == (4, 4, ())


def test_archive_that_changed_since_is_refused(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(0)])
    archive_of(Path(desk.archive.root), [parked(2)])

    with pytest.raises(InputError, match="hold 2 messages, not the 1 that it froze"):
        desk.redrive()


def test_plan_of_another_archive_is_refused(make_desk: MakeDesk, tmp_path: Path) -> None:
    desk = make_desk([parked(0)])
    other = archive_of(tmp_path / "other", [parked(0)], drain_id=LATER)

    with pytest.raises(InputError, match=f"{other.root}: holds no drain 20261121T031502Z-ab12cd"):
        replace(desk, archive=other).redrive()
    assert other.list("ledger") == []
    assert not desk.arrived()


def test_group_that_the_plan_invents_is_refused(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(0)])
    plan = Path(desk.plan)
    plan.write_text(plan.read_text().replace("id: g-", "id: x-"))

    with pytest.raises(InputError, match="its snapshot has no group"):
        desk.redrive()


def test_later_drain_does_not_disturb_an_older_plan(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(0)])
    archive_of(Path(desk.archive.root), [parked(2)], drain_id=LATER)

    assert desk.redrive().count("sent") == 1
