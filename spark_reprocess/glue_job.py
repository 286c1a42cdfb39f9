"""The script that AWS Glue runs: any verb, given as one argument of the job.

Glue passes arguments as ``--key value`` and adds its own (``--JOB_NAME``, ``--TempDir``, ...), so
the whole command line of this job travels in one of them::

    --command-line "run --archive s3://bucket/archive --parked-queue-url https://..."

It is split as a shell would. What else Glue passes is ignored.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

OPTION = "--command-line"


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the verb and its arguments from what Glue passed.

    Raises:
        SystemExit: there is none, or its quotes do not close.
    """
    # By hand, since argparse takes a value such as "--help" for an option. The last one wins.
    values = [after for word, after in pairwise(arguments) if word == OPTION]
    if not values:
        raise SystemExit(f"{OPTION} is missing: give a verb and its arguments, e.g. {OPTION} run")
    text = values[-1]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SystemExit(f"{OPTION} {text}: {error}") from error


def run(arguments: Sequence[str], main: Callable[[Sequence[str]], int]) -> None:
    """Run the verb with *main*.

    Raises:
        SystemExit: with a sentence where the exit code is not 0, so that Glue shows the run as
            failed and says why; on success nothing, since Glue takes any SystemExit for a failure.
    """
    command = command_of(arguments)
    exit_code = main(command)
    if exit_code:
        raise SystemExit(
            f"{command[0]} ended with exit code {exit_code}; the log of this run says why, and "
            "python -m spark_reprocess --help what the code means"
        )


if __name__ == "__main__":
    from spark_reprocess.command_line.cli import main as run_verb

    run(sys.argv[1:], run_verb)
