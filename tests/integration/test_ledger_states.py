"""All readers of ledgers agree on each message's state: Spark, Arrow and the pure function."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.frames import ledger_states
from spark_reprocess.archive.ledger import Claim, Result, list_runs, timestamp
from spark_reprocess.archive.ledgers import close_runs
from spark_reprocess.archive.message_state import claimed_table, entries_of, strongest
from tests.ledgers import NOW, RUNS, Try, attempts_of, begin, tries, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TTL = 900.0


@pytest.fixture
def archive() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory() as folder:
        yield open_archive(folder)


def states(spark: "SparkSession", archive: Archive) -> dict[str, tuple[str, str]]:
    """State and plan by message id, as Spark computes them."""
    rows = ledger_states(spark, archive, NOW, TTL).collect()
    found = {row["message_id"]: (row["state"], row["plan_id"]) for row in rows}
    assert len(found) == len(rows)
    return found


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # To shrink what Spark answers takes minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.lists(tries(), max_size=40), st.sets(st.sampled_from(RUNS)))
def test_spark_arrow_and_the_pure_function_agree(
    spark: "SparkSession", made: list[Try], ended: set[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        write(archive, made)
        for run in sorted(ended & list_runs(archive).keys()):
            assert close_runs(archive, run, NOW) == ()

        expected = {
            message_id: (entry.state, entry.plan_id)
            for message_id, entry in entries_of(attempts_of(archive), NOW, TTL).items()
        }

        rows = strongest(claimed_table(archive, NOW, TTL), "message_id").to_pylist()
        told = {row["message_id"]: row["state"] for row in rows}
        assert told == {message_id: state for message_id, (state, _) in expected.items()}
        assert states(spark, archive) == expected


@pytest.mark.parametrize("is_closed", [False, True])
def test_plan_that_decided_is_named(
    spark: "SparkSession", archive: Archive, *, is_closed: bool
) -> None:
    claim = Claim("run-1", "me@here", "why", "https://q", timestamp(NOW - TTL), ("m-1",))
    begin(archive, "p-2").claim("g-1", 1, 1, claim)
    sent = begin(archive, "p-1")
    sent.claim("g-1", 1, 1, claim)
    sent.record("g-1", 1, 1, [Result("m-1", Disposition.SENT, timestamp(NOW), "copy-1")])
    if is_closed:
        assert close_runs(archive, ("p-1", "run-1"), NOW) == ()

    assert states(spark, archive) == {"m-1": (Disposition.SENT, "p-1")}


def test_an_unknown_outcome_is_refused(spark: "SparkSession", archive: Archive) -> None:
    """A message with it must not be taken for one that is open."""
    ledger = begin(archive, "p-1")
    ledger.claim("g-1", 1, 1, Claim("run-1", "me", "why", "https://q", timestamp(NOW), ("m-1",)))
    ledger.record("g-1", 1, 1, [Result("m-1", Disposition.SENT, timestamp(NOW))])
    close_runs(archive, ("p-1", "run-1"), NOW)
    (path,) = Path(archive.root).rglob("*.parquet")
    table = pq.ParquetFile(path).read()
    (row,) = table.to_pylist()
    row["messages"][0]["outcome"] = "teleported"
    pq.write_table(table.from_pylist([row], schema=table.schema), path)

    with pytest.raises(Exception, match="has an unknown outcome"):
        states(spark, archive)


def test_archive_without_a_ledger_has_no_states(spark: "SparkSession", archive: Archive) -> None:
    assert states(spark, archive) == {}
