"""The Spark session: the process's own where it has one, else a quiet local one.

Under ``spark-submit`` the cluster's settings rule; from plain Python a local session is started
that finds this package on its workers and prints nothing but errors.
"""

import os
import re
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = Path(__file__).resolve().parent.parent

_EVERYWHERE = {
    # A cluster cuts each shuffle into 200 parts unless it is told a number, and each part is a
    # task, also where ten messages are all there is. Spark puts small parts together as it goes,
    # and never below its cores; in what is persisted it does so only if it is told that it may.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # A drain or a redrive that runs twice is safe, but the second run is for nothing.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # What a plan says of each message is small: it goes to where the bodies are.
    "spark.sql.autoBroadcastJoinThreshold": str(64 * 1024 * 1024),
    # Bodies go up to 1 MiB: what a Python worker holds at once is bounded.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
}
_LOCAL = {
    "spark.app.name": "spark_reprocess",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.executorEnv.PYTHONPATH": str(_PACKAGE.parent),
}
# A verb takes a minute or two, and of those the optimising compiler would take more than it gives
# back. Under spark-submit the JVM is as its owner wants it.
_JAVA_OPTIONS = (
    f"-Dlog4j2.configurationFile={(_PACKAGE / 'log4j2.properties').as_uri()}"
    " -XX:TieredStopAtLevel=1"
)
_ONE_MACHINE = re.compile(r"local(\[.*\])?")
_NOISE = b"WARNING: Using incubator modules"
"""Printed by the JVM before any setting reaches it."""


def get_session() -> SparkSession:
    """Return the process's session; start one where there is none. Nobody stops it here.

    Spark reads ``--master`` and everything else from ``spark-submit``; its own default, and so
    ours, is ``local[*]``.

    Raises:
        InputError: no Java that Spark can start.
    """
    builder: SparkSession.Builder = SparkSession.builder
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - there is no public question
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            _start_local()
        else:
            for name, value in _EVERYWHERE.items():
                builder = builder.config(name, value)
    return builder.getOrCreate()


def driver_host(spark: SparkSession) -> str:
    """Return the address under which tasks reach this machine, and this machine itself."""
    conf = spark.sparkContext.getConf()
    if _ONE_MACHINE.fullmatch(conf.get("spark.master", "")):
        return "127.0.0.1"
    return conf.get("spark.driver.host", socket.gethostname())


def end_session() -> None:
    """Stop the process's session, if it has one; for the end of a process that is all ours."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is not None:
        context.stop()


def _start_local() -> None:
    # Else the workers are whichever python3 comes first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAll([*_EVERYWHERE.items(), *_LOCAL.items()])
    conf.set("spark.driver.extraJavaOptions", _JAVA_OPTIONS)
    reader, writer = os.pipe()
    threading.Thread(target=_forward, args=(reader,), name="jvm-stderr", daemon=True).start()
    try:
        launch: Callable[..., Any] = launch_gateway
        gateway = launch(conf, {"stderr": writer})
    except PySparkRuntimeError as error:
        raise InputError(
            "Spark did not start; it needs Java 17 or later: set JAVA_HOME to one"
        ) from error
    finally:
        os.close(writer)
    SparkContext(conf=conf, gateway=gateway)


def _forward(reader: int) -> None:
    """Pass on what the JVM writes to standard error, for its whole life, but for its greeting."""
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOISE):
                os.write(2, line)
