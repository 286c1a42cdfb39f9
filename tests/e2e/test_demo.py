"""The demo as its viewer starts it: a program, its last line, its exit code, what it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.archive_files import unnamed_files
from tests.support.needs import needs_proc
from tests.support.processes import Family
from tests.support.small_jobs import QUICK_SPARK

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: str, family: Family | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, **QUICK_SPARK, **(family or Family()).environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, dict[str, Any], str]:
    out, err = process.communicate()
    last = out.splitlines()[-1] if out else "{}"
    return process.returncode, json.loads(last) if last.startswith("{") else {}, err


def own_lines() -> Iterator[str]:
    """A user's messages: a few whose letters and digits must not change, and events."""
    amounts = '{"amount": 12345678901234567890123, "share": 1.10, "none": -0.0, "many": 1e999}'
    texts = ("Grüße, 你好, \U0001f389 \u202e", '"\\u00e9\\ud83d"', amounts, '{"a": 1,  "a": 2}\n')
    yield from (json.dumps({"body": body}) for body in texts)
    for number in range(8):
        event = {"action": ("opened", "closed")[number % 2], "number": number}
        yield json.dumps({"body": json.dumps(event)})
    yield json.dumps({"body": "SQS refuses a \0"})


@pytest.mark.parametrize("queue", ["standard", "fifo"])
def test_own_messages_arrive_unchanged(queue: str, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(f"{line}\n" for line in own_lines()), encoding="utf-8")

    process = start("--queue", queue, "--input", str(path), "--keep", str(tmp_path / "kept"))
    exit_code, numbers, err = finish(process)

    assert (exit_code, err) == (0, "")
    assert (numbers["sent"], numbers["processed"]) == (12, 12)
    assert (numbers["lost"], numbers["altered"], numbers.get("out_of_order", 0)) == (0, 0, 0)
    assert 0 < numbers["parked"] == numbers["redriven"]
    assert numbers["replayed"] > 0
    archive = tmp_path / "kept" / "archive"
    assert (archive / "format").exists()
    assert unnamed_files(archive) == []

    # After its end, a shell can type the commands that it showed.
    typed = '. "$0" && dlq groups --archive $ARCHIVE --json && echo "[${AWS_REGION-}]"'
    shell = ["env", "-u", "AWS_REGION", "sh", "-c", typed, str(tmp_path / "kept" / "env")]
    answer = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert '"groups"' in answer
    assert answer.endswith("[]\n")


@needs_proc
@pytest.mark.parametrize(
    ("number", "seconds"),
    [(signal.SIGINT, 0.8), (signal.SIGINT, 9.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 6.0)],
)
def test_ended_demo_leaves_no_process(number: int, seconds: float, tmp_path: Path) -> None:
    family = Family()
    process = start("--messages", "30", "--keep", str(tmp_path / "kept"), family=family)
    time.sleep(seconds)
    assert family.alive()
    process.send_signal(number)

    exit_code, numbers, err = finish(process)

    assert numbers == {}
    if number != signal.SIGKILL:
        assert exit_code == 130
        assert err == "Interrupted: the local queues and Spark end, too.\n"
    # A JVM that is starting ends when it first reads its standard input.
    deadline = time.monotonic() + 20
    while family.alive() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert family.alive() == []
