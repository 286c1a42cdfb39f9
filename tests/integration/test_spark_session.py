"""The Spark session of a verb in a process that has one, and another version of Spark."""

from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark import SparkConf, SparkContext

from spark_reprocess.command_line.cli import main
from spark_reprocess.command_line.spark_session import report_failure, start_spark
from spark_reprocess.errors import InputError
from tests.support.small_jobs import DRAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_of_somebody_else_keeps_its_settings_and_ours_hold_beside_it(
    spark: "SparkSession",
) -> None:
    assert start_spark() is spark
    zone = "spark.sql.session.timeZone"
    spark.conf.set(zone, "America/New_York")
    try:
        ours = start_spark()
        assert (
            ours.sql("SELECT string(timestamp_seconds(0))").collect()[0][0] == "1970-01-01 00:00:00"
        )
        assert (ours.conf.get(zone), spark.conf.get(zone)) == ("UTC", "America/New_York")
    finally:
        spark.conf.set(zone, "UTC")


def test_a_session_with_a_setting_that_cannot_change_is_refused(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    speculating = SparkConf(loadDefaults=False).set("spark.speculation", "true")
    monkeypatch.setattr(SparkContext, "getConf", lambda _: speculating)

    with pytest.raises(InputError, match=r"start it with spark\.speculation=false"):
        start_spark()


def test_another_version_of_spark_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")

    assert main([*DRAIN, "--archive", "a", "--parked-queue-url", "https://q/1/parked"]) == 2
    assert report_failure(ImportError("cannot import name 'arrow_udf'")) == 2
    sentence = "this needs Spark 4.1, and here is Spark 4.0.1"
    assert capsys.readouterr().err.count(sentence) == 2
