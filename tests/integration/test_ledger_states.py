"""The states of all messages that Spark's tasks compute are those of the pure function."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.frames import ledger_states
from spark_reprocess.archive.ledger import Claim, Ledger, Result, states_of, timestamp
from spark_reprocess.archive.ledgers import compact_ledger
from tests.ledgers import NOW, Try, tries, uncompacted, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TTL = 900.0


@pytest.fixture
def archive() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory() as folder:
        yield open_archive(folder)


def states(spark: "SparkSession", archive: Archive) -> Mapping[str, Any]:
    rows = ledger_states(spark, archive, NOW, TTL).collect()
    told = {row["message_id"]: row["state"] for row in rows}
    assert len(told) == len(rows)
    return told


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(tries(), max_size=40), st.lists(tries(), max_size=40))
def test_tasks_tell_what_the_pure_function_tells(
    spark: "SparkSession", compacted: list[Try], later: list[Try]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        write(archive, compacted)
        told = [(states(spark, archive), uncompacted(archive))]
        assert compact_ledger(archive) == ()
        told.append((states(spark, archive), uncompacted(archive)))
        write(archive, later, len(compacted) + 1)
        told.append((states(spark, archive), uncompacted(archive)))

        for found, attempts in told:
            assert found == states_of(attempts.values(), NOW, TTL)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_plan_that_decided_is_named(
    spark: "SparkSession", archive: Archive, *, is_compacted: bool
) -> None:
    claim = Claim("run-1", "me@here", "why", "https://q", timestamp(NOW - TTL), ("m-1",))
    Ledger(archive, "p-2").claim("g-1", 1, 1, claim)
    sent = Ledger(archive, "p-1")
    sent.claim("g-1", 1, 1, claim)
    sent.record("g-1", 1, 1, [Result("m-1", Disposition.SENT, timestamp(NOW), "copy-1")])
    if is_compacted:
        compact_ledger(archive)

    (row,) = ledger_states(spark, archive, NOW, TTL).collect()

    assert (row["state"], row["plan_id"]) == (Disposition.SENT, "p-1")


def test_an_unknown_outcome_is_refused(spark: "SparkSession", archive: Archive) -> None:
    """A message with it must not be taken for one that is open."""
    ledger = Ledger(archive, "p-1")
    ledger.claim("g-1", 1, 1, Claim("run-1", "me", "why", "https://q", timestamp(NOW), ("m-1",)))
    ledger.record("g-1", 1, 1, [Result("m-1", Disposition.SENT, timestamp(NOW))])
    compact_ledger(archive)
    (path,) = Path(archive.root).rglob("*.parquet")
    table = pq.ParquetFile(path).read()
    (row,) = table.to_pylist()
    row["messages"][0]["outcome"] = "teleported"
    pq.write_table(table.from_pylist([row], schema=table.schema), path)

    with pytest.raises(Exception, match="has an unknown outcome"):
        states(spark, archive)


def test_archive_without_a_ledger_has_no_states(spark: "SparkSession", archive: Archive) -> None:
    assert states(spark, archive) == {}
