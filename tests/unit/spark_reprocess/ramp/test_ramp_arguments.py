"""Arguments of a ramp."""

import pytest

from spark_reprocess.command_line.cli import parse
from spark_reprocess.ramp.rule import AllowedReturns

REDRIVE = ["redrive", "--archive", "a", "--to-queue-url", "u"]
RUN = ["run", "--archive", "a", "--to-queue-url", "u", "--parked-queue-url", "q"]


@pytest.mark.parametrize("verb", [REDRIVE, RUN])
def test_arguments_are_those_of_both_verbs(
    verb: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = parse(verb).options
    assert (plain.ramp, plain.allow_returns, plain.function_arn) == (None, AllowedReturns(), None)
    assert plain.minute_seconds == 60
    assert parse([*verb, "--ramp"]).options.ramp is True
    assert parse([*verb, "--at-once"]).options.ramp is False
    monkeypatch.setenv("DLQ_MINUTE_SECONDS", "0.5")
    asked = parse([*verb, "--allow-returns", "2.5%", "--function-arn", "arn"]).options
    assert (asked.allow_returns, asked.function_arn) == (AllowedReturns("2.5%"), "arn")
    assert asked.minute_seconds == 0.5


@pytest.mark.parametrize("verb", [REDRIVE, RUN])
@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        (["--ramp", "--at-once"], "not allowed with argument"),
        (["--allow-returns", "many"], "'many': must be a whole number, or a percentage"),
        (["--allow-returns", "101%"], "'101%': must be"),
    ],
)
def test_what_means_nothing_is_refused(
    verb: list[str], argv: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse([*verb, *argv])
    assert fault in capsys.readouterr().err
