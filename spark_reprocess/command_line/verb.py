"""What a verb of the command line consists of, its exit codes, and how it starts Spark.

Each verb has a module beside this one, which defines it as ``VERB``; ``cli`` lists them.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_reprocess.progress import Progress, in_lines, on_terminal, silent
from spark_reprocess.spark.interrupts import cancel_jobs_on_interrupt
from spark_reprocess.spark.session import get_session

PROGRAM = "python -m spark_reprocess"
"""What a user types before the verb."""

DONE = 0
SPARK_FAILED = 1
BAD_INPUT = 2
STOPPED_BY_CANARY = 3
NOT_ALL_SENT = 4
INTERRUPTED = 130
"""Exit codes; see ``cli.main``."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        line: one line for the list of verbs.
        about: what it does and guarantees, for its ``--help``.
        add_arguments: adds its arguments; every verb has ``--archive`` already.
        make_options: makes its options of the arguments' values, by name.
        run: runs it with these options, prints the answer and returns the exit code; raises
            JobError with a sentence.
    """

    name: str
    line: str
    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    make_options: Callable[..., Any]
    run: Callable[[Any], int]


def progress_here() -> Progress:
    """Return how progress is shown: one line on a terminal, lines of a log elsewhere."""
    return on_terminal if sys.stderr.isatty() else in_lines


def start_spark() -> SparkSession:
    """Return the process's Spark session, started if need be; Ctrl-C cancels its jobs."""
    progress = on_terminal if sys.stderr.isatty() else silent
    with progress("starting Spark", str):
        session = get_session()
    cancel_jobs_on_interrupt(session)
    return session
