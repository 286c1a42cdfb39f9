from collections.abc import Sequence

import pytest

from spark_reprocess.glue_job import command_of, run

# What a Glue run's arguments look like: its own before and after those of the job.
GLUE = ["--JOB_ID", "j_1", "--JOB_NAME", "job", "--TempDir", "s3://b/temporary/"]
AFTER = ["--job-language", "python", "--enable-metrics", "", "--JOB_RUN_ID", "jr_1"]


def test_the_command_line_is_found_among_what_glue_adds() -> None:
    line = "run --archive s3://b/archive --execute --reason 'fixed in 4.2'"

    assert command_of([*GLUE, "--command-line", line, *AFTER]) == [
        "run",
        "--archive",
        "s3://b/archive",
        "--execute",
        "--reason",
        "fixed in 4.2",
    ]


def test_a_run_s_own_command_line_wins_over_the_job_s() -> None:
    arguments = ["--command-line", "run", *GLUE, "--command-line", "status --archive a"]

    assert command_of(arguments) == ["status", "--archive", "a"]


def test_further_options_are_added() -> None:
    line = "run --archive a --reason 'a -- b' -- --max-rate 5 --mask 'C-[0-9]+'"

    assert command_of(["--command-line", line]) == [
        *("run", "--archive", "a", "--reason", "a -- b"),
        *("--max-rate", "5", "--mask", "C-[0-9]+"),
    ]
    assert command_of(["--command-line", "run --archive a -- "]) == ["run", "--archive", "a"]


@pytest.mark.parametrize(
    "further",
    [
        *(
            "--execute",
            "--exec",
            "--policy=s3://b/x",
            "'--policy' x",
            "--pol\\icy x",
            '""--reason x',
        ),
        *("--max-rate 5 -- --execute", "--mask x --to-queue-url y", "--main-queue-url y", "--ar y"),
    ],
)
def test_further_options_do_not_decide_what_the_stack_does(further: str) -> None:
    with pytest.raises(SystemExit, match="SparkJobOptions must not have --"):
        command_of(["--command-line", f"run --archive a -- {further}"])


def test_a_missing_command_line_is_named() -> None:
    with pytest.raises(SystemExit, match="--command-line is missing"):
        command_of([*GLUE, *AFTER])


def test_an_open_quote_is_named() -> None:
    with pytest.raises(SystemExit, match="No closing quotation"):
        command_of(["--command-line", "run --reason 'fixed"])


def test_success_ends_quietly_and_everything_else_fails_the_run() -> None:
    ran: list[Sequence[str]] = []

    def main(command: Sequence[str]) -> int:
        ran.append(command)
        return 3 if command[0] == "redrive" else 0

    run(["--command-line", "drain --archive a"], main)
    with pytest.raises(SystemExit, match="redrive ended with exit code 3"):
        run(["--command-line", "redrive --archive a"], main)

    assert [command[0] for command in ran] == ["drain", "redrive"]
