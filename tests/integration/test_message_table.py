"""``messages.parquet``: which group and chunk each message of a plan is in, decided once."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.ledger.claims import in_order_units
from dlq.archive.messages.message_index import read_table_columns, table_folder
from dlq.archive.messages.message_reading import FILE
from dlq.archive.messages.message_store import drain_of
from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import table_digest
from dlq.errors import InputError
from dlq.ids.order import with_positions
from dlq.local_engine import LocalEngine
from dlq.plan.plan import Plan
from dlq.plan.plan_reading import read_plan
from tests.integration.desk import MakeDesk, standard
from tests.integration.spark_world import analyzed, archive_of, parked
from tests.support.approved_plan import numbered_by_the_rule, planned
from tests.support.builders import NOW, context, message, queue_url

Row = dict[str, Any]


def rows_of(messages: int, seed: int) -> list[Row]:
    """Messages of a standard and a FIFO parked queue, some of them sent at the same moment."""
    draw = random.Random(seed)
    rows = []
    for number in range(messages):
        is_fifo = draw.random() < 0.7
        has_group = is_fifo or draw.random() < 0.5
        rows.append(
            {
                "message_id": f"m-{draw.randrange(10**9):09d}-{number}",
                "message_group_id": f"g-{draw.randrange(20)}" if has_group else None,
                "sequence_number": str(draw.randrange(90, 200)) if is_fifo else None,
                "sent_at": datetime.fromtimestamp(NOW + draw.randrange(9), UTC),
                "group_id": f"s-{draw.randrange(4)}",
            }
        )
    return rows


def positions_of(rows: list[Row]) -> dict[str, tuple[str, str | None, int | None]]:
    return {r["message_id"]: (r["group_id"], r["unit"], r["position"]) for r in rows}


@pytest.mark.parametrize(("messages", "seed"), [(5500, 1), (40, 2)])
def test_numbering_depends_on_the_messages_alone(messages: int, seed: int) -> None:
    rows = rows_of(300, seed)
    for turn in range(2):
        random.Random(turn).shuffle(rows)
        table = pa.concat_tables(
            [pa.Table.from_pylist(rows[:200]), pa.Table.from_pylist(rows[200:])]
        )

        numbered = with_positions(table, in_order_units(messages)).to_pylist()

        assert positions_of(numbered) == positions_of(numbered_by_the_rule(rows, messages))


@pytest.mark.parametrize(
    ("messages", "units"), [(0, 1), (1999, 1), (2000, 2), (63_999, 63), (10**7, 64)]
)
def test_a_fifo_plan_has_up_to_64_units(messages: int, units: int) -> None:
    assert in_order_units(messages) == units


def read(plan: str) -> Plan:
    return read_plan(Path(plan).read_text())


def table_of(archive: Archive, plan: Plan) -> list[Row]:
    columns = ("message_id", "group_id", "unit", "position", FILE)
    rows = read_table_columns(archive, plan.plan_id, columns, plan.snapshot.table_sha256)
    return list(rows.sort_by("message_id").to_pylist())


FIRST, SECOND, FIFO = (f"20261121T0{hour}1502Z-ab12cd" for hour in (2, 3, 4))
WHERE = "message_id NOT IN ('m-004', 'm-007')"
CHOSEN = ("m-000", "m-001", "m-002", "m-003", "m-008", "m-009", "m-bare", "m-shape")


Analyzed = tuple[Archive, Plan]


@pytest.fixture(scope="module")
def an_analysis(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """An archive of three drains, and the plan that an analysis of CHOSEN made.

    The second drain archived again what was archived by the first, which a crash had stopped.
    """
    folder = tmp_path_factory.mktemp("archive")
    fifo = {"MessageGroupId": "g-1", "SequenceNumber": "7"}
    messages = [
        *(parked(n) for n in range(5)),
        message("m-shape", '[1, "a"]', context(first_id="f", reason="foreign_source")),
        message("m-bare", "by SQS itself: 10.0.0.1"),
    ]
    archive_of(folder, [*messages[:2], parked(7)], FIRST)
    archive_of(folder, messages, SECOND)
    archive = archive_of(folder, [parked(8, **fifo), parked(9)], FIFO, queue_url("parked.fifo"))
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    findings = analyzed(LocalEngine(), archive, where=WHERE, out=elsewhere)
    return archive, read(findings.plan_path)


def test_analysis_saves_where_each_frozen_message_is(an_analysis: Analyzed) -> None:
    """In the archive, wherever the report goes. One row for each, whatever a crash left."""
    archive, plan = an_analysis

    table = table_of(archive, plan)

    assert tuple(row["message_id"] for row in table) == CHOSEN
    assert {row["group_id"] for row in table} == {group.group_id for group in plan.groups}
    in_order = {row["message_id"]: row["position"] for row in table if row["unit"]}
    assert in_order == {"m-008": 0}
    drains = [drain_of(row[FILE]) for row in table]
    assert drains == [FIRST, FIRST, SECOND, SECOND, FIFO, FIFO, SECOND, SECOND]
    assert plan.snapshot.table_sha256 == table_digest(archive, table_folder(plan.plan_id))


def test_the_plan_that_tests_write_is_the_one_of_an_analysis(an_analysis: Analyzed) -> None:
    """So the tests that start from it start from where an analysis ends."""
    archive, analysis = an_analysis

    written = read(planned(archive, "leave", WHERE, CHOSEN))

    assert table_of(archive, written) == table_of(archive, analysis)
    assert written.groups == analysis.groups
    assert replace(written.snapshot, table_sha256="") == replace(analysis.snapshot, table_sha256="")
    assert written.archive == analysis.archive


def test_a_plan_with_the_table_of_another_is_refused(make_desk: MakeDesk) -> None:
    desk = make_desk(standard(2))
    other = read(planned(desk.archive, where="message_id = 'm-002'", chosen=("m-002",)))
    plan_text = Path(desk.plan).read_text()
    Path(desk.plan).write_text(plan_text.replace(read(desk.plan).plan_id, other.plan_id))

    with pytest.raises(InputError, match="is not the table that the plan was"):
        desk.redrive()
