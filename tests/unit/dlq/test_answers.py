"""The answers that the verbs print, as ``tests/golden/answers.txt`` has them."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.aws.clients import QueueCounts
from dlq.cli.terminal import (
    AS_JSON,
    errors_in_answer,
    print_answer,
    print_error,
    print_fields,
    print_line,
    print_table,
)
from dlq.cli.verb import progress_here
from dlq.cli.verbs.collect import print_collected, print_drain
from dlq.cli.verbs.redrive import print_redrive
from dlq.cli.verbs.run import exit_code_of_run
from dlq.drain.drain import DrainSummary
from dlq.errors import InputError
from dlq.progress import silent
from dlq.redrive.ramping.step_records import Forecast
from dlq.redrive.ramping.verdict_rules import GroupRamp, Verdict
from dlq.redrive.summary import GroupResult, RedriveSummary, Tally
from dlq.scheduled_run import Pending, RunSummary
from tests.support.findings_builder import a_difference, a_group, some_findings
from tests.support.golden import assert_stored, stored_rows

DRAINED = DrainSummary("d-1", "/my archive", 2.0, 10, 10, 10, 0, 0, faults=(), stopped_by=())
EMPTY = replace(DRAINED, received=0, archived=0, deleted=0)
TENANT = "get_json_object(body, '$.tenant') = 'acme'"
DIFFERENCE = a_difference("body.tenant", "acme", 0.874, 0.021, 3.4, condition=TENANT)
GROUP = a_group(
    group_id="g-1",
    title="TimeoutError",
    count=3,
    share=0.75,
    trend="rising",
    arrivals=(0, 1, 4, 8),
    differences=(DIFFERENCE,),
)
ANALYZED = some_findings(archive="/a", plan_path="/a/r/plan.yaml", messages=4, groups=(GROUP,))
WORDY = replace(GROUP, title="word " * 32)
PROBLEMS = (
    "foreign_source",
    "no_group",
    "unconfirmed",
    "in_progress",
    "waits",
    "failed",
    "split_group",
    "not_reached",
)


def redriven(
    counts: dict[str, int], run_id: str = "", action: str = "redrive", *problems: Tally
) -> RedriveSummary:
    group = GroupResult("g-1", "TimeoutError", action, counts)
    return RedriveSummary("p-1", run_id, {"https://q": 1}, (group,), problems)


def problem(disposition: str) -> RedriveSummary:
    detail = "TooLong" if disposition == "failed" else ""
    tally = Tally("", disposition, 7, detail, ("m-1", "m-2"))
    return redriven({disposition: 7}, "r-1", "redrive", tally)


DRAINS = {
    "of ten messages": DRAINED,
    "that did not delete some": replace(
        DRAINED, not_deleted=2, unreadable=1, faults=("message x: Body: must be",)
    ),
    "while SQS still counts": replace(DRAINED, rest=QueueCounts(0, 1200, 3)),
    "of an empty queue": replace(EMPTY, rest=QueueCounts(0, 0, 0)),
}
ANALYSES = {
    "of one group": ANALYZED,
    "without groups": replace(ANALYZED, groups=(), messages=0),
    "of more groups than are shown": replace(ANALYZED, groups=(WORDY,) * 40, messages=200),
    "of more than fit a screen": replace(ANALYZED, groups=(WORDY,) * 13, messages=40),
}
REDRIVES = {
    "dry": redriven({"send": 1200, "sent_before": 3}),
    "dry, with a rate": replace(redriven({"send": 1200}), max_rate=2.5),
    "dry, by ramp": replace(redriven({"send": 3}), forecast=Forecast((1, 2), 270)),
    "dry, by a long ramp": replace(
        redriven({"send": 800}), forecast=Forecast((1, 2, 6, 18, 54, 162, 486), 21_600)
    ),
    "by ramp": replace(
        redriven({"sent": 4, "halted": 8}, "r-1"),
        ramp=(
            GroupRamp("g-1", 2, 4, 3, 1, 0, Verdict.BAD, "1 of 3 messages failed again, 0 allowed"),
            GroupRamp(
                "g-2", 1, 4, 1, None, 0, Verdict.UNKNOWN, "it is not known what failed again"
            ),
        ),
    ),
    "dry, with a discard": redriven({"send": 3, "discard": 4}),
    "dry, of a plan that leaves all": redriven({"leave": 3}, action="leave"),
    "of three": redriven({"sent": 3}, "r-1"),
    "of none that was left": redriven({"sent_before": 3}, "r-1"),
    "of none that was selected": redriven({"sent_before": 3, "not_selected": 1}, "r-1"),
    "that discards": redriven({"discarded": 4}, "r-1"),
    **{f"with {disposition}": problem(disposition) for disposition in PROBLEMS},
}
HOSTILE = "\x1b]0;title\x07\x1b[2J\rover\u202ewritten"
PRINTED: dict[str, Callable[[], None]] = {
    "table": lambda: print_table(
        ("group", "count", "failure"),
        [("g-1", 1200, "[red]x[/red] [link=y]"), ("g-22", 7, HOSTILE)],
    ),
    "table without rows": lambda: print_table(("group", "count"), []),
    "fields": lambda: print_fields(
        [("by", "[red]me[/red]"), ("why", ""), ("body", "2 lines\none\ntwo")]
    ),
}
ANSWERS: dict[str, Callable[[], None]] = {
    **{f"drain {name}": partial(print_drain, summary) for name, summary in DRAINS.items()},
    **{f"analysis {name}": partial(print_collected, (), (), ANALYSES[name]) for name in ANALYSES},
    **{f"redrive {name}": partial(print_redrive, summary) for name, summary in REDRIVES.items()},
    **PRINTED,
}
ON_SCREEN = {
    *(name for name in ANSWERS if "analysis" in name or name.endswith(("ten messages", " dry"))),
    *PRINTED,
}


@stored_rows("answers", ANSWERS)
def test_answer_reads_as_it_is_stored(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a log it has ids and counts and no words of messages; on a screen it has titles, too."""
    ANSWERS[name]()
    printed = capsys.readouterr().out
    if name in ON_SCREEN:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "100")
        ANSWERS[name]()
        lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
        printed += "--- on a screen\n" + "".join(f"{line}\n" for line in lines)

    assert "\x07" not in printed
    assert_stored("answers", name, printed)


