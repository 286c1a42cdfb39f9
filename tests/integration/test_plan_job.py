"""Plans, chunks and ledgers across runs, in a real Spark session."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spark_reprocess.archive.ledger.claims import Claim, timestamp
from spark_reprocess.archive.messages.message_index import read_table_columns
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan_file import find_plan
from tests.integration.desk import MakeDesk
from tests.integration.spark_world import analyzed, archive_of, parked
from tests.support.approved_plan import approve, planned
from tests.support.builders import queue_url
from tests.support.ledgers import begin

LATER = "20261122T000000Z-000000"


def test_a_plan_has_what_is_pending_and_nothing_else(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(n) for n in range(6)])
    desk.redrive(where="message_id = 'm-000'")
    discards = planned(desk.archive, "discard")
    desk.redrive(discards, where="message_id = 'm-001'")
    for number, seconds in ((2, 0.0), (3, time.time())):
        claim = Claim("r", "me", "", queue_url("main"), timestamp(seconds), (f"m-00{number}",))
        assert begin(desk.archive, "p-dead", "r").claim("g-1", number, 1, claim)

    left = analyzed(desk.spark, desk.archive)

    table = read_table_columns(desk.archive, left.plan_id, ("message_id", "group_id"))
    # In doubt, busy, and claimed by nobody.
    assert sorted(map(str, table["message_id"].to_pylist())) == ["m-002", "m-003", "m-004", "m-005"]
    assert left.messages == find_plan(desk.archive, left.plan_id).plan().snapshot.messages == 4
    desk.redrive(str(approve(Path(left.plan_path))), in_doubt="send")
    assert desk.arrived() == Counter(["m-000", "m-002", "m-004", "m-005"])
    assert analyzed(desk.spark, desk.archive).messages == 1


def test_plan_of_another_archive_is_refused(make_desk: MakeDesk, tmp_path: Path) -> None:
    desk = make_desk([parked(0)])
    other = archive_of(tmp_path / "other", [parked(0)], drain_id=LATER)

    with pytest.raises(InputError, match=f"{other.root} lacks its table .*: collect again"):
        replace(desk, archive=other).redrive()
    assert other.list("ledger") == []
    assert not desk.arrived()
