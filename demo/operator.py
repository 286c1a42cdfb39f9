"""The operator: runs ``dlq`` commands on Spark, whose session starts in the background.

With ``--console`` the viewer does the last of them.
"""

import json
import logging
import os
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from demo import ROOT, DemoError
from demo.screen import Screen, lines_of
from demo.world import FAILURE_TABLE, Queues
from dlq.cli.verb import DONE, FAILED_AGAIN, INTERRUPTED, NOT_ALL_SENT
from dlq.console.jobs import MOST_STOPS, Jobs
from dlq.figures import counted

_SHOWN_DECISIONS = 2
_MAX_RAMP_RUNS = 5

_ON_SPARK = ("--engine", "spark")
"""So few messages need no Spark. The demo shows the job that thousands of messages need."""

CONSUMER_LOG = "consumers.jsonl"

_HINTS = ("report: ", "next")
"""The lines from which on a verb's output names the next command begin with one of these."""


class Operator:
    """Runs verbs in this process, because a JVM for each would take too long; shows their output.

    Each method raises DemoError if Spark cannot start, or a verb ends with an unexpected exit code.

    Attributes:
        logs: the option that names the log of the consumers, once it was read.
        environment: the file that lets a shell run the commands that are shown.
    """

    def __init__(self, screen: Screen, work: Path, queues: Queues) -> None:
        self._screen = screen
        self._queues = queues
        self.logs: tuple[str, ...] = ()
        self._archive = ("--archive", str(work / "archive"))
        self._variables = {
            "MAIN_QUEUE": queues.main.url,
            "PARKED_QUEUE": queues.parked.url,
            "ARCHIVE": str(work / "archive"),
            "LOGS": str(work / CONSUMER_LOG),
        }
        self.environment = work / "env"
        write_environment(self.environment, self._variables)
        self._executor = ThreadPoolExecutor(1)
        self._session: Future[None] | None = None

    def start_spark(self) -> None:
        """Start the session in the background."""
        self._session = self._session or self._executor.submit(_start_session)

    def stop_spark(self) -> None:
        """End the JVM. Its workers end with it; a JVM that still starts ends with this process."""
        context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
        if gateway := getattr(context, "_gateway", None):
            gateway.proc.terminate()
            try:
                gateway.proc.wait(3)
            except subprocess.TimeoutExpired:
                # During the start of Spark, a JVM may ignore SIGTERM.
                gateway.proc.kill()

    def collect(self) -> None:
        """Archive and analyze the parked messages; show what was moved, and how many wait."""
        _, lines = self._run(
            "collect",
            "--parked-queue-url",
            self._queues.parked.url,
            *self._archive,
            # The local server answers short polls in full.
            "--wait-seconds",
            "0",
            *self.logs,
            *_ON_SPARK,
        )
        shown = []
        for line in lines:
            shown.append(line)
            if " pending in " in line:
                break
        self._quote(shown)

    def read_logs(self, log: Path) -> None:
        """Analyze again, now and later with the errors in the file *log*."""
        self.logs = ("--logs", str(log))
        words = ("--only", "analyze", *self._archive, *self.logs, *_ON_SPARK)
        _, lines = self._run("collect", *words)
        self._quote([line for line in lines if " in the logs" in line])

    def list_groups(self) -> None:
        """Show the groups of the newest analysis."""
        _, lines = self._run("groups", *self._archive)
        self._quote(lines)

    def approve(self) -> None:
        """Decide to redrive every group; show only the first commands."""
        _, answer = self._run_silently("groups", *self._archive, "--json")
        groups = json.loads("\n".join(answer))["groups"]
        undecided_ids = [group["group_id"] for group in groups if group["action"] == "leave"]

        for group_id in undecided_ids[:_SHOWN_DECISIONS]:
            _, lines = self._run("decide", *self._archive, group_id, "redrive")
            self._quote(lines)

        silent_ids = undecided_ids[_SHOWN_DECISIONS:]
        for group_id in silent_ids:
            self._run_silently("decide", *self._archive, group_id, "redrive")
        if silent_ids:
            more = counted(len(silent_ids), "more group")
            self._screen.say(f"and the same for {more}", "green")

    def redrive(self, reason: str = "") -> int:
        """Redrive the plan by ramp, or without a *reason* only show what would be sent.

        Where a slow machine leaves a step without a verdict, the same command goes on. Return its
        last exit code.
        """
        words = [
            *self._archive,
            *_ON_SPARK,
            "--ramp",
            "--main-queue-url",
            self._queues.main.url,
            "--parked-queue-url",
            self._queues.parked.url,
            "--failure-table",
            FAILURE_TABLE,
        ]
        if not reason:
            _, lines = self._run("redrive", *words)
            self._quote(lines[-2:])
            return DONE

        words += ["--reason", reason, "--execute"]
        exit_codes = (DONE, FAILED_AGAIN, NOT_ALL_SENT)
        for _ in range(_MAX_RAMP_RUNS):
            exit_code, lines = self._run("redrive", *words, exit_codes=exit_codes)
            self._quote(lines)
            if exit_code != NOT_ALL_SENT:
                return exit_code
            self._screen.say("exit code 4: not all is sent yet; the same command goes on", "yellow")

        raise DemoError(f"the ramp did not end in {_MAX_RAMP_RUNS} runs")

    def _quote(self, lines: Sequence[str]) -> None:
        """Show lines up to the hints."""
        for line in takewhile(lambda line: not line.startswith(_HINTS), lines):
            self._screen.quote(line.replace(f"{ROOT}/", ""))

    def _run(
        self, verb: str, *words: str, exit_codes: Sequence[int] = (0,)
    ) -> tuple[int, list[str]]:
        names = {value: f"${name}" for name, value in self._variables.items()}
        command = ("dlq", verb, *words)
        typed = [names.get(argument) or shlex.quote(argument) for argument in command]
        self._screen.command(" ".join(typed))

        exit_code, lines = self._run_silently(verb, *words)
        if exit_code not in exit_codes:
            last_line = lines[-1] if lines else ""
            raise DemoError(f"{verb} ended with exit code {exit_code}: {last_line}")
        return exit_code, lines

    def _run_silently(self, verb: str, *words: str) -> tuple[int, list[str]]:
        """Run a verb as ``dlq`` does; return its exit code and what it printed."""
        fault = self._session and self._session.exception()
        if fault:
            raise DemoError(f"Spark could not start ({fault}); is Java 17 or later here?")

        from dlq.cli.command import main  # noqa: PLC0415 - loads slowly

        try:
            exit_code, lines = lines_of(lambda: main([verb, *words]))
        except Exception as error:
            # Raised as DemoError, so that the account is still made after an error of the job.
            traceback.print_exc()
            raise DemoError(f"{verb} broke: {type(error).__name__}: {error}") from error

        if exit_code == INTERRUPTED:
            raise KeyboardInterrupt
        return exit_code, lines


