"""The Spark session of a verb in a process that has one, and another version of Spark."""

import gc
import sys
from contextlib import nullcontext
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf, SparkContext

from spark_reprocess.analysis.analyze import analyze
from spark_reprocess.archive.messages.frames import keeps_settings, tuned
from spark_reprocess.command_line.cli import main
from spark_reprocess.command_line.spark_session import report_failure, start_spark
from spark_reprocess.errors import InputError
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.restore import restore
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import Spark
from tests.support.small_jobs import DRAIN


def test_a_local_session_runs_three_tasks_on_two_processors(spark: Spark) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 - as in the session's own start
    processors = jvm.Runtime.getRuntime().availableProcessors()
    assert spark.sparkContext.master == f"local[{processors * 3 // 2}]"


def test_its_workers_begin_with_what_their_tasks_load(spark: Spark) -> None:
    in_worker = spark.sparkContext.range(1, numSlices=1).map(
        lambda _: (gc.get_freeze_count() > 0, "spark_reprocess.redrive.redrive" in sys.modules)
    )

    assert in_worker.first() == (True, True)


def test_our_settings_hold_in_a_session_that_is_there(spark: Spark) -> None:
    zone = "spark.sql.session.timeZone"
    spark.conf.set(zone, "America/New_York")

    assert start_spark() is spark
    assert spark.conf.get(zone) == "UTC"


@pytest.mark.parametrize("ends", [True, False])
def test_a_verb_gives_the_session_back_as_it_was(spark: Spark, *, ends: bool) -> None:
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name) for name in names]

    @keeps_settings
    def verb(session: Spark, paths: list[str]) -> bool:
        is_few = tuned(session, paths)
        assert session.conf.get(names[0]) == str(not is_few).lower()
        if not ends:
            raise InputError("the verb fails")
        return is_few

    for paths in (["one"], ["many"] * 10_000):
        with nullcontext() if ends else pytest.raises(InputError):
            assert verb(spark, paths) is (len(paths) == 1)
        assert [spark.conf.get(name) for name in names] == before


def test_the_verbs_give_it_back() -> None:
    for verb in (analyze, redrive, restore):
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
