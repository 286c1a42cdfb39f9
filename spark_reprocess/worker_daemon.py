"""Forks the Python workers of a local session, once it has loaded what their tasks need.

Spark starts it with the first task in Python, instead of ``pyspark.daemon``. Each worker would take
half a second of a processor to load the same.
"""

import gc

import pandas as pd  # noqa: F401 - Arrow loads it for the first list
from pyspark import daemon

import dlq.drain.drain
import dlq.explain.analyze
import dlq.redrive.redrive  # noqa: F401
import spark_reprocess.engine  # noqa: F401

if __name__ == "__main__":
    # A worker collects its garbage after each task, and need not look at what is loaded here.
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]
