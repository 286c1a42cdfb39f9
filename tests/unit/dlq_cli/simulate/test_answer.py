"""The program's three forms of answer, and what it says of wrong arguments."""

import csv
import io
import json

import pytest

from dlq_cli.__main__ import main
from dlq_cli.simulate.bill import bill_of
from dlq_cli.simulate.flow import simulate, smallest_max_attempts
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import BREAKER
from dlq_cli.simulate.report import CURVE_LINES, Screen, text_report
from dlq_cli.simulate.scenario import Scenario, policy_of
from dlq_replay.breaker import BreakerRules

BRAILLE = {chr(0x2800 + dots) for dots in range(256)}
SMALL = ["--outage", "2m", "--rate", "5", "--max-attempts", "2", "--cap", "30s"]


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["simulate", *SMALL, *argv]) == 0
    return capsys.readouterr().out


def drawn(screen: Screen | None) -> list[str]:
    one = Scenario(120, 5.0, policy=policy_of(2, 10, 30))
    recoveries = {BREAKER: simulate(one, breaker=BreakerRules())}
    recoveries |= {jitter: simulate(one, jitter) for jitter in Jitter}
    bills = {name: bill_of(recoveries[name]) for name in (BREAKER, Jitter.FULL)}
    return text_report(recoveries, bills, screen).splitlines()


def test_text_in_a_pipe_is_plain_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys)

    assert text.isascii()
    assert "600 messages arrive in it: 5 a second." in text
    assert "with breaker  full jitter equal jitter    no jitter" in text
    assert "The circuit breaker stays closed." in text
    assert "recovered by themselves" in text
    assert "SQS requests around the DLQ" in text


def test_a_terminal_gets_curves_as_wide_as_it_is() -> None:
    lines = drawn(Screen(60, has_colours=False))
    curves = [line for line in lines if line.strip() and set(line.strip()) <= BRAILLE]

    assert [60] * 4 * CURVE_LINES == [len(line) for line in curves]


def test_colours_are_used_where_they_may_be() -> None:
    assert any("\x1b[32m" in line for line in drawn(Screen(60, has_colours=True)))
    assert not any("\x1b" in line for line in drawn(Screen(60, has_colours=False)))


def test_the_report_warns_where_too_much_is_parked(capsys: pytest.CaptureFixture[str]) -> None:
    short, enough = ["--max-receive-count", "1", "--visibility-timeout", "0"], ["--outage", "20"]

    assert "More than 1 in 1,000 is parked" in answer(capsys, *short)
    assert "More than" not in answer(capsys, *enough)


def test_json_says_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(answer(capsys, "--json"))
    full = said["recovery"]["full"]

    assert full["arrived"] == 600
    assert full["recovered"] + full["parked"] == pytest.approx(600)
    assert said["scenario"]["max_attempts"] == 2
    assert said["bill"]["sqs_dollars"] > 0
    assert len(full["load_per_second"]) >= 120


def test_a_longer_outage_shows_when_the_breaker_opened(capsys: pytest.CaptureFixture[str]) -> None:
    longer = ("--outage", "15m")
    said = json.loads(answer(capsys, *longer, "--json"))
    [opened] = said["recovery"]["breaker"]["breaker_opened_seconds"]
    [closed] = said["recovery"]["breaker"]["breaker_closed_seconds"]

    assert 0 < opened < 900 < closed
    assert said["recovery"]["breaker"]["held"] > 0 == said["recovery"]["full"]["held"]
    assert said["breaker_bill"]["consumer_requests"] < said["bill"]["consumer_requests"]
    assert "The circuit breaker opens after " in answer(capsys, *longer)


def test_a_stack_without_the_breaker_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "with breaker" not in answer(capsys, "--no-breaker")
    said = json.loads(answer(capsys, "--no-breaker", "--json"))
    assert set(said["recovery"]) == set(Jitter)
    assert "breaker_bill" not in said
    rows = csv.DictReader(io.StringIO(answer(capsys, "--no-breaker", "--csv")))
    assert not any("breaker" in column for column in rows.fieldnames or ())


def test_csv_has_a_row_for_each_second(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer(capsys, "--csv"))))

    assert [str(second) for second in range(len(rows))] == [row["second"] for row in rows]
    assert {"load_breaker", "load_full", "load_equal", "load_none"} <= rows[0].keys()
    assert {"held_breaker", "replays", "replays_breaker"} <= rows[0].keys()
    for suffix in ("", "_breaker"):
        ends = sum(float(row[f"through{suffix}"]) + float(row[f"parked{suffix}"]) for row in rows)
        assert ends == pytest.approx(600, rel=1e-4)


def test_the_least_number_of_replays_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = int(answer(capsys, "--outage", "5m", "--find"))
    shares = [
        simulate(Scenario(300, 5.0, policy=policy_of(count, 10, 30))).parked_share
        for count in (found - 1, found)
    ]

    assert shares[1] < 0.001 <= shares[0]


def test_a_search_may_end_without_success() -> None:
    nothing_parked = Scenario(10, 5.0, policy=policy_of(0, 1, 0), visibility_timeout_seconds=0)

    assert smallest_max_attempts(nothing_parked, parked_share=0.0) is None


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (["--outage", "soon"], "'soon' must be a duration such as 90, 30s, 1h30m or 2d"),
        (["--outage", "0"], "'0' must be from 1 s"),
        (["--rate", "-1"], "'-1' must be from 0 to"),
        (["--rate", "many"], "'many' must be a number"),
        (["--max-attempts", "1001"], "'1001': must be a whole number from 0 to 1000"),
        (["--max-attempts", "2.5"], "'2.5': must be a whole number"),
        (["--rate", "0"], "nothing arrives"),
        (["--rate", "9", "--capacity", "9"], "it must be larger"),
        (["--json", "--csv"], "not allowed with"),
    ],
)
def test_wrong_arguments_are_named_with_their_rule(
    argv: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *argv]) == 2
    assert rule in capsys.readouterr().err


def test_help_teaches_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    text = capsys.readouterr().out

    assert "examples:" in text
    assert "assumptions:" in text
