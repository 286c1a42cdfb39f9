import re
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_reprocess.analysis.analyze import AnalyzeOptions
from spark_reprocess.command_line.cli import exit_code_of, main, parse
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.run import RunOptions

REDRIVE = ["redrive", "--archive", "a", "--plan", "p.yaml", "--to-queue-url", "u"]
COLLECT = ["collect", "--archive", "a", "--parked-queue-url", "u"]


def test_collect_has_safe_defaults() -> None:
    values = parse(COLLECT).options
    given = {name: value for name, value in values.items() if value not in (None, ())}

    assert given == {"archive": "a", "parked_queue_url": "u", "has_samples": True}


def test_collect_takes_the_options_of_both_parts() -> None:
    drain = ["--limit", "5", "--time-budget-seconds", "1.5", "--tasks", "3", "--wait-seconds", "0"]
    values = parse([*COLLECT, *drain, "--mask", "x", "--mask", "y", "--no-samples"]).options

    names = ("limit", "time_budget_seconds", "tasks", "wait_seconds", "masks", "has_samples")
    assert [values[name] for name in names] == [5, 1.5, 3, 0, ("x", "y"), False]


def test_analyze_turns_an_age_into_a_fixed_time() -> None:
    earliest = datetime.now(UTC) - timedelta(days=7, seconds=1)
    since = parse([*COLLECT, "--since", "7d"]).options["since"]

    assert earliest <= since <= datetime.now(UTC) - timedelta(days=7)
    assert since.microsecond == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("2026-11-01", "sent_at >= timestamp '2026-11-01 00:00:00Z'"),
        ("2026-11-01T09:30:00+01:00", "sent_at >= timestamp '2026-11-01 08:30:00Z'"),
        ("2026-11-01T09:30:00.250Z", "sent_at >= timestamp '2026-11-01 09:30:00.250000Z'"),
    ],
)
def test_since_takes_a_time(text: str, where: str) -> None:
    since = parse([*COLLECT, "--since", text]).options["since"]
    options = AnalyzeOptions("a", since=since)

    assert options.condition == where
    assert replace(options, where="a = 1").condition == f"{where} AND (a = 1)"
    assert replace(options, where="a = 1 -- b").condition == f"{where} AND (a = 1 -- b\n)"


@pytest.mark.parametrize("verb", ["collect", "run"])
def test_a_policy_is_a_file_and_is_pinned_by_its_hash(verb: str) -> None:
    queues = ["--parked-queue-url", "u", *(["--to-queue-url", "m"] if verb == "run" else [])]
    argv = [verb, "--archive", "a", *queues, "--policy", "p", "--policy-sha256", "AB" * 32]

    options = parse(argv).options
    given = options if isinstance(options, dict) else asdict(options)
    assert (given["policy"], given["policy_sha256"]) == ("p", "ab" * 32)


def test_run_needs_no_ramp_for_its_parked_queue() -> None:
    command = parse(["run", "--archive", "a", "--parked-queue-url", "u", "--to-queue-url", "m"])

    assert command.options == RunOptions("a", parked_queue_url="u", to_queue_url="m")


def test_run_takes_a_ramp() -> None:
    asked = ["--to-queue-url", "m", "--policy", "p", "--ramp", "--allow-returns", "5"]
    command = parse(["run", "--archive", "a", "--parked-queue-url", "u", *asked])

    assert command.options.ramp is True
    assert command.options.allow_returns == "5"
    assert command.options.policy == "p"


def test_redrive_is_a_dry_run_by_default() -> None:
    assert parse(REDRIVE).options == RedriveOptions("a", "p.yaml", "u")


def test_redrive_takes_all_its_options() -> None:
    more = [
        *("--where", "1=1", "--limit", "5", "--max-rate", "2.5", "--in-doubt", "send"),
        *("--claim-ttl", "60", "--include-foreign", "--keep-counter", "--execute"),
        *("--reason", "why"),
    ]

    assert parse([*REDRIVE, *more]).options == RedriveOptions(
        archive="a",
        plan="p.yaml",
        to_queue_url="u",
        where="1=1",
        limit=5,
        max_rate=2.5,
        in_doubt="send",
        include_foreign=True,
        claim_ttl_seconds=60,
        keep_counter=True,
        reason="why",
        execute=True,
    )


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "the following arguments are required: VERB"),
        (["redrve"], "redrve: no such verb; did you mean redrive?"),
        ([*COLLECT, "--limt=9"], "--limt: no such option; did you mean --limit?"),
        (
            [*COLLECT, "--x"],
            "--x: no such option; there are --help, --archive, --only,",
        ),
        (["collect"], "required: --archive"),
        (["collect", "--archive", "a"], "--parked-queue-url is missing"),
        ([*COLLECT, "--only", "drain", "--since", "7d"], "--since does nothing with --only drain"),
        ([*COLLECT, "--only", "analyze", "--limit", "5"], "--limit does nothing with --only"),
        ([*COLLECT, "--limit", "0"], "--limit: '0': must be a whole number of at least 1"),
        ([*COLLECT, "--wait-seconds", "21"], "'21': must be a whole number from 0 to 20"),
        ([*COLLECT, "--time-budget-seconds", "-1"], "'-1': must be a number above 0"),
        ([*COLLECT, "--since", "7"], "'7': must be an age such as"),
        ([*COLLECT, "--since", "999999w"], "'999999w': must be an age such"),
        ([*COLLECT, "--policy-sha256", "0" * 64], "needs --policy"),
        ([*COLLECT, "--policy-sha256", "0g" * 32], "must be a SHA-256"),
        ([*REDRIVE, "--max-rate", "nan"], "'nan': must be a number above 0"),
        ([*REDRIVE, "--claim-ttl", "59"], "'59': must be a whole number from 60 to 43200"),
        ([*REDRIVE, "--in-doubt", "no"], "--in-doubt: invalid choice: 'no'"),
    ],
)
def test_wrong_arguments_exit_with_two_and_the_rule(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["collect", "redrive"])
def test_help_of_each_verb_exits_with_zero(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert "--archive" in capsys.readouterr().out


def test_a_long_help_is_short_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--help"], ["--help-all"]):
        assert main(["redrive", *words]) == 0
        shown.append(
            set(re.findall(r"--[a-z-]+", capsys.readouterr().out.partition("options:")[2]))
        )

    assert len(shown[0]) < 20 < len(shown[1])
    assert {"--group", "--where", "--at-once", "--execute"} < shown[0] < shown[1]


def test_the_environment_may_name_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLQ_ARCHIVE", "s3://bucket/archive")

    assert parse(["status"]).options.archive == "s3://bucket/archive"
    assert parse(["status", "--archive", "here"]).options.archive == "here"


def test_help_shows_every_verb_in_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    shown = capsys.readouterr().out
    assert all(f"spark_reprocess {verb} " in shown for verb in ("collect", "redrive"))


def test_ctrl_c_ends_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def press() -> int:
        raise KeyboardInterrupt

    assert exit_code_of(press) == 130
    sentence = "dlq: interrupted; nothing is lost, run the same command again\n"
    assert capsys.readouterr().err == sentence
