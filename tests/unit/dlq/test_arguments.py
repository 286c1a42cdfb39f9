import gc
import logging
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dlq.cli.running import exit_code_of, main, parse
from dlq.errors import InputError
from dlq.explain.analyze import AnalysisRequest
from dlq.redrive.request import RedriveRequest
from dlq.scheduled_run import RunRequest

REDRIVE = ["redrive", "--archive", "a", "--plan", "p.yaml", "--to-queue-url", "u"]
COLLECT = ["collect", "--archive", "a", "--parked-queue-url", "u"]


def test_collect_has_safe_defaults() -> None:
    values = parse(COLLECT).options
    given = {name: value for name, value in values.items() if value not in (None, ())}

    usual = {"has_samples": True, "logs_minutes": 10}
    assert given == {"archive": "a", "parked_queue_urls": ("u",), **usual}


def test_collect_takes_the_options_of_both_parts() -> None:
    drain = ["--limit", "5", "--time-budget-seconds", "1.5", "--tasks", "3", "--wait-seconds", "0"]
    values = parse([*COLLECT, *drain, "--mask", "x", "--mask", "y", "--no-samples"]).options

    names = ("limit", "time_budget_seconds", "tasks", "wait_seconds", "masks", "has_samples")
    assert [values[name] for name in names] == [5, 1.5, 3, 0, ("x", "y"), False]


def test_collect_of_one_source_narrows_the_condition() -> None:
    by_arn = "source_queue IS NULL AND endswith(source_arn, ':orders')"
    of_orders = f"(source_queue = 'orders' OR {by_arn})"

    assert parse([*COLLECT, "--queue", "orders"]).options["where"] == of_orders
    words = [*COLLECT, "--queue", "orders", "--where", "a = 1 -- b"]
    assert parse(words).options["where"] == f"{of_orders} AND (a = 1 -- b\n)"
    with pytest.raises(InputError, match="--queue o'r: must be the name of a queue"):
        parse([*COLLECT, "--queue", "o'r"])


def test_several_parked_queues_may_be_named() -> None:
    values = parse([*COLLECT, "--parked-queue-url", "v"]).options

    assert values["parked_queue_urls"] == ("u", "v")


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
    options = AnalysisRequest(since=since)

    assert options.condition == where
    assert replace(options, where="a = 1").condition == f"{where} AND (a = 1)"
    assert replace(options, where="a = 1 -- b").condition == f"{where} AND (a = 1 -- b\n)"


