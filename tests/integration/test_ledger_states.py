"""All readers of ledgers agree on each message's state: Spark, Arrow and the pure function."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dlq_cli.console.members import _states
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.frames import ledger_states
from spark_reprocess.archive.ledger import Claim, Ledger, Result, states_of, timestamp
from spark_reprocess.archive.ledgers import (
    STRONGEST_FIRST,
    claimed_table,
    compact_ledger,
    strongest,
)
from spark_reprocess.archive.lookup import find_attempts
from spark_reprocess.inspect.status import _first
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


def arrow_states(archive: Archive) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What each reader without Spark says, by its name."""
    claimed = claimed_table(archive, NOW, TTL)
    rows = strongest(claimed).to_pylist()
    yield "expire", {row["message_id"]: row["state_first"] for row in rows}
    rows = _first(claimed.sort_by(STRONGEST_FIRST), "message_id").to_pylist()
    yield "status", {row["message_id"]: row["state"] for row in rows}
    ids = pc.unique(claimed["message_id"])
    listed = _states(claimed, ids).to_pylist()
    yield "message list", dict(zip(ids.to_pylist(), listed, strict=True))
    yield "show", states_of(find_attempts(archive, ids.to_pylist()), NOW, TTL)


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # To shrink what Spark answers takes minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.lists(tries(), max_size=40), st.lists(tries(), max_size=40))
def test_spark_arrow_and_the_pure_function_agree(
    spark: "SparkSession", compacted: list[Try], later: list[Try]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for made, first_chunk, compacts in (
            (compacted, 1, False),
            ([], 1, True),
            (later, len(compacted) + 1, False),
        ):
            write(archive, made, first_chunk)
            assert not compacts or compact_ledger(archive) == ()

            expected = states_of(uncompacted(archive).values(), NOW, TTL)

            assert states(spark, archive) == expected
            for reader, found in arrow_states(archive):
                assert found == expected, reader


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
