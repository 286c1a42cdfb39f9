"""The Spark session: that of the process if it has one, else a local one.

Under ``spark-submit`` the cluster's settings apply. From plain Python a local session is started,
whose workers find this package and which prints errors only.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from spark_reprocess.errors import InputError

_PACKAGE = Path(__file__).resolve().parent.parent

_EVERYWHERE = {
    # By default each shuffle has 200 partitions, and each is a task, also for ten messages. With
    # these settings Spark coalesces small partitions, those of persisted frames included.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.session.timeZone": "UTC",
    # A plan's data for each message is small: broadcast it rather than shuffle the bodies.
    "spark.sql.autoBroadcastJoinThreshold": str(64 * 1024 * 1024),
    # Bodies have up to 1 MiB: limit what a Python worker holds at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
}
_SPECULATION = "spark.speculation"
"""A task of a drain or a redrive that runs twice is safe, but the second run is useless, and keeps
no rate. A session that runs cannot change it."""

_LOCAL = {
    "spark.app.name": "spark_reprocess",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # What a few queries read again: to compress it takes longer than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # The driver looks at files on its own disk faster than a job does.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.executorEnv.PYTHONPATH": str(_PACKAGE.parent),
    # The longer text of a query's plan is for Spark's UI, and the UI is off.
    "spark.sql.ui.explainMode": "simple",
    # Otherwise each use of a column asks the JVM five questions, to name our line in an error.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A verb takes a minute or two: the optimising compiler and the parallel collector cost more
    # than they save, and so do a heap and a space for classes that grow step by step. (They stay
    # within their limits.) Under spark-submit the options of the JVM are the operator's.
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={(_PACKAGE / 'log4j2.properties').as_uri()}"
        " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:InitialRAMPercentage=25"
        " -XX:MetaspaceSize=256m"
    ),
}


def get_session() -> SparkSession:
    """Return the process's session; start one if there is none. The caller need not stop it.

    Spark reads ``--master`` and its other settings from ``spark-submit``. The default is a local
    session with three tasks for two processors, because tasks also wait for SQS and for the disk.

    Raises:
        InputError: Spark finds no Java that it can start, is another version than 4.1, or runs with
            a setting that we cannot change.
    """
    if fault := version_fault():
        raise InputError(fault)
    builder: SparkSession.Builder = SparkSession.builder
    try:
        if SparkContext._active_spark_context is None:  # noqa: SLF001 - no public way
            settings = {**_EVERYWHERE, _SPECULATION: "false"}
            if "PYSPARK_GATEWAY_PORT" not in os.environ:
                settings |= _LOCAL
                # Otherwise the workers use the first python3 on the PATH.
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                # The JVM knows a container's limits, and a session cannot change its tasks later.
                SparkContext._ensure_initialized(conf=SparkConf().setAll([*settings.items()]))  # noqa: SLF001
                jvm: Any = SparkContext._jvm  # noqa: SLF001 - no public way
                if jvm.System.getProperty("spark.master") == "local[*]":
                    processors = jvm.Runtime.getRuntime().availableProcessors()
                    settings["spark.master"] = f"local[{processors * 3 // 2}]"
                    # Not on a cluster: its machines may get this package with the first task only.
                    settings["spark.python.daemon.module"] = "spark_reprocess.worker_daemon"
            for name, value in settings.items():
                builder = builder.config(name, value)
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise InputError(
            "Spark did not start; it needs Java 17 or later: set JAVA_HOME to one"
        ) from error
    if session.sparkContext.getConf().get(_SPECULATION, "false") != "false":
        raise InputError(
            f"this Spark session runs with {_SPECULATION}=true: start it with {_SPECULATION}=false"
        )
    for name, value in _EVERYWHERE.items():
        session.conf.set(name, value)
    return session


def version_fault() -> str:
    """Return what is wrong with the version of Spark; empty if nothing is."""
    if pyspark.__version__.startswith("4.1."):
        return ""
    return f"this needs Spark 4.1, and here is Spark {pyspark.__version__}"


def end_session() -> None:
    """Stop the process's session, if it has one; for the end of a process of our own."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is not None:
        context.stop()