def write_environment(file: Path, variables: Mapping[str, str]) -> None:
    """Write a file for a shell to read, after which the commands of the demo can be typed.

    The settings of AWS are those of the local servers, and hold for ``dlq`` alone.
    """
    settings = [f"PYTHONPATH={shlex.quote(os.environ['PYTHONPATH'])}"]
    for name, value in sorted(os.environ.items()):
        if name.startswith("AWS_") or name == "DLQ_MINUTE_SECONDS":
            settings.append(f"{name}={shlex.quote(value)}")

    lines = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    program = shlex.join([sys.executable, "-m", "dlq"])
    lines.append(f'dlq() {{ {" ".join(settings)} {program} "$@"; }}')
    file.write_text("\n".join(lines) + "\n", "utf-8")


def _start_session() -> None:
    # For a JVM that lives for a minute, what would take its time is the compilers.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # py4j logs interrupted calls to the current standard error, unless logging is set up.
    logging.basicConfig(stream=sys.stderr)
    from spark_reprocess.session import get_session  # noqa: PLC0415 - loads slowly

    session = get_session()
    # For so few messages, compiling what a query does takes longer than it saves.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # The first Python worker takes seconds to start, too.
    session.range(1).mapInArrow(lambda batches: batches, "id long").count()


def open_console(work: Path, queues: Queues, screen: Screen) -> None:
    """Start the console, show its address, and wait for Ctrl-C, or until the console ends."""
    archive = str(work / "archive")
    state = {"XDG_STATE_HOME": str(work / "state")}
    command = [
        sys.executable,
        "-m",
        "dlq",
        "console",
        "--archive",
        archive,
        "--main-queue-url",
        queues.main.url,
        "--dlq-url",
        queues.dlq.url,
        "--parked-queue-url",
        queues.parked.url,
        "--failure-table",
        FAILURE_TABLE,
        "--no-browser",
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **state},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C must reach the demo, which then ends the console.
        start_new_session=True,
    )

    try:
        for line in process.stdout or ():
            screen.say(line.strip(), "green")
    except KeyboardInterrupt:
        screen.say("the console is closed")
    finally:
        process.terminate()
        process.wait()
        # What the console started goes on without it, but the local queues end with the demo.
        _stop(Jobs.of(archive, state))


def _stop(jobs: Jobs) -> None:
    """Stop the running jobs and wait for their end; a second request, after 30 s, ends at once."""
    deadline = time.monotonic() + 30
    while running := [job for job in jobs.all() if job.is_running]:
        for job in running:
            jobs.stop(job.job_id, 1 if time.monotonic() < deadline else MOST_STOPS)
        time.sleep(0.2)
