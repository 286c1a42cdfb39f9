import re
import sys
from dataclasses import replace

import pytest

from spark_reprocess.clients import QueueCounts
from spark_reprocess.command_line.collect import print_analysis, print_drain
from spark_reprocess.command_line.redrive import print_redrive
from spark_reprocess.drain.drain import DrainSummary
from spark_reprocess.findings import Synonym
from spark_reprocess.ramp.rule import Forecast
from spark_reprocess.redrive.redrive_values import GroupOutcome, RedriveSummary, Tally
from tests.findings_builder import a_group, a_lead, some_findings

Capture = pytest.CaptureFixture[str]

DRAINED = DrainSummary(
    drain_id="d-1",
    archive="/my archive",
    seconds=2.0,
    received=10,
    archived=10,
    deleted=10,
    left=0,
    unreadable=0,
    faults=(),
    stopped_by=(),
)
TENANT = "get_json_object(body, '$.tenant') = 'acme'"
LEAD = a_lead("body.tenant", "acme", 0.874, 0.021, 3.4, condition=TENANT)
GROUP = a_group(
    group_id="g-1",
    title="TimeoutError",
    count=3,
    share=0.75,
    trend="rising",
    arrivals=(0, 1, 4, 8),
    leads=(LEAD,),
)
ANALYZED = some_findings(archive="/a", plan_path="/a/r/plan.yaml", messages=4, groups=(GROUP,))


def redriven(
    counts: dict[str, int], run_id: str = "", action: str = "redrive", *problems: Tally
) -> RedriveSummary:
    group = GroupOutcome("g-1", "TimeoutError", action, counts)
    return RedriveSummary("p-1", run_id, {"https://q": 1}, (group,), problems)


def test_drain_prints_its_counts(capsys: Capture) -> None:
    print_drain(DRAINED)

    assert capsys.readouterr().out.splitlines() == [
        "received  archived  deleted  left",
        "      10        10       10     0",
        "drain d-1: 2 s, 5 messages/s",
    ]


def test_drain_names_what_stayed_behind(capsys: Capture) -> None:
    print_drain(replace(DRAINED, left=2, unreadable=1, faults=("message x: Body: must be",)))

    shown = capsys.readouterr().out
    assert "2 were archived but their deletion was not confirmed" in shown
    assert "1 receive brought no readable message; left in the queue:" in shown
    assert "  message x: Body: must be" in shown


def test_drain_says_what_sqs_still_counts_and_suggests_nothing_after_an_empty_queue(
    capsys: Capture,
) -> None:
    print_drain(replace(DRAINED, rest=QueueCounts(visible=0, in_flight=1200, delayed=3)))
    assert "about 0 visible, 1,200 in flight and 3 delayed" in capsys.readouterr().out

    empty = replace(DRAINED, received=0, archived=0, deleted=0)
    print_drain(replace(empty, rest=QueueCounts(visible=0, in_flight=0, delayed=0)))
    shown = capsys.readouterr().out
    assert "SQS still counts" not in shown
    assert "next:" not in shown


def test_analysis_in_a_log_has_ids_and_counts_and_no_words(capsys: Capture) -> None:
    print_analysis(ANALYZED)

    assert capsys.readouterr().out.splitlines() == [
        "4 messages pending in 1 group",
        "groups: 1 new",
        "group  count  share  trend",
        "g-1        3  75%     ▁▄█ rising",
        "report: /a/r/report.html",
        "next: dlq groups --archive /a --plan /a/r/plan.yaml",
    ]


def test_analysis_counts_the_groups_that_it_does_not_show(capsys: Capture) -> None:
    many = replace(ANALYZED, groups=(GROUP,) * 40, messages=200, unlisted_groups=7)

    print_analysis(many)

    shown = capsys.readouterr().out
    assert shown.count("g-1 ") == 30
    assert "… and 17 smaller groups with 110 messages; the report lists 40" in shown


