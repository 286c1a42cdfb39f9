"""``dlq`` as a process, installed from the wheel: neither Spark nor Java is there."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from dlq_replay.wire.context import body_digest
from tests.support.failure_table import create_failure_table
from tests.support.installation import STACK, client, make_installation
from tests.support.served import served_aws

ROOT = Path(__file__).resolve().parents[2]
PARKED = 12


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own: the wheel, and what the lock has, nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, *pip, *wheel], check=True)
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    [file] = folder.glob("*.whl")

    wheels = folder / "wheelhouse"
    locked = ROOT / "requirements" / "command.txt"
    download = ("download", "--only-binary", ":all:", "--require-hashes", "--requirement", locked)
    got = subprocess.run(
        [sys.executable, *pip, *download, "--dest", wheels],
        check=False,
        capture_output=True,
        text=True,
    )
    if got.returncode and "No matching distribution" in got.stderr:
        pytest.skip("no package index to install from")
    assert got.returncode == 0, got.stderr
    offline = ("install", "--no-index", "--find-links", wheels)
    subprocess.run([python, *pip, *offline, file], check=True)
    return environment / "bin" / "dlq"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served_aws() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        make_installation()
        client("s3").create_bucket(Bucket="dead-letters")

        sqs = client("sqs")
        for number in range(PARKED):
            error = "LookupError" if number % 3 else "TimeoutError"
            context = {"v": 1, "id": f"first-{number}", "reason": "attempts_exhausted"}
            body = json.dumps({"number": number})
            context |= {
                "h": body_digest(body),
                "src": "main",
                "error": {"type": error, "message": "it failed"},
            }
            attribute = {"DataType": "String", "StringValue": json.dumps(context)}
            sqs.send_message(
                QueueUrl=sqs.get_queue_url(QueueName="parked")["QueueUrl"],
                MessageBody=body,
                MessageAttributes={"sqs-dlq-context": attribute},
            )

        yield url


def environment_of(endpoint: str) -> dict[str, str]:
    return {**os.environ, "AWS_ENDPOINT_URL": endpoint, "DLQ_STACK": STACK, "JAVA_HOME": "/none"}


def run(endpoint: str, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        env=environment_of(endpoint),
        cwd=ROOT,
    )


def succeed(endpoint: str, *words: str | Path) -> str:
    """Run a command, which must succeed; return what it wrote to its standard output."""
    finished = run(endpoint, *words)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def left_in(queue: str) -> int:
    url = client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    names = ["ApproximateNumberOfMessages"]
    answer = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return int(answer["Attributes"][names[0]])


def test_a_look_needs_no_stack_and_every_message_stays(
    endpoint: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)

    look = json.loads(succeed(endpoint, installed, "look", "parked", "--json"))

    [queue] = look["queues"]
    assert queue["received"]["messages"] == PARKED
    assert [group["count"] for group in look["groups"]] == [8, 4]
    assert left_in("parked") == PARKED


def test_one_group_goes_back_with_nothing_typed_by_hand(
    endpoint: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    succeed(endpoint, installed, "doctor")
    succeed(endpoint, installed, "collect")
    groups = json.loads(succeed(endpoint, installed, "groups", "--json"))["groups"]
    largest, other = (group["group_id"] for group in groups)
    hint = f"dlq redrive --stack {STACK} --group {largest}\n"
    assert hint in succeed(endpoint, installed, "groups")
    succeed(endpoint, installed, "decide", other, "discard", "--note", "nobody needs them")

    # The server has no failure table, in which a ramp would look.
    redrive = (installed, "redrive", "--group", largest, "--at-once")
    dry_run = succeed(endpoint, *redrive)
    assert left_in("main") == 0
    succeed(endpoint, *redrive, "--execute", "--reason", "it is fixed")

    assert [group["count"] for group in groups] == [8, 4]
    assert "dry run: nothing was sent. 8 would go to" in dry_run
    assert (left_in("main"), left_in("parked")) == (8, 0)
    status = json.loads(succeed(endpoint, installed, "status", "--json"))
    assert (status["counts"]["sent"], status["counts"]["pending"]) == (8, 4)
    assert "note: nobody needs them" in succeed(endpoint, installed, "groups")


def test_each_verb_that_reads_bodies_does_it_without_spark(
    endpoint: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    # An erase also looks for what consumers recorded.
    create_failure_table(client("dynamodb"), "failures")
    condition = ("--where", "get_json_object(body, '$.number') = '3'")

    matches = json.loads(succeed(endpoint, installed, "find", "3", "--json"))["archived"]
    ran = json.loads(succeed(endpoint, installed, "run", "--json"))
    restored = succeed(endpoint, installed, "restore", *condition)
    erased = json.loads(succeed(endpoint, installed, "erase", *condition, "--json"))

    assert (matches["matching"], matches["searched"]) == (1, PARKED)
    assert ran["findings"]["messages"] == 4
    assert "dry run: nothing was sent. 1 would go to" in restored
    assert erased["messages"] == 1


def test_the_console_serves_its_pages(endpoint: str, installed: Path) -> None:
    words = [str(installed), "console", "--no-browser"]
    environment = environment_of(endpoint)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as console:
        try:
            assert console.stdout
            title = console.stdout.readline()
            address = console.stdout.readline().strip()
            browser = build_opener(HTTPCookieProcessor())
            with browser.open(address, timeout=60) as page:
                page_text = page.read().decode()
        finally:
            console.terminate()

    assert title == f"the console of {STACK}, until Ctrl-C:\n"
    assert "<title>" in page_text


def test_whoever_wants_spark_where_it_is_not_is_told_the_command_that_installs_it(
    installed: Path, endpoint: str
) -> None:
    refused = run(endpoint, installed, "collect", "--engine", "spark")

    assert refused.returncode == 2
    assert f"{installed.parent}/python" in refused.stderr
    assert " -m pip install 'pandas" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_help_version_and_completion_need_no_account(installed: Path) -> None:
    def output(*words: str) -> str:
        command = [str(installed), *words]
        return subprocess.check_output(command, text=True, stderr=subprocess.PIPE)

    help_ = output("--help")
    version = output("--version")
    script = output("completion", "bash")

    assert "Every day:" in help_
    assert Path(help_.rpartition("docs/ is ")[2].strip(), "analysis.md").is_file()
    assert "--note" in script
    assert "redrive" in script
    assert version.startswith("dlq ")
