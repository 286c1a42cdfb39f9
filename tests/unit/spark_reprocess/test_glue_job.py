import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.storage.files import open_archive
from dlq.cli.running import parse
from dlq.cli.verb import INTERRUPTED
from dlq.stack.glue_runs import (
    RunResult,
    StoredCommand,
    argument_of,
    command_of,
    read_result,
    store_command,
    write_result,
)
from spark_reprocess import glue_job
from spark_reprocess.glue_job import run
from tests.support.glue_run import run_on_glue

# What a Glue run's arguments look like: its own before and after those of the job.
GLUE = ["--JOB_ID", "j_1", "--JOB_NAME", "job", "--TempDir", "s3://b/temporary/"]
AFTER = ["--job-language", "python", "--enable-metrics", "", "--JOB_RUN_ID", "jr_1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run --reason 'fixed in 4.2'", ["run", "--reason", "fixed in 4.2"]),
        # That of the run wins over that of the job.
        ("status --archive a", ["status", "--archive", "a"]),
    ],
)
def test_the_command_line_is_found_among_what_glue_adds(line: str, words: list[str]) -> None:
    assert command_of(["--command-line", "run", *GLUE, "--command-line", line, *AFTER]) == words


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([*GLUE, *AFTER], "--command-line is missing"),
        (["--command-line", "run --reason 'fixed"], "No closing quotation"),
    ],
)
def test_what_is_no_command_line_is_named(arguments: list[str], fault: str) -> None:
    with pytest.raises(SystemExit, match=fault):
        command_of(arguments)


@dataclass
class Runs:
    """Notes the commands that it runs."""

    exit_code: int = 0
    commands: list[Sequence[str]] = field(default_factory=list)

    def main(self, command: Sequence[str]) -> int:
        self.commands.append(command)
        return self.exit_code


def test_success_ends_quietly_and_everything_else_fails_the_run() -> None:
    ran = Runs()
    run(["--command-line", "collect --archive a"], ran.main)
    ran.exit_code = 3
    with pytest.raises(SystemExit, match="redrive ended with exit code 3"):
        run(["--command-line", "redrive --archive a"], ran.main)

    # A result in the archive, and Glue's log, keep no previews of edits.
    assert ran.commands == [
        ["collect", "--archive", "a"],
        ["redrive", "--archive", "a", "--no-samples"],
    ]


@pytest.mark.parametrize(("minutes", "budget"), [("120", 6480.0), ("5", 180.0), ("2880", 155520.0)])
@pytest.mark.parametrize("verb", ["run", "redrive"])
def test_what_sends_ends_by_itself_before_glue_ends_it(
    verb: str, minutes: str, budget: float
) -> None:
    ran = Runs()
    line = f"{verb} --archive a --parked-queue-url p --main-queue-url q"
    for words in (line, f"{line} --time-budget-seconds 60", "status --archive a"):
        run([*GLUE, "--timeout-minutes", minutes, "--command-line", words], ran.main)

    *acting, status = ran.commands
    given = []
    for argv in acting:
        _, request = parse([*argv]).options
        given.append(request.time_budget_seconds)
    assert given == [budget, 60.0]
    assert "--time-budget-seconds" not in " ".join(status)


def followed(folder: Path, main: Callable[[Sequence[str]], int]) -> RunResult | None:
    """Run a verb as somebody follows it; return the result that is left."""
    words = ["--command-line", f"redrive --archive {folder}", *AFTER]
    try:
        run_on_glue(words, main)
    except SystemExit as end:
        assert "exit code 130" in str(end)  # noqa: PT017 - a success raises nothing
    return read_result(open_archive(str(folder)), "jr_1")


def test_a_stop_that_comes_when_the_verb_has_ended_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*of_result: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        write_result(*of_result)

    monkeypatch.setattr(glue_job, "write_result", write)

    assert followed(tmp_path, lambda _: 0) == RunResult(0, "", "")


def test_a_stop_that_comes_before_the_verb_has_begun_is_an_answer(tmp_path: Path) -> None:
    def main(_: Sequence[str]) -> int:
        raise KeyboardInterrupt

    assert followed(tmp_path, main) == RunResult(INTERRUPTED, "", "")


def test_a_stored_command_is_run_once(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path / "an archive"))
    ran = Runs()
    stored = StoredCommand(("collect", "--limit", "5"))
    argument = argument_of(archive, store_command(archive, stored))
    run(["--command-line", argument], ran.main)
    changed_id = store_command(archive, StoredCommand(("collect",)))
    archive.write(f"commands/{changed_id}.json", b'{"words": ["erase"]}')
    changed = argument_of(archive, changed_id)
    for gone in (argument, changed):
        with pytest.raises(SystemExit, match="has no command"):
            run(["--command-line", gone], ran.main)

    assert ran.commands == [["collect", "--limit", "5"]]
