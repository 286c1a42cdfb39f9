from dataclasses import replace

import pytest
from spark_reprocess.canary.options import NONE, CanarySample
from spark_reprocess.canary.watch import CanaryReport, judge
from spark_reprocess.command_line.canary import print_sample, print_verdict, stopped_sentence

from spark_reprocess.clients import QueueCounts

FAILURES = {"g-2": {"first-4": "KeyError", "first-6": ""}}
REPORT = CanaryReport(judge({"g-1": 3, "g-2": 3}, FAILURES, NONE), 9.4, archived=7)


def test_answer_names_what_came_back_and_why_and_the_main_queue_s_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert stopped_sentence(REPORT).startswith("stopped by the canary (failed: g-2): the rest")
    print_verdict(replace(REPORT, main_queue=QueueCounts(0, 1200, 3)))

    assert capsys.readouterr().out.splitlines() == [
        "canary of group  sent ahead  came back  may come back  verdict",
        "g-1                       3          0              0  passed",
        "g-2                       3          2              0  failed",
        "came back of group g-2 (details: show MESSAGE_ID):",
        "  first-4  KeyError",
        "  first-6",
        "canary: 1 of 2 groups passed after 9 s; 7 parked messages came into the archive meanwhile",
        "main queue at the verdict: 0 waiting, 1,200 in flight, 3 delayed",
    ]


def test_dry_run_says_how_long_the_verdict_takes(capsys: pytest.CaptureFixture[str]) -> None:
    print_sample(CanarySample({"g-1": 3}, (), 105, 960))

    assert (
        "its verdict takes 16 min from when the main queue's backlog is gone, which shows "
        "1 min 45 s after the send at the earliest"
    ) in capsys.readouterr().out


def test_many_are_not_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    many = {"g": {f"first-{n}": "" for n in range(9)}}

    print_verdict(CanaryReport(judge({"g": 9}, many, NONE), 1.0))

    said = capsys.readouterr().out
    assert said.count("  first-") == 5
    assert "  … and 4 more\n" in said
