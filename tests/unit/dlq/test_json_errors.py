"""With ``--json`` all that a command says on standard error is one JSON object."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlq.cli import running
from dlq.cli.command import main
from dlq.cli.running import exit_code_of
from dlq.cli.terminal import (
    ERRORS_AS_LINES,
    print_error,
    print_notice,
    repeat_errors,
)
from dlq.cli.verb import progress_here
from dlq.errors import InputError
from dlq.progress import in_lines, silent

Capture = pytest.CaptureFixture[str]
JSON = ["redrive", "--json"]
INTERRUPTED_IMPORT = """
import sys, dlq.cli
class Interrupt:
    def find_spec(self, name, *_):
        if name == "dlq.cli.command":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
dlq.cli.program()
"""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("groups --archive /nowhere", "archive /nowhere: has no report"),
        ("grups", "grups: no such verb; did you mean groups?"),
        ("--josn", "the following arguments are required: VERB"),
        ("redrive --archive X --limmit 3", "--limmit: no such option; did you mean --limit?"),
        ("redrive --archive X --limit 0", "argument --limit: '0': must be a whole number"),
        ("show --archive X", "the following arguments are required: ID"),
        ("groups --stack", "argument --stack: expected one argument"),
        ("pause", "no stack is given"),
    ],
)
def test_an_error_is_one_object(line: str, why: str, capsys: Capture) -> None:
    assert main([*line.split(), "--json"]) == 2

    printed = capsys.readouterr()
    error = json.loads(printed.err)
    assert printed.out == ""
    assert list(error) == ["version", "error", "exit_code"]
    assert (error["version"], error["exit_code"]) == (1, 2)
    assert error["error"].startswith(why)


def test_without_json_an_error_is_a_line(capsys: Capture) -> None:
    assert main(["grups"]) == 2

    assert capsys.readouterr().err == "dlq: grups: no such verb; did you mean groups?\n"


def interrupted() -> int:
    raise KeyboardInterrupt


def halted_after_notice() -> int:
    print_notice("nobody watches the DLQ")
    print_error("g-1: halted")
    print_error("the run stopped early")
    return 3


def done_after_notice() -> int:
    print_notice("not published")
    return 0


def failed() -> int:
    print_notice("so Spark does it")
    raise InputError('no "plan"\n\x1b[2J')


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (interrupted, {"error": "interrupted; nothing is lost, run the same command again"}),
        (
            halted_after_notice,
            {
                "error": "g-1: halted; the run stopped early",
                "notes": ["nobody watches the DLQ"],
            },
        ),
        (done_after_notice, {"notes": ["not published"]}),
        (failed, {"error": 'no "plan"\n\x1b[2J', "notes": ["so Spark does it"]}),
    ],
)
def test_all_messages_are_in_one_line(
    call: Callable[[], int], expected: dict[str, object], capsys: Capture
) -> None:
    exit_code = exit_code_of(call, JSON)

    printed = capsys.readouterr().err
    assert printed.removesuffix("\n").isprintable()
    assert json.loads(printed) == {"version": 1, "exit_code": exit_code, **expected}


def test_a_failure_of_spark_is_one_object(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class SparkSide:
        def report_failure(self, error: Exception) -> int:
            print_error(f"Spark failed: {error}")
            return 1

    def failed_in_spark() -> int:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(running, "_is_spark_loaded", lambda: True)
    monkeypatch.setattr(running, "job", SparkSide)

    assert exit_code_of(failed_in_spark, JSON) == 1
    assert json.loads(capsys.readouterr().err) == {
        "version": 1,
        "error": "Spark failed: out of memory",
        "exit_code": 1,
    }


def test_a_command_without_messages_writes_nothing(capsys: Capture) -> None:
    assert exit_code_of(lambda: 4, JSON) == 4

    assert capsys.readouterr() == ("", "")


def test_progress_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look() -> int:
        seen.append(progress_here())
        return 0

    exit_code_of(look, JSON)
    exit_code_of(look, ["redrive"])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    exit_code_of(look, JSON)

    assert seen[:2] == [silent, in_lines]
    assert seen[2] is not silent


def test_another_ctrl_c_does_not_end_the_object(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text_of_ctrl_c(text: str) -> None:
        signal.raise_signal(signal.SIGINT)
        sys.stderr.write(text)

    monkeypatch.setattr("dlq.cli.terminal.print_note", text_of_ctrl_c)

    assert exit_code_of(interrupted, JSON) == 130
    assert json.loads(capsys.readouterr().err)["exit_code"] == 130


def test_errors_for_people_are_lines(capsys: Capture) -> None:
    token = ERRORS_AS_LINES.set(True)
    try:
        exit_code_of(halted_after_notice, JSON)
    finally:
        ERRORS_AS_LINES.reset(token)

    assert capsys.readouterr().err.splitlines() == [
        "dlq: nobody watches the DLQ",
        "dlq: g-1: halted",
        "dlq: the run stopped early",
    ]


def test_what_another_machine_wrote_is_repeated_as_this_one_writes(capsys: Capture) -> None:
    exit_code_of(halted_after_notice, JSON)
    lines = ["INFO a log line", "[1]", *capsys.readouterr().err.splitlines()]

    def repeat() -> int:
        repeat_errors(lines[2:])
        return 3

    exit_code_of(repeat, JSON)
    assert capsys.readouterr().err.splitlines() == lines[2:]

    repeat_errors(lines)
    assert capsys.readouterr().err.splitlines() == [
        "INFO a log line",
        "[1]",
        "dlq: nobody watches the DLQ",
        "dlq: g-1: halted; the run stopped early",
    ]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_ctrl_c_before_anything_is_loaded(words: list[str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, *words],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )

    why = "interrupted; nothing is lost, run the same command again"
    assert finished.returncode == 130
    if words:
        assert json.loads(finished.stderr) == {"version": 1, "error": why, "exit_code": 130}
    else:
        assert finished.stderr == f"dlq: {why}\n"
