"""The states of all messages, told by Spark's tasks, are those that the pure function tells."""

import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import (
    Claim,
    Ledger,
    Outcome,
    Result,
    State,
    states_of,
    timestamp,
)
from spark_reprocess.archive.ledger_states import ledger_states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000.0
TTL = 900.0

message_ids = st.lists(st.integers(0, 30).map("m-{}".format), unique=True, max_size=8)


@st.composite
def attempts(draw: st.DrawFn) -> tuple[str, Claim, list[Result] | None]:
    ids = draw(message_ids)
    age = draw(st.integers(0, 2000))
    claim = Claim("run-1", "me@here", "why", "https://q", timestamp(NOW - age), tuple(ids))
    if draw(st.booleans()):
        return draw(st.sampled_from(["p-1", "p-2"])), claim, None
    told = draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    outcomes = [draw(st.sampled_from(list(Outcome))) for _ in told]
    results = [Result(i, o, timestamp(NOW)) for i, o in zip(told, outcomes, strict=True)]
    return draw(st.sampled_from(["p-1", "p-2"])), claim, results


@pytest.fixture
def archive() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory() as folder:
        yield open_archive(folder)


def states(
    spark: "SparkSession", archive: Archive, plan_ids: list[str] | None = None
) -> Mapping[str, Any]:
    rows = ledger_states(spark, archive, NOW, TTL, plan_ids).collect()
    told = {row["message_id"]: row["state"] for row in rows}
    assert len(told) == len(rows)
    return told


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(attempts(), max_size=60))
def test_tasks_tell_what_the_pure_function_tells(
    spark: "SparkSession", tries: list[tuple[str, Claim, list[Result] | None]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for chunk, (plan_id, claim, results) in enumerate(tries, start=1):
            ledger = Ledger(archive, plan_id)
            assert ledger.claim("g-1", chunk, 1, claim)
            if results is not None:
                ledger.record("g-1", chunk, 1, results)
        ledgers = [Ledger(archive, plan_id) for plan_id in ("p-1", "p-2")]

        told = states(spark, archive)

        every = [attempt for ledger in ledgers for attempt in ledger.all_attempts()]
        assert told == states_of(every, NOW, TTL)
        assert states(spark, archive, ["p-2"]) == states_of(ledgers[1].all_attempts(), NOW, TTL)


def test_plan_that_decided_is_named(spark: "SparkSession", archive: Archive) -> None:
    claim = Claim("run-1", "me@here", "why", "https://q", timestamp(NOW - TTL), ("m-1",))
    Ledger(archive, "p-2").claim("g-1", 1, 1, claim)
    sent = Ledger(archive, "p-1")
    sent.claim("g-1", 1, 1, claim)
    sent.record("g-1", 1, 1, [Result("m-1", Outcome.SENT, timestamp(NOW), "copy-1")])

    (row,) = ledger_states(spark, archive, NOW, TTL).collect()

    assert (row["state"], row["plan_id"]) == (State.SENT, "p-1")


def test_archive_without_a_ledger_has_no_states(spark: "SparkSession", archive: Archive) -> None:
    assert states(spark, archive) == {}