def test_analysis_fits_a_screen_where_somebody_looks(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wordy = replace(GROUP, title="word " * 32)
    many = replace(ANALYZED, groups=(wordy,) * 40, messages=200)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")

    print_analysis(many)

    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert shown.count("body.tenant = acme: 87% here, 2.1% of all others") == 12
    assert "… and 28 smaller groups with 164 messages; all are in the report" in shown
    table = shown.split("report: ")[0].splitlines()
    assert len(table) <= 12 * 4 + 6
    assert max(map(len, table)) <= 100


def test_what_holds_for_the_same_messages_is_told_where_somebody_looks(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = (Synonym("body.account", "17"), Synonym("attribute.plan", "x" * 80))
    lead = a_lead("body.tenant", "acme", synonyms=same)
    found = replace(ANALYZED, groups=(replace(GROUP, leads=(lead,)),))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_analysis(found)
    assert "same messages: body.account = 17 and 1 more" in capsys.readouterr().out


def test_analysis_without_groups_has_nothing_to_do(capsys: Capture) -> None:
    print_analysis(replace(ANALYZED, groups=(), messages=0))

    assert capsys.readouterr().out.endswith("nothing is left to decide; report: /a/r\n")


@pytest.mark.parametrize(
    ("summary", "sentences"),
    [
        (
            redriven({"send": 1200, "sent_before": 3}),
            ["dry run: nothing was sent. 1,200 would go to https://q", "--execute --reason"],
        ),
        (
            replace(redriven({"send": 1200}), max_rate=2.5),
            ["1,200 would go to https://q in about 8 min at 2.5 a second"],
        ),
        (
            replace(redriven({"send": 3}), forecast=Forecast((1, 2), 270)),
            [
                "ramp: up to 2 steps a group",
                "4 min 30 s in all",
                "3 would go to https://q step by step",
            ],
        ),
        (redriven({"send": 3, "discard": 4}), ["to discard", ", 4 would be discarded"]),
        (
            redriven({"leave": 3}, action="leave"),
            ["the plan leaves every group; edit its actions first"],
        ),
    ],
)
def test_dry_run_says_what_it_would_do(
    summary: RedriveSummary, sentences: list[str], capsys: Capture
) -> None:
    print_redrive(summary)

    shown = capsys.readouterr().out
    assert [one for one in sentences if one not in shown] == []
    assert ("discard" in shown) is ("discard" in summary.groups[0].counts)


def test_titles_are_shown_where_somebody_looks(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_redrive(redriven({"send": 3}))
    shown = capsys.readouterr().out
    assert "g-1" in shown
    assert "TimeoutError" not in shown

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_redrive(redriven({"send": 3}))
    assert "TimeoutError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("counts", "end"),
    [
        ({"sent": 3}, "plan p-1, run r-1: sent 3\n"),
        ({"sent_before": 3}, "run r-1: sent 0; nothing was left to do\n"),
        ({"sent_before": 3, "not_selected": 1}, "run r-1: sent 0\n"),
        ({"discarded": 4}, "run r-1: sent 0, discarded 4\n"),
    ],
)
def test_run_ends_with_what_it_sent(counts: dict[str, int], end: str, capsys: Capture) -> None:
    print_redrive(redriven(counts, run_id="r-1"))

    assert capsys.readouterr().out.endswith(end)

    print_redrive(redriven({"send": 3, "record": 4}))
    shown = capsys.readouterr().out
    assert "to record" in shown
    assert ", 4 would be recorded as arrived" in shown

    print_redrive(redriven({"arrived": 4}, run_id="r-1"))
    assert capsys.readouterr().out.endswith("run r-1: sent 0, recorded 4 as arrived\n")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("foreign_source", "7 left: they came from another main queue"),
        ("no_group", "7 left: a FIFO queue needs a MessageGroupId"),
        ("in_doubt", "7 in doubt: they may have been sent"),
        ("busy", "7 busy: another run claimed them"),
        ("waits", "7 waiting behind an earlier message of their message group that stays"),
        ("failed", "7 failed: not sent; run again to retry [TooLong]: m-1, m-2, …"),
        ("split_group", "7 left: --where takes only a part of their message group"),
        ("not_reached", "7 not reached: nothing of them was sent; run again to go on"),
    ],
)
def test_every_problem_has_a_sentence_and_ids(word: str, sentence: str, capsys: Capture) -> None:
    detail = "TooLong" if word == "failed" else ""
    problem = Tally("", word, 7, detail, ("m-1", "m-2"))

    print_redrive(redriven({word: 7}, "r-1", "redrive", problem))

    shown = capsys.readouterr().out
    assert sentence in shown
    assert "m-1, m-2, …" in shown