def stopped(cause: StopCause, counts: dict[str, int]) -> RedriveSummary:
    return replace(redriven(counts, "r-1"), stopped_by=Stop(cause, "why"))


DRAINED_ONLY = RunSummary("r-1", (DRAINED,), None, None, Pending(0, 0))


@pytest.mark.parametrize(
    ("summary", "exit_code"),
    [
        (DRAINED_ONLY, 0),
        (replace(DRAINED_ONLY, refused="table t cannot be read"), 2),
        (replace(DRAINED_ONLY, postponed="its time budget is over"), 4),
        (replace(DRAINED_ONLY, postponed="another run", is_locked_out=True), 2),
        (replace(DRAINED_ONLY, redriven=redriven({"halted": 1}, "r-1")), 3),
        (replace(DRAINED_ONLY, redriven=redriven({"sent": 1, "failed": 1}, "r-1")), 4),
        (replace(DRAINED_ONLY, redriven=redriven({"sent": 1, "waits": 1}, "r-1")), 0),
        (replace(DRAINED_ONLY, redriven=stopped(StopCause.INTERRUPTED, {"not_reached": 1})), 130),
        (replace(DRAINED_ONLY, redriven=stopped(StopCause.INTERRUPTED, {"halted": 1})), 130),
        (replace(DRAINED_ONLY, redriven=stopped(StopCause.RAMP, {"waits": 1})), 4),
        (replace(DRAINED_ONLY, redriven=stopped(StopCause.BAD_STEP, {"not_reached": 1})), 3),
        (replace(DRAINED_ONLY, drained=(DRAINED, replace(DRAINED, stopped_by=("SQS",)))), 2),
    ],
)
def test_exit_code_of_a_scheduled_run(summary: RunSummary, exit_code: int) -> None:
    assert exit_code_of_run(summary) == exit_code


def test_an_error_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(HOSTILE)

    assert capsys.readouterr().err == (
        "dlq: [U+001B]]0;title[U+0007][U+001B][2J[U+000D]over[U+202E]written\n"
    )


@pytest.fixture
def as_json() -> Iterator[None]:
    token = AS_JSON.set(True)
    yield
    AS_JSON.reset(token)


def join_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``spark-submit``. In the test itself: pytest replaces the stream for each step."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)


@pytest.mark.usefixtures("as_json")
def test_output_of_spark_submit_is_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    join_streams(monkeypatch)
    with errors_in_answer():
        print_error("nobody watches the DLQ")
        assert progress_here() is silent
        print_answer({"sent": 2}, str)
        print_error("stopped")
    printed = capsys.readouterr()

    errors = ["dlq: nobody watches the DLQ", "dlq: stopped"]
    assert json.loads(printed.out) == {"version": 1, "sent": 2, "errors": errors}
    assert printed.err == ""
    assert progress_here() is not silent


@pytest.mark.usefixtures("as_json")
def test_errors_without_an_answer_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    join_streams(monkeypatch)

    def fail() -> None:
        with errors_in_answer():
            print_error("nobody watches the DLQ")
            raise InputError("no plan")

    with pytest.raises(InputError):
        fail()

    assert capsys.readouterr() == ("", "dlq: nobody watches the DLQ\n")


@pytest.mark.usefixtures("as_json")
@pytest.mark.parametrize("differs", ["no --json", "a terminal", "a stream of its own"])
def test_elsewhere_both_streams_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], differs: str
) -> None:
    join_streams(monkeypatch)
    if differs == "no --json":
        AS_JSON.set(False)
    elif differs == "a terminal":
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    else:
        monkeypatch.setattr(sys, "__stderr__", None)

    with errors_in_answer():
        print_error("nobody watches the DLQ")
        assert progress_here() is not silent
        print_answer({"sent": 2}, lambda: print_line("2 sent"))
    printed = capsys.readouterr()

    assert printed.err == "dlq: nobody watches the DLQ\n"
    assert "errors" not in printed.out
    assert "sent" in printed.out
