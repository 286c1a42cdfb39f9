"""The Spark job's side of the command line: starts Spark for a verb, and reports its failures."""

import gc

from pyspark.errors import PythonException

from dlq.cli.terminal import print_error
from dlq.cli.verb import BAD_INPUT, SPARK_FAILED, progress_here
from spark_reprocess.engine import SparkEngine
from spark_reprocess.session import end_session, get_session, version_fault
from spark_reprocess.spark_errors import (
    SPARK_FAILURES,
    condition_and_sentence,
    is_end_of_jvm,
)

__all__ = ["end_session", "report_failure", "start"]


def start() -> SparkEngine:
    """Return the engine of the process's Spark session, started if need be.

    Raises:
        InputError: Spark finds no Java that it can start, or is another version.
    """
    # As on the workers: collections of garbage take time and find nothing.
    gc.set_threshold(50_000)
    with progress_here()("starting Spark", str):
        session = get_session()
    return SparkEngine(session)


def report_failure(error: Exception) -> int:
    """Print an error that Spark raised; return the exit code.

    Raises:
        Exception: *error* is none of Spark's, or a bug in code that ran on a worker: its traceback
            is needed to find it.
    """
    if isinstance(error, ImportError | AttributeError) and (fault := version_fault()):
        print_error(fault)
        return BAD_INPUT
    if isinstance(error, PythonException) or not isinstance(error, SPARK_FAILURES):
        raise error

    condition, sentence = condition_and_sentence(error)
    if is_end_of_jvm(error):
        sentence = (
            "its JVM has ended, or needs more memory; give it more: "
            "PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell'"
        )
    print_error(
        f"Spark failed: {condition or sentence}; nothing is lost, run the same command again"
    )
    return SPARK_FAILED
