"""What stays on the path of Spark's Python workers."""

from spark_reprocess.spark.worker_daemon import without_sparks_own


def test_spark_s_zips_and_jars_go_and_a_zip_of_this_job_stays() -> None:
    own = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip", "/s/jars/core.jar"]
    others = ["", "/job/spark_reprocess.zip", "/site-packages", "/usr/lib/python311.zip"]

    assert without_sparks_own([*own, *others]) == others
