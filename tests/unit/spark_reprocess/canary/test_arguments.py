import pytest
from spark_reprocess.canary.options import CanaryOptions, Share

from spark_reprocess.command_line.cli import parse
from spark_reprocess.errors import InputError

REDRIVE = ["redrive", "--archive", "a", "--plan", "p", "--to-queue-url", "u"]
RUN = ["run", "--archive", "a", "--to-queue-url", "u"]
CANARY = ["--canary", "5%", "--parked-queue-url", "q"]


def test_canary_is_off_unless_given_and_the_parked_queue_means_something_without_it() -> None:
    assert parse(REDRIVE).options.canary is None
    options = parse([*REDRIVE, "--parked-queue-url", "q"]).options

    assert (options.parked_queue_url, options.canary) == ("q", None)


def test_canary_takes_its_arguments() -> None:
    more = ["--canary-wait", "7.5", "--canary-max-return", "1", "--force-canary-wait"]
    more += ["--consumer-max-seconds", "300"]

    assert parse([*REDRIVE, *CANARY]).options.canary == CanaryOptions(Share.of("5%"), "q")
    assert parse([*REDRIVE, *CANARY, *more]).options.canary == CanaryOptions(
        Share.of("5%"), "q", 7.5, Share.of("1"), is_wait_forced=True, consumer_max_seconds=300
    )


@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        (["--canary", "5"], "--canary needs --parked-queue-url"),
        (["--canary-wait", "9"], "--canary-wait: means nothing without --canary"),
        (["--consumer-max-seconds", "9"], "--consumer-max-seconds: means nothing without --canary"),
        (["--force-canary-wait"], "--force-canary-wait: means nothing without --canary"),
        ([*CANARY, "--force-canary-wait"], "--force-canary-wait needs --canary-wait"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(argv: list[str], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse([*REDRIVE, *argv])


@pytest.mark.parametrize("verb", [REDRIVE, [*RUN, "--parked-queue-url", "q"]])
def test_verbs_with_a_canary_ask_how_long_the_consumer_hides_a_message(verb: list[str]) -> None:
    options = parse([*verb, *CANARY, "--consumer-max-seconds", "43200"]).options

    assert options.canary.consumer_max_seconds == 43_200
    with pytest.raises(SystemExit, match="2"):
        parse([*verb, *CANARY, "--consumer-max-seconds", "43201"])


@pytest.mark.parametrize("text", ["0", "0%", "-1", "101%", "many"])
def test_size_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse([*REDRIVE, "--canary", text, "--parked-queue-url", "q"])
    assert f"'{text}': must be" in capsys.readouterr().err
