"""A verb of the command line: its name, its help, its arguments, and what runs it.

Each module of ``verbs/`` holds one as ``VERB``; ``arguments`` lists them.
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

DONE = 0
SPARK_FAILED = 1
BAD_INPUT = 2
STOPPED_BY_CANARY = 3
NOT_ALL_SENT = 4
INTERRUPTED = 130
"""What the exit codes say; see ``cli.main``."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        line: one line for the list of verbs.
        about: what it does and promises, for its ``--help``.
        add_arguments: adds its arguments; every verb has ``--archive`` already.
        make_options: makes its options of the arguments' values, by name.
        run: does it with these options, prints the answer and returns the exit code; raises
            JobError with a sentence.
    """

    name: str
    line: str
    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    make_options: Callable[..., Any]
    run: Callable[[Any], int]


def progress_here() -> Progress:
    """How work shows that it goes on, where standard error is now."""
    return on_terminal if sys.stderr.isatty() else in_lines


def start_spark() -> SparkSession:
    """Return the process's Spark session, started if need be; Ctrl-C cancels its jobs."""
    watched = on_terminal if sys.stderr.isatty() else silent
    with watched("starting Spark", str):
        session = get_session()
    cancel_jobs_on_interrupt(session)
    return session
