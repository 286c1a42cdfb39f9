"""The command line: one verb, its exit code, and errors as sentences."""

import logging
from collections.abc import Sequence

from pyspark.errors import PythonException

from spark_reprocess.command_line.arguments import parse
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.command_line.verb import BAD_INPUT, INTERRUPTED, SPARK_FAILED
from spark_reprocess.errors import JobError
from spark_reprocess.spark.failures import (
    SPARK_FAILURES,
    archive_fault_of,
    condition_of,
    sentence_of,
)
from spark_reprocess.spark.interrupts import CANCELLED


def main(argv: Sequence[str]) -> int:
    """Run one verb in this process, in its Spark session; return the exit code.

    0 done; 2 bad arguments or input, or a drain that was stopped by an error; 3 stopped by the
    canary; 4 some messages could not be sent; 1 Spark itself failed; 130 interrupted. A session
    that is started here stays for the next call.
    """
    # boto's debug lines hold whole requests, bodies included.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return parse(list(argv)).run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    except JobError as error:
        complain(str(error))
        return BAD_INPUT
    except PythonException as error:
        fault = archive_fault_of(error)
        if fault is None:
            # A bug of ours on a worker: the traceback is what helps.
            raise
        complain(str(fault))
        return BAD_INPUT
    except SPARK_FAILURES as error:
        return _spark_failed(error)
    except KeyboardInterrupt:
        return _interrupted()


def _spark_failed(error: BaseException) -> int:
    condition = condition_of(error)
    if condition == CANCELLED:
        return _interrupted()
    complain(
        f"Spark failed: {condition or sentence_of(error)}; nothing is lost, run the same command "
        "again"
    )
    return SPARK_FAILED


def _interrupted() -> int:
    complain("interrupted; nothing is lost, run the same command again")
    return INTERRUPTED
