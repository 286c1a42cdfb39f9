"""The command line: one verb, its exit code, and errors as sentences."""

import logging
import sys
from collections.abc import Sequence

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from spark_reprocess.analysis.analyze import AnalyzeOptions, analyze
from spark_reprocess.command_line.answers import print_analysis, print_drain, print_redrive
from spark_reprocess.command_line.arguments import Options, parse
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.drain.drain import DrainOptions, drain
from spark_reprocess.errors import JobError
from spark_reprocess.progress import Progress, on_terminal, silent
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.spark.failures import SPARK_FAILURES, condition_of, sentence_of
from spark_reprocess.spark.session import get_session

DONE = 0
BAD_INPUT = 2
NOT_ALL_SENT = 4
SPARK_FAILED = 1
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Run one verb in this process, in its Spark session; return the exit code.

    0 done; 2 bad arguments or input, or a drain that was stopped by an error; 4 some messages
    could not be sent; 1 Spark itself failed; 130 interrupted. A session that is started here
    stays for the next call.
    """
    # boto's debug lines hold whole requests, bodies included.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return _run(parse(list(argv)))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    except JobError as error:
        complain(str(error))
        return BAD_INPUT
    except PythonException:
        # A bug of ours on a worker: the traceback is what helps.
        raise
    except SPARK_FAILURES as error:
        complain(
            f"Spark failed: {condition_of(error) or sentence_of(error)}; nothing is lost, run the "
            "same command again"
        )
        return SPARK_FAILED
    except KeyboardInterrupt:
        complain("interrupted; nothing is lost, run the same command again")
        return INTERRUPTED


def _run(options: Options) -> int:
    progress = on_terminal if sys.stderr.isatty() else silent
    with progress("starting Spark", str):
        spark = get_session()
    match options:
        case DrainOptions():
            return _drain(spark, options, progress)
        case AnalyzeOptions():
            print_analysis(analyze(spark, options, progress=progress))
            return DONE
        case _:
            summary = redrive(spark, options, progress=progress)
            print_redrive(summary)
            return NOT_ALL_SENT if summary.is_unfinished else DONE


def _drain(spark: SparkSession, options: DrainOptions, progress: Progress) -> int:
    summary = drain(spark, options, progress=progress)
    print_drain(summary)
    for fault in summary.stopped_by:
        complain(
            f"the drain stopped early: {fault}; what is not archived is still in the queue, "
            "run the same command again"
        )
    return BAD_INPUT if summary.stopped_by else DONE
