"""The Spark session of a verb in a process that has one, and another version of Spark."""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from dlq.cli.running import main
from dlq.engine import Exchange, Work
from dlq.errors import InputError, JobError, SqlError
from spark_reprocess.command_line import report_failure
from spark_reprocess.engine import SparkEngine
from spark_reprocess.session import get_session
from tests.integration.conftest import MakeQueue
from tests.support.small_jobs import DRAIN


def test_a_local_session_runs_three_tasks_on_two_processors(spark: SparkSession) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 - as in the session's own start
    processors = jvm.Runtime.getRuntime().availableProcessors()
    assert spark.sparkContext.master == f"local[{processors * 3 // 2}]"


def test_its_workers_begin_with_what_their_tasks_load(spark: SparkSession) -> None:
    in_worker = spark.sparkContext.range(1, numSlices=1).map(
        lambda _: (gc.get_freeze_count() > 0, "spark_reprocess.engine" in sys.modules)
    )

    assert in_worker.first() == (True, True)


_OF_CALLER: dict[str, str | None] = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": None,
    "spark.sql.execution.arrow.maxBytesPerBatch": "7",
}


def _settings(spark: SparkSession) -> dict[str, str | None]:
    return {name: spark.conf.get(name, None) for name in _OF_CALLER}


def _set(spark: SparkSession, settings: dict[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture
def session_of_a_caller(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session whose owner has settings that change what SQL gives."""
    before = _settings(spark)
    _set(spark, _OF_CALLER)
    yield spark
    _set(spark, before)


def test_a_session_that_is_there_stays_as_it_is(session_of_a_caller: SparkSession) -> None:
    assert get_session() is session_of_a_caller
    assert _settings(session_of_a_caller) == _OF_CALLER


TYPES: dict[str, Any] = {
    "sent_at": pa.timestamp("us", "UTC"),
    "group_id": pa.string(),
    "n": pa.int32(),
}
ROWS = pa.schema(TYPES)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def noons(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [{"sent_at": NOON, "group_id": "g", "n": 0}] * batch.num_rows
        yield pa.RecordBatch.from_pylist(rows, schema=ROWS)


def changes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        values = [row["attribute_changes"][0]["string_value"] for row in batch.to_pylist()]
        yield pa.record_batch({"value": pa.array(values, pa.string())})


def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    raise InputError(f"fails after {len([*batches])} batches")
    yield


WORK = Work([pa.table({"n": [1, 2]})], noons, ROWS)
THEN = Work([], changes, pa.schema({"value": pa.string()}))


def test_each_method_runs_under_our_settings_and_gives_the_session_back(
    session_of_a_caller: SparkSession,
) -> None:
    engine = SparkEngine(session_of_a_caller)

    assert engine.run(WORK)["sent_at"].to_pylist() == [NOON, NOON]
    assert _settings(session_of_a_caller) == _OF_CALLER

    at_noon = "string(SENT_AT) = '2026-11-01 12:00:00'"
    assert engine.run_where(WORK, at_noon, ["n"]).num_rows == 2
    assert _settings(session_of_a_caller) == _OF_CALLER

    for exchange in (None, Exchange(1, "n", ["n"])):
        edited = engine.run_edited(WORK, {"g": [("a", "string(Sent_At)")]}, THEN, exchange)
        assert edited["value"].to_pylist() == ["2026-11-01 12:00:00"] * 2
        assert _settings(session_of_a_caller) == _OF_CALLER

    engine.check_condition("SENT_AT IS NULL", ROWS, "when")
    assert engine.attribute_fault("string(SENT_AT)") is None
    assert _settings(session_of_a_caller) == _OF_CALLER


def test_a_method_that_fails_gives_the_session_back(session_of_a_caller: SparkSession) -> None:
    engine = SparkEngine(session_of_a_caller)
    broken = Work(WORK.partitions, failing, ROWS)

    with pytest.raises(InputError, match="fails after 1 batches"):
        engine.run(broken)
    assert _settings(session_of_a_caller) == _OF_CALLER

    # Without ANSI's rules this would be null.
    with pytest.raises(SqlError, match="fails on a message: CAST_INVALID_INPUT"):
        engine.run_where(WORK, "CAST(group_id AS INT) = 1", ["n"])
    assert _settings(session_of_a_caller) == _OF_CALLER

    for exchange in (None, Exchange(1, "n", ["n"])):
        with suppress(JobError):
            engine.run_edited(broken, {}, THEN, exchange)
        assert _settings(session_of_a_caller) == _OF_CALLER


def test_a_session_with_a_setting_that_cannot_change_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    speculating = SparkConf(loadDefaults=False).set("spark.speculation", "true")
    monkeypatch.setattr(SparkContext, "getConf", lambda _: speculating)

    with pytest.raises(InputError, match=r"start it with spark\.speculation=false"):
        get_session()


def test_another_version_of_spark_gets_a_sentence(
    make_queue: MakeQueue,
    sqs_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")

    assert main([*DRAIN, "--archive", "a", "--parked-queue-url", make_queue("parked").url]) == 2
    assert report_failure(ImportError("cannot import name 'arrow_udf'")) == 2
    assert capsys.readouterr().err.count("this needs Spark 4.1, and here is Spark 4.0.1") == 2
