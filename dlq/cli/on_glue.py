"""Runs a verb of the Spark job as a run of a stack's AWS Glue job, and waits for its end.

The run reads its command in the archive, and writes its answer there; see ``glue_job``.
"""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.storage.files import Archive, open_folder
from dlq.cli.running import VERBS
from dlq.cli.suggested import OTHER_WORDS, typed_values
from dlq.cli.terminal import print_error, print_line, print_notice, repeat_errors
from dlq.cli.verb import CHECK_FAILED, PLACE_WORDS, TYPED, option, progress_here
from dlq.errors import ArchiveError, BusyError, InputError, JobError
from dlq.figures import duration
from dlq.plan.plan_reading import ID
from dlq.stack.glue_runs import (
    OPTION,
    StoredCommand,
    argument_of,
    command_of,
    read_result,
    remove_command,
    request_stop,
    store_command,
)
from dlq.stack.outputs import aws_errors, read_stack

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_glue import GlueClient

_ENDED = {"SUCCEEDED", "FAILED", "STOPPED", "TIMEOUT", "ERROR", "EXPIRED"}
_CHECK_SECONDS = 5.0
STOP_SECONDS = 60.0
"""Time after Ctrl-C in which the run may finish its open calls; then it is stopped by force."""

_FIX = "the stack's policy RunSparkJobPolicy allows it"

_FILES = ("archive", "plan", "policy", "out")
"""Options whose value may be a file on this machine, which a run on Glue cannot read."""


def run_on_glue(
    session: "Session", stack: str, verb: str, words: Sequence[str], values: Mapping[str, object]
) -> int:
    """Run a verb as a run of the stack's Glue job, print its answer and return its exit code.

    *values* are what *words* say, by the name of the option; ``archive`` is required.

    Raises:
        InputError: the stack has no job, the verb cannot run on Glue, or a call of Glue failed.
        BusyError: a run of the job is in progress.
    """
    if why := VERBS[verb].not_on_glue:
        raise InputError(f"{verb} does not run on AWS Glue: {why}")

    for name in _FILES:
        value = str(values.get(name) or "s3://")
        is_local = not value.startswith(("s3://", "s3a://"))
        if is_local and not (name == "plan" and ID.fullmatch(value)):
            raise InputError(
                f"--{name} {value}: is on this machine, where the run cannot read it; give an "
                "address on S3, or for a plan the id of its report"
            )

    job = read_stack(session, stack).spark_job
    if job is None:
        raise InputError(
            f"stack {stack}: has no AWS Glue job; deploy it with CreateSparkJob=true, or leave "
            "--on-glue out"
        )

    client = session.client("glue")
    archive = open_folder(str(values["archive"]))
    privacy = privacy_options(client, job) if verb in {"collect", "redrive", "run"} else []
    return run_job(client, job, archive, [verb, *words, *privacy])


def run_job(
    client: "GlueClient",
    job: str,
    archive: Archive,
    words: Sequence[str],
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Run a verb with its arguments as a run of *job*, print its answer, and return its exit code.

    Ctrl-C requests the run to stop after its open calls, and stops it by force after
    ``STOP_SECONDS``. After a second Ctrl-C the command ends and the run continues.

    Raises:
        BusyError: a run is in progress.
        InputError: a call of Glue failed. If a run did start at the first one, it finds no command,
            and ends.
    """
    values, others = typed_values(TYPED.get()[1:])
    typed_places: list[str] = []
    for name, given in values.items():
        for value in given:
            typed_places += option(name, value)
    command = StoredCommand(
        words=tuple(words),
        typed=(words[0], *typed_places, OTHER_WORDS),
        place=PLACE_WORDS.get(),
    )
    command_id = store_command(archive, command)
    run_id = _start(client, job, archive, command_id)
    print_notice(f"job {job}, run {run_id} is started; Ctrl-C stops it")

    wait = partial(_wait, client, job, run_id, sleep)
    try:
        state, message = wait()
    except KeyboardInterrupt:
        # A run that cannot be asked is stopped by force below.
        with suppress(ArchiveError):
            request_stop(archive, run_id)
        print_notice(
            f"stopping the run after its open calls, by force after {duration(STOP_SECONDS)}; "
            "after another Ctrl-C it continues without this command"
        )
        state, message = wait(STOP_SECONDS)
        if state not in _ENDED:
            with suppress(ClientError, BotoCoreError):
                client.batch_stop_job_run(JobName=job, JobRunIds=[run_id])
            state, message = wait()

    result = read_result(archive, run_id)
    if result is None:
        # It may have ended before it read its command.
        _forget(archive, command_id)
        print_error(
            f"run {run_id} ended as {state} without an answer: "
            f"{message or 'Glue gives no reason'}; see its log"
        )
        return CHECK_FAILED

    repeat_errors(result.errors.splitlines())
    other_words = "".join(f" {shlex.quote(argument)}" for argument in others)
    for line in result.answer.splitlines():
        print_line(line.replace(f" {OTHER_WORDS}", other_words))
    return result.exit_code


def _start(client: "GlueClient", job: str, archive: Archive, command_id: str) -> str:
    """Start a run of *job* that reads a stored command; return its id. Raises as ``run_job``."""
    try:
        with aws_errors(f"job {job}", _FIX):
            arguments = {OPTION: argument_of(archive, command_id)}
            return client.start_job_run(JobName=job, Arguments=arguments)["JobRunId"]
    except JobError as error:
        _forget(archive, command_id)
        if isinstance(error.__cause__, client.exceptions.ConcurrentRunsExceededException):
            why = "a run is in progress; wait for its end, then run this command again"
            raise BusyError(f"job {job}: {why}") from error
        raise


def _forget(archive: Archive, command_id: str) -> None:
    """Remove a command that no run will read. If that fails, the next erase does it."""
    with suppress(ArchiveError):
        remove_command(archive, command_id)


def _wait(
    client: "GlueClient",
    job: str,
    run_id: str,
    sleep: Callable[[float], object],
    most_seconds: float = float("inf"),
) -> tuple[str, str]:
    """Wait until the run has ended, or *most_seconds*; return its state and Glue's message."""
    state = ""
    waited_seconds = 0.0
    with progress_here()(f"run {run_id}", lambda: state):
        while True:
            with aws_errors(f"run {run_id}", _FIX):
                run = client.get_job_run(JobName=job, RunId=run_id)["JobRun"]
            state = run["JobRunState"]
            if state in _ENDED or waited_seconds >= most_seconds:
                return state, run.get("ErrorMessage", "")

            sleep(_CHECK_SECONDS)
            waited_seconds += _CHECK_SECONDS


def privacy_options(client: "GlueClient", job: str) -> list[str]:
    """Return the options of the stack's scheduled run that hide data; each run must use them.

    Raises:
        InputError: the job's arguments could not be read.
    """
    with aws_errors(f"job {job}", _FIX):
        defaults = client.get_job(JobName=job)["Job"].get("DefaultArguments", {})
    words = command_of([OPTION, defaults.get(OPTION, "run")])

    options = []
    for previous, argument in pairwise(["", *words]):
        is_option = argument in ("--mask", "--no-samples") or argument.startswith("--mask=")
        if is_option or previous == "--mask":
            options.append(argument)
    return options
