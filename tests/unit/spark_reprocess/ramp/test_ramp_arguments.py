"""Arguments of a ramp, and its part of the answer."""

import pytest

from spark_reprocess.command_line.cli import parse
from spark_reprocess.command_line.ramp import print_forecast, print_ramp, stopped_sentence
from spark_reprocess.ramp.rule import Forecast, GroupRamp, Verdict

REDRIVE = ["redrive", "--archive", "a", "--to-queue-url", "u"]
RUN = ["run", "--archive", "a", "--to-queue-url", "u", "--parked-queue-url", "q"]


@pytest.mark.parametrize("verb", [REDRIVE, RUN])
def test_arguments_are_those_of_both_verbs(
    verb: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = parse(verb).options
    assert (plain.ramp, plain.allow_returns, plain.function_arn) == (None, None, None)
    assert plain.minute_seconds == 60
    assert parse([*verb, "--ramp"]).options.ramp is True
    assert parse([*verb, "--at-once"]).options.ramp is False
    monkeypatch.setenv("DLQ_MINUTE_SECONDS", "0.5")
    asked = parse([*verb, "--allow-returns", "2.5%", "--function-arn", "arn"]).options
    assert (asked.allow_returns, asked.function_arn) == ("2.5%", "arn")
    assert asked.minute_seconds == 0.5


@pytest.mark.parametrize("verb", [REDRIVE, RUN])
@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        (["--ramp", "--at-once"], "not allowed with argument"),
        (["--allow-returns", "many"], "'many': must be a whole number, or a percentage"),
        (["--allow-returns", "101%"], "'101%': must be"),
        (["--trickle", "5"], "--trickle: no such option; there are --help, --archive, "),
        (["--trickle", "5"], ", --ramp, --at-once, "),
    ],
)
def test_what_means_nothing_is_refused(
    verb: list[str], argv: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse([*verb, *argv])
    assert fault in capsys.readouterr().err


def test_forecast_says_how_many_steps_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    print_forecast(Forecast((1,), 100))
    print_forecast(Forecast((1, 2, 6, 18, 54, 162, 486), 3600))

    one, many = capsys.readouterr().out.splitlines()
    assert one.startswith("ramp: up to 1 step a group, at least 0 s in all")
    assert many.startswith("ramp: up to 7 steps a group, at least 6 h in all")


def test_groups_are_a_table_and_the_stopped_ones_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    groups = [
        GroupRamp("g-1", 2, 4, 3, 1, 0, Verdict.BAD, "1 of 3 messages came back, 0 may"),
        GroupRamp("g-2", 1, 4, 1, None, 0, Verdict.UNKNOWN, "it is not known what came back"),
    ]
    print_ramp(groups)

    _, bad, unknown = capsys.readouterr().out.splitlines()
    assert bad.split()[:6] == ["g-1", "2", "of", "4", "3", "1"]
    assert unknown.split()[5:8] == ["?", "0", "unknown"]
    assert stopped_sentence(groups).startswith("stopped: g-1: more came back than may")
    assert stopped_sentence([]).startswith("groups of the plan are stopped")
