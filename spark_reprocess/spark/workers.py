"""Python workers that are there when the first task needs one.

Spark starts them when a task asks: an interpreter, a copy of it for each core, and what the task
imports. The JVM waits two seconds for that, and before them it waited for the driver, which was
still thinking what to ask.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

SHARED_BY_ALL = "SPARK_SIMPLIFIED_TRACEBACK"
"""Spark keeps workers apart by their environment, and gives this to those of queries alone."""

JOB_GROUP = "workers"
"""Of the one job that nobody waits for."""


@contextmanager
def workers_starting(spark: SparkSession, modules: Sequence[str]) -> Iterator[None]:
    """Start the session's workers beside what is done in the block; wait for them at its end.

    Does nothing where the workers are not this machine's, or would not serve queries.

    Args:
        spark: the session.
        modules: what each worker imports, by name.
    """
    context = spark.sparkContext
    if not context.getConf().contains(f"spark.executorEnv.{SHARED_BY_ALL}"):
        yield
        return
    thread = threading.Thread(target=_start, args=(context, modules), name="workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _start(context: SparkContext, modules: Sequence[str]) -> None:
    count = context.defaultParallelism
    try:
        context.setJobGroup(JOB_GROUP, "starting Python workers")
        context.parallelize(range(count), count).foreachPartition(partial(_import, modules))
    except Py4JError:
        # Somebody cancelled all jobs, this one with them. Whoever needs a worker starts it.
        return


def _import(modules: Sequence[str], _: Iterable[int]) -> None:
    for name in modules:
        import_module(name)