RUN = ["run", "--archive", "a", "--parked-queue-url", "u", "--to-queue-url", "m"]
MANY = [
    "--where",
    "1=1",
    "--limit",
    "5",
    "--max-rate",
    "2.5",
    "--unconfirmed",
    "send",
    "--include-foreign",
    "--execute",
    "--reason",
    "why",
]
OF_RUN = RunRequest(parked_queue_urls=("u",), to_queue_url="m")
OF_REDRIVE = RedriveRequest(plan="p.yaml", to_queue_url="u")


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (RUN, OF_RUN),
        (
            [*RUN, "--policy", "p", "--policy-sha256", "AB" * 32],
            replace(OF_RUN, policy="p", policy_sha256="AB" * 32),
        ),
        ([*RUN, "--ramp", "--allow-returns", "5"], replace(OF_RUN, ramp=True, allow_returns="5")),
        ([*RUN, "--at-once"], replace(OF_RUN, ramp=False)),
        (REDRIVE, OF_REDRIVE),
        (
            [*REDRIVE, "--allow-returns", "2.5%", "--function-arn", "arn"],
            replace(OF_REDRIVE, allow_returns="2.5%", function_arn="arn"),
        ),
        (
            [*REDRIVE, *MANY],
            replace(
                OF_REDRIVE,
                where="1=1",
                limit=5,
                max_rate=2.5,
                unconfirmed="send",
                include_foreign=True,
                reason="why",
                execute=True,
            ),
        ),
    ],
)
def test_arguments_become_options(argv: list[str], options: RedriveRequest) -> None:
    """Without ``--execute`` it is a dry run."""
    assert parse(argv).options == ("a", options)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "the following arguments are required: VERB"),
        (["redrve"], "redrve: no such verb; did you mean redrive?"),
        ([*COLLECT, "--limt=9"], "--limt: no such option; did you mean --limit?"),
        ([*COLLECT, "--x"], "--x: no such option; there are -h, --help, --archive, "),
        (["collect"], "required: --archive"),
        (["collect", "--archive", "a"], "QUEUE is missing"),
        ([*COLLECT, "--limit", "0"], "--limit: '0': must be a whole number of at least 1"),
        ([*COLLECT, "--wait-seconds", "21"], "'21': must be a whole number from 0 to 20"),
        ([*COLLECT, "--time-budget-seconds", "-1"], "'-1': must be a number above 0"),
        ([*COLLECT, "--since", "7"], "'7': must be an age such as"),
        ([*COLLECT, "--since", "999999w"], "'999999w': must be an age such"),
        ([*REDRIVE, "--max-rate", "nan"], "'nan': must be a number above 0"),
        ([*REDRIVE, "--unconfirmed", "no"], "--unconfirmed: invalid choice: 'no'"),
        ([*REDRIVE, "--ramp", "--at-once"], "not allowed with argument"),
        ([*RUN, "--allow-returns", "many"], "'many': must be a whole number, or a percentage"),
        ([*REDRIVE, "--allow-returns", "101%"], "'101%': must be"),
    ],
)
def test_wrong_arguments_exit_with_two_and_the_rule(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert sentence in capsys.readouterr().err


def test_a_long_help_is_short_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--help"], ["--help-all"]):
        assert main(["redrive", *words]) == 0
        shown.append(
            set(re.findall(r"--[a-z-]+", capsys.readouterr().out.partition("options:")[2]))
        )

    assert len(shown[0]) < 20 < len(shown[1])
    assert {"--group", "--where", "--at-once", "--execute"} < shown[0] < shown[1]
    # The console's own.
    assert "--decisions" not in "".join(shown[1])


def test_the_environment_may_name_the_archive_and_the_length_of_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLQ_MINUTE_SECONDS", "0.5")
    monkeypatch.setenv("DLQ_ARCHIVE", "s3://bucket/archive")

    assert parse(["status"]).options.archive == "s3://bucket/archive"
    assert parse(["status", "--archive", "here"]).options.archive == "here"
    _, request = parse(REDRIVE).options
    assert request.minute_seconds == 0.5


def test_ctrl_c_ends_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def press() -> int:
        raise KeyboardInterrupt

    assert exit_code_of(press) == 130
    sentence = "dlq: interrupted; nothing is lost, run the same command again\n"
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize("ends", [True, False])
def test_a_verb_gives_the_process_back_as_it_was(*, ends: bool) -> None:
    def settings() -> tuple[object, ...]:
        levels = [logging.getLogger(name).level for name in ("boto3", "botocore", "urllib3")]
        return signal.getsignal(signal.SIGINT), gc.get_threshold(), *levels

    def verb() -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.set_threshold(50_000)
        assert logging.getLogger("botocore").level == logging.WARNING
        if not ends:
            raise KeyboardInterrupt
        return 0

    former = logging.getLogger("botocore").level
    logging.getLogger("botocore").setLevel(logging.DEBUG)
    try:
        before = settings()
        assert exit_code_of(verb) == (0 if ends else 130)
        assert settings() == before
    finally:
        logging.getLogger("botocore").setLevel(former)


_END = """
import os
from dlq.cli.running import end_process
class Held:
    def __del__(self, abort=os.abort):
        abort()
held = Held()
print("written", end="")
end_process(4)
"""


def test_a_process_ends_with_its_code_though_python_could_not_and_nobody_reads() -> None:
    nobody_reads, output = os.pipe()
    os.close(nobody_reads)
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    for stdout, written in ((subprocess.PIPE, b"written"), (output, None)):
        ended = subprocess.run(
            [sys.executable, "-c", _END],
            check=False,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=buffered,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (4, written, b"")
    os.close(output)
