"""The Spark session of a verb in a process that has one, and another version of Spark."""

import gc
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf, SparkContext

from dlq.archive.messages.frames import tuned
from dlq.cli.running import main
from dlq.cli.spark_session import report_failure, start_spark
from dlq.drain.drain import drain
from dlq.errors import InputError
from dlq.explain.analyze import analyze
from dlq.redrive.redrive import redrive
from dlq.redrive.restore import restore
from dlq.run import run
from spark_reprocess.session import under_our_settings
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import Spark
from tests.support.small_jobs import DRAIN


def test_a_local_session_runs_three_tasks_on_two_processors(spark: Spark) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 - as in the session's own start
    processors = jvm.Runtime.getRuntime().availableProcessors()
    assert spark.sparkContext.master == f"local[{processors * 3 // 2}]"


def test_its_workers_begin_with_what_their_tasks_load(spark: Spark) -> None:
    in_worker = spark.sparkContext.range(1, numSlices=1).map(
        lambda _: (gc.get_freeze_count() > 0, "dlq.redrive.redrive" in sys.modules)
    )

    assert in_worker.first() == (True, True)


_ZONE = "spark.sql.session.timeZone"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_FACTORY_MODE = "spark.sql.codegen.factoryMode"


@pytest.fixture
def session_of_a_caller(spark: Spark) -> Iterator[Spark]:
    """Give a session in which somebody has set a zone, and has not set how large a batch is."""
    ours = {name: str(spark.conf.get(name)) for name in (_ZONE, _BATCH)}
    spark.conf.set(_ZONE, "America/New_York")
    spark.conf.unset(_BATCH)
    yield spark
    for name, value in ours.items():
        spark.conf.set(name, value)


def _settings(spark: Spark) -> dict[str, str | None]:
    return {
        name: spark.conf.get(name, None) for name in (_ZONE, _BATCH, _WHOLE_STAGE, _FACTORY_MODE)
    }


def test_a_session_that_is_there_stays_as_it_is(session_of_a_caller: Spark) -> None:
    before = _settings(session_of_a_caller)

    assert start_spark() is session_of_a_caller
    assert _settings(session_of_a_caller) == before


@pytest.mark.parametrize("ends", [True, False])
def test_a_verb_runs_under_our_settings_and_gives_the_session_back(
    session_of_a_caller: Spark, *, ends: bool
) -> None:
    spark = session_of_a_caller
    before = _settings(spark)
    assert before[_ZONE] == "America/New_York"
    assert before[_BATCH] is None

    @under_our_settings
    def verb(session: Spark, paths: list[str]) -> bool:
        is_few = tuned(session, paths)
        assert session.conf.get(_ZONE) == "UTC"
        assert session.conf.get(_BATCH) == "1000"
        assert session.conf.get(_WHOLE_STAGE) == str(not is_few).lower()
        if not ends:
            raise InputError("the verb fails")
        return is_few

    for paths in (["one"], ["many"] * 10_000):
        with nullcontext() if ends else pytest.raises(InputError):
            assert verb(spark, paths) is (len(paths) == 1)
        assert _settings(spark) == before


def test_each_verb_does_so() -> None:
    for verb in (analyze, drain, redrive, restore, run):
        assert hasattr(verb, "__wrapped__"), verb


def test_a_session_with_a_setting_that_cannot_change_is_refused(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    speculating = SparkConf(loadDefaults=False).set("spark.speculation", "true")
    monkeypatch.setattr(SparkContext, "getConf", lambda _: speculating)

    with pytest.raises(InputError, match=r"start it with spark\.speculation=false"):
        start_spark()


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
