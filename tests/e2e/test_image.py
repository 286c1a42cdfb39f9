"""The container image of ``dlq``, as the page on its installation says to run it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containers import missing_engine, missing_image
from tests.support.installation import client
from tests.support.served import served_aws

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "sqs-dlq-replay:tested"
MESSAGES = 5
BUILD_SECONDS = 600


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if fault := missing_engine():
        pytest.skip(f"no Docker engine could be started: {fault}")
    for base in set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)):
        if fault := missing_image(base):
            pytest.skip(f"no image {base}: {fault}")

    build = ["docker", "build", "--quiet", "--network", "host", "--tag", IMAGE, str(ROOT)]
    built = subprocess.run(
        build, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    assert built.returncode == 0, built.stderr
    yield IMAGE
    remove = ["docker", "rmi", "--force", IMAGE]
    subprocess.run(remove, capture_output=True, check=False)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served_aws() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        sqs = client("sqs")
        queue_url = sqs.create_queue(QueueName="orders-dlq")["QueueUrl"]
        for number in range(MESSAGES):
            sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps({"number": number}))
        yield url


def run(
    image: str, *words: str, options: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run ``dlq`` with a root file system that nobody can write to."""
    command = ["docker", "run", "--rm", "--read-only", "--tmpfs=/tmp", "--network=host"]
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        command += ["--env", name]
    return subprocess.run(
        [*command, *options, image, *words], capture_output=True, text=True, check=False
    )


def test_it_runs_as_nobody_in_particular_and_writes_nothing(image: str) -> None:
    answer = run(image, "-c", "id -u; touch /letters/file || true", options=("--entrypoint", "sh"))

    assert answer.stdout == "65532\n"
    assert "Read-only file system" in answer.stderr
    assert run(image, "--version").stdout.startswith("dlq ")


def test_it_has_neither_a_package_installer_nor_spark(image: str) -> None:
    program = "from importlib.util import find_spec; print(find_spec('pip'), find_spec('pyspark'))"
    answer = run(image, "-c", program, options=("--entrypoint", "/opt/dlq/bin/python"))

    assert answer.stdout == "None None\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the container shares this machine's network")
def test_messages_are_seen_and_archived_in_a_folder_of_the_user(
    image: str, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    tmp_path.chmod(0o777)

    look = run(image, "look", "orders-dlq", "--json")
    user = ("--user", "1234:1234", "--volume", f"{tmp_path}:/letters")
    collected = run(image, "collect", "orders-dlq", "--archive", "./letters", options=user)

    assert look.returncode == 0, look.stderr
    assert json.loads(look.stdout)["received"]["messages"] == MESSAGES
    assert collected.returncode == 0, collected.stderr
    assert list((tmp_path / "letters").rglob("*.parquet"))
