"""The Spark session: that of the process if it has one, else a local one.

Under ``spark-submit`` the cluster's settings apply. From plain Python a local session is started,
whose workers find this package and which prints errors only. A session that was there before is its
owner's, who may run other queries in it: our settings hold only in ``our_settings``.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from dlq.errors import InputError
from dlq.interrupts import asking_to_stop
from spark_reprocess.spark_errors import SPARK_FAILURES

_PACKAGE = Path(__file__).resolve().parent

_EVERYWHERE = {
    # A shuffle of ours has the partitions that it asks for: there is nothing to adapt.
    "spark.sql.adaptive.enabled": "false",
    # The results of operators' SQL must not depend on the session.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # Bodies have up to 1 MiB: limit what a Python worker holds at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
}
_SPECULATION = "spark.speculation"
"""A task of a drain or a redrive that runs twice is safe, but the second run is useless, and keeps
no rate. A session that runs cannot change it."""

_STOP_SECONDS = 20.0

_LOCAL = {
    "spark.app.name": "spark_reprocess",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
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
        # A thread that finds no memory ends; whoever waits for its answer would wait for ever.
        " -XX:+ExitOnOutOfMemoryError"
    ),
}


def get_session() -> SparkSession:
    """Return the process's session, as it is; start one if there is none. Nobody need stop it.

    Spark reads ``--master`` and its other settings from ``spark-submit``. The default is a local
    session with three tasks for two processors, because tasks also wait for SQS and for the disk.

    Raises:
        InputError: Spark finds no Java that it can start, is another version than 4.1, or runs with
            a setting that we cannot change.
        KeyboardInterrupt: SIGINT or SIGTERM came while Spark started. Its Java has ended.
    """
    if fault := version_fault():
        raise InputError(fault)

    try:
        if SparkContext._active_spark_context is None:  # noqa: SLF001 - no public way
            session = _started_session()
        else:
            session = SparkSession.builder.getOrCreate()
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
    return session


_ONE_AT_A_TIME = threading.RLock()
"""Of two threads one would take the settings of the other for those of the session's owner."""


@contextmanager
def our_settings(spark: SparkSession) -> Iterator[None]:
    """Run the block under our settings. However it ends, give the session back as it was.

    Another thread waits until then.
    """
    with _ONE_AT_A_TIME:
        before = {name: spark.conf.get(name, None) for name in _EVERYWHERE}
        try:
            for name, value in _EVERYWHERE.items():
                spark.conf.set(name, value)
            yield
        finally:
            # The session may have ended with its JVM.
            with suppress(*SPARK_FAILURES):
                for name, setting in before.items():
                    if setting is None:
                        spark.conf.unset(name)
                    else:
                        spark.conf.set(name, setting)


def _started_session() -> SparkSession:
    settings = {**_EVERYWHERE, _SPECULATION: "false"}
    java = _Java()
    with java.ending_with_the_start():
        with asking_to_stop(java.end):
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

            SparkContext.getOrCreate(SparkConf().setAll([*settings.items()]))

        # The context has replaced the handler of SIGINT.
        with asking_to_stop(java.end):
            return SparkSession.builder.getOrCreate()


class _Java:
    """The Java that pyspark starts, from before its first answer.

    pyspark lets it ignore SIGINT, and has no handle of it until it has answered: a command that is
    interrupted before that would leave it behind.
    """

    def __init__(self) -> None:
        """Know of no process yet."""
        self._processes: list[Popen[bytes]] = []
        self._is_asked = False

    def end(self) -> None:
        """End it now, or as soon as it is started. A call of Spark that waits for it then fails."""
        self._is_asked = True
        for process in self._processes:
            if process.poll() is None:
                _kill(process.pid)

    @contextmanager
    def ending_with_the_start(self) -> Iterator[None]:
        """End it if the block, which starts it, is interrupted.

        Raises:
            KeyboardInterrupt: ``end`` was called in the block, which may have failed for that
                reason.
        """
        java_gateway.Popen = self._start  # type: ignore[attr-defined, assignment]
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self.end()
            if not self._is_asked:
                raise
        finally:
            java_gateway.Popen = Popen  # type: ignore[attr-defined]

        if self._is_asked:
            # Nobody may ask, or stop, a context whose Java has ended.
            SparkContext._active_spark_context = None  # noqa: SLF001
            SparkContext._gateway = None  # noqa: SLF001
            raise KeyboardInterrupt

    def _start(self, *words: Any, **settings: Any) -> "Popen[bytes]":  # noqa: ANN401 - Popen's
        process = Popen(*words, **settings)  # noqa: S603 - what pyspark starts
        self._processes.append(process)
        if self._is_asked:
            self.end()
        return process


def _kill(pid: int) -> None:
    """Kill a process and, on Linux, those that it has started.

    ``spark-submit`` is a script. It starts a Java that computes the words of the command, then it
    becomes the Java of that command.
    """
    children = ""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in children.split():
        _kill(int(child))


def version_fault() -> str:
    """Return the fault of another version of Spark than 4.1; empty for 4.1."""
    if pyspark.__version__.startswith("4.1."):
        return ""
    return f"this needs Spark 4.1, and here is Spark {pyspark.__version__}"


def end_session() -> None:
    """Stop the process's session, if it has one; for the end of a process of our own."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is None:
        return

    def stop() -> None:
        # Its JVM may have ended.
        with suppress(*SPARK_FAILURES):
            context.stop()

    # Its JVM may answer nobody any more. It ends with this process.
    stopping = threading.Thread(target=stop, name="stop Spark", daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)
