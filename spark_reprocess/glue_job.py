"""The script that AWS Glue runs: one verb, given as one argument of the job.

Glue passes arguments as ``--key value`` and adds its own (``--JOB_NAME``, ``--TempDir``, ...), so
the whole command line of this job is one argument::

    --command-line "run --archive s3://bucket/archive --parked-queue-url https://..."

It is split as a shell splits it. Glue's other arguments are ignored. After a word ``--`` come the
options of the stack's parameter SparkJobOptions: they are added to the command line, and must not
override what other parameters set.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

OPTION = "--command-line"
JOB_RUN_ID = "JOB_RUN_ID"
"""Glue's argument, and the environment variable that ``actor`` reads."""

FURTHER = "--"
DECIDED_BY_THE_STACK = (
    "--archive",
    "--parked-queue-url",
    "--to-queue-url",
    "--main-queue-url",
    "--policy",
    "--policy-sha256",
    "--execute",
    "--reason",
)
"""Options that SparkJobOptions must not have, nor abbreviations of them."""


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the verb and its arguments from Glue's *arguments*.

    Raises:
        SystemExit: there is no command line, its quotes do not close, or SparkJobOptions has an
            option that is not allowed.
    """
    # Not with argparse: it takes a value such as "--help" for an option. The last one wins.
    values = [after for word, after in pairwise(arguments) if word == OPTION]
    if not values:
        raise SystemExit(f"{OPTION} is missing: give a verb and its arguments, e.g. {OPTION} run")
    text = values[-1]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SystemExit(f"{OPTION} {text}: {error}") from error
    if FURTHER not in words:
        return words
    place = words.index(FURTHER)
    return [*words[:place], *_checked(words[place + 1 :])]


def _checked(further: list[str]) -> list[str]:
    for word in further:
        name = word.partition("=")[0]
        if name.startswith("--") and any(one.startswith(name) for one in DECIDED_BY_THE_STACK):
            raise SystemExit(
                f"SparkJobOptions must not have {name}: other parameters of the stack decide it"
            )
    return further


def run(arguments: Sequence[str], main: Callable[[Sequence[str]], int]) -> None:
    """Run the verb with *main*.

    Raises:
        SystemExit: the exit code is not 0; Glue shows the run as failed, with this text. Not raised
            on success: Glue takes any SystemExit for a failure.
    """
    command = command_of(arguments)
    # The ledger records the id of the job run.
    for name, value in pairwise(arguments):
        if name == f"--{JOB_RUN_ID}":
            os.environ[JOB_RUN_ID] = value
    exit_code = main(command)
    if exit_code:
        raise SystemExit(
            f"{command[0]} ended with exit code {exit_code}; the log of this run says why, and "
            "python -m spark_reprocess --help what the code means"
        )


if __name__ == "__main__":
    from spark_reprocess.command_line.cli import main as run_verb

    run(sys.argv[1:], run_verb)
