"""docs/redrive.md, "With DuckDB, Athena or Spark": other tools read what a drain writes."""

import re
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlq_replay.attributes import MessageAttribute
from spark_reprocess.archive.messages.dead_letter_schema import ARROW_SCHEMA, to_row, to_table
from tests.contract.template import ROOT
from tests.support.builders import message, queue_url

PAGE = (ROOT / "docs" / "redrive.md").read_text("utf-8")
SECTION = PAGE.split("\n### With DuckDB, Athena or Spark\n")[1].split("\n## ")[0]
DUCKDB, ATHENA = re.findall(r"^```sql\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
TYPES = {"string": pa.string(), "timestamp": ARROW_SCHEMA.field("sent_at").type}
TENANT = {"tenant": MessageAttribute("String", "acme")}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two drains that hold one message twice, and one of another tenant."""
    acme = [
        message(f"m-{number}", '{"customer": {"region": "ap"}}', attributes=TENANT)
        for number in range(3)
    ]
    for drain, messages in {"d1": acme[:2], "d2": [*acme[1:], message("m-9")]}.items():
        folder = tmp_path / "messages" / f"drain_id={drain}"
        folder.mkdir(parents=True)
        rows = [to_row(one, queue_url("parked"), datetime.now(UTC)) for one in messages]
        pq.write_table(to_table(rows), folder / "part.parquet")
    return tmp_path


def test_duckdb_counts_each_message_once(archive: Path) -> None:
    _, query = DUCKDB.split("\n", maxsplit=1)

    answer = duckdb.connect().execute(query.replace("s3://BUCKET/archive", str(archive)))

    assert answer.fetchall() == [(None, "ap", 3)]


def test_the_columns_of_athena_s_table_are_those_of_the_archive() -> None:
    columns = dict(re.findall(r"(\w+) (string|timestamp)\b", ATHENA.partition("attributes")[0]))

    assert len(columns) > 5
    assert {name: ARROW_SCHEMA.field(name).type for name in columns} == {
        name: TYPES[kind] for name, kind in columns.items()
    }
    assert re.findall(r"(\w+): \w+", ATHENA) == [
        one.name for one in ARROW_SCHEMA.field("attributes").type.item_type
    ]
