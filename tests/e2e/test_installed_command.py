"""``dlq`` as a process: installed from the wheel without Spark, and with it on an installation."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlq_replay.context import body_digest
from tests.support.installation import STACK, client, make_installation
from tests.support.served import served_aws
from tests.support.small_jobs import QUICK_SPARK

ROOT = Path(__file__).resolve().parents[2]
PARKED = 12


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own: the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, *pip, *wheel], check=True)
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    [file] = folder.glob("*.whl")
    got = subprocess.run(
        [python, *pip, "install", file], check=False, capture_output=True, text=True
    )
    if got.returncode and "No matching distribution" in got.stderr:
        pytest.skip("no package index to install from")
    assert got.returncode == 0, got.stderr
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


ONE_AFTER_ANOTHER = """
import io, json, sys
from contextlib import redirect_stdout
from dlq_cli.__main__ import main

for line in sys.stdin:
    out = io.StringIO()
    with redirect_stdout(out):
        exit_code = main(json.loads(line))
    print(json.dumps({"exit_code": exit_code, "out": out.getvalue()}), flush=True)
"""


@dataclass
class Verbs:
    """A process that runs one verb after another, as it is told; Spark starts once in it."""

    process: "subprocess.Popen[str]"

    def run(self, *words: str) -> str:
        """Run a verb, which must succeed; return what it wrote to its standard output."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(words), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        assert answer["exit_code"] == 0
        return str(answer["out"])


@pytest.fixture
def with_spark(endpoint: str) -> Iterator[Verbs]:
    words = [sys.executable, "-c", ONE_AFTER_ANOTHER]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(endpoint),
        cwd=ROOT,
    ) as process:
        yield Verbs(process)
        assert process.stdin
        process.stdin.close()


def environment(endpoint: str) -> dict[str, str]:
    given = {"AWS_ENDPOINT_URL": endpoint, "DLQ_STACK": STACK}
    return {**os.environ, **QUICK_SPARK, **given}


def run(endpoint: str, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, check=False, capture_output=True, text=True, env=environment(endpoint), cwd=ROOT
    )


def left_in(queue: str) -> int:
    url = client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    names = ["ApproximateNumberOfMessages"]
    answer = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return int(answer["Attributes"][names[0]])


def test_one_group_goes_back_with_nothing_typed_by_hand(
    endpoint: str, installed: Path, with_spark: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert run(endpoint, installed, "doctor").returncode == 0
    with_spark.run("collect")
    groups = json.loads(run(endpoint, installed, "groups", "--json").stdout)["groups"]
    largest, other = (group["group_id"] for group in groups)
    decided = run(endpoint, installed, "decide", other, "discard", "--note", "nobody needs them")
    assert decided.returncode == 0, decided.stderr

    dry_run = with_spark.run("redrive", "--group", largest)
    assert left_in("main") == 0
    # As an operator starts it: in a process that has only this verb.
    execute = ("--group", largest, "--execute", "--reason", "it is fixed")
    done = run(endpoint, sys.executable, "-m", "dlq_cli", "redrive", *execute)
    assert done.returncode == 0, done.stderr

    assert [group["count"] for group in groups] == [8, 4]
    assert "dry run: nothing was sent. 8 would go to" in dry_run
    assert (left_in("main"), left_in("parked")) == (8, 0)
    status = json.loads(run(endpoint, installed, "status", "--json").stdout)
    assert (status["counts"]["sent"], status["counts"]["pending"]) == (8, 4)
    listed = run(endpoint, installed, "groups")
    assert "note: nobody needs them" in listed.stdout


def test_without_spark_a_verb_that_needs_it_names_the_command_that_installs_it(
    installed: Path, endpoint: str
) -> None:
    refused = run(endpoint, installed, "collect")

    assert refused.returncode == 2
    assert f"{installed.parent}/python" in refused.stderr
    assert " -m pip install 'numpy" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_help_version_and_completion_need_no_account(installed: Path) -> None:
    help_ = subprocess.run([installed, "--help"], capture_output=True, text=True, check=True)
    version = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)

    completion = [str(installed), "--print-completion", "bash"]
    script = subprocess.run(completion, capture_output=True, text=True, check=True)

    assert "Every day:" in help_.stdout
    assert Path(help_.stdout.rpartition("docs/ is ")[2].strip(), "analysis.md").is_file()
    assert "--note" in script.stdout
    assert "redrive" in script.stdout
    assert version.stdout.startswith("dlq ")
