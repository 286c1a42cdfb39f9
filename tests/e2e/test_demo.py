"""The demo as its viewer starts it: a program, its last line, its exit code, what it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs_proc
from tests.small_jobs import QUICK_SPARK

ROOT = Path(__file__).resolve().parents[2]
TAG = "DEMO_TEST_RUN"

DROPPING = """
import sys
from demo.__main__ import main

def dropping(handler):
    dropped = []
    def answer(event, context):
        if not dropped:
            dropped.append(event["Records"].pop(0))
            if not event["Records"]:
                return None
        return handler(event, context)
    return answer

sys.exit(main(sys.argv[1:], replay_handler=dropping, with_spark=False))
"""


def start(
    *arguments: str, program: tuple[str, ...] = ("-m", "demo"), tag: str = ""
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
        env={**os.environ, **QUICK_SPARK, TAG: tag},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, dict[str, Any], str]:
    out, err = process.communicate()
    last = out.splitlines()[-1] if out else "{}"
    return process.returncode, json.loads(last) if last.startswith("{") else {}, err


def processes_with(tag: str) -> list[str]:
    """Every process that was started with *tag* in its environment, however far down."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TAG}={tag}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [command for command in found if command]


def test_dropped_message_is_counted_as_lost_and_named(tmp_path: Path) -> None:
    process = start("--messages", "4", "--keep", str(tmp_path / "kept"), program=("-c", DROPPING))

    exit_code, numbers, err = finish(process)

    assert exit_code == 1
    assert numbers["lost"] == 1
    assert "LOST: message" in err


@needs_proc
@pytest.mark.parametrize(
    ("number", "seconds"),
    [(signal.SIGINT, 0.8), (signal.SIGINT, 1.5), (signal.SIGINT, 9.0), (signal.SIGTERM, 5.0)],
)
def test_interrupted_demo_leaves_no_process(number: int, seconds: float, tmp_path: Path) -> None:
    tag = uuid.uuid4().hex
    process = start("--messages", "30", "--keep", str(tmp_path / "kept"), tag=tag)
    time.sleep(seconds)
    assert processes_with(tag)
    process.send_signal(number)

    exit_code, numbers, err = finish(process)

    assert exit_code == 130
    assert numbers == {}
    assert err == "Interrupted: the local queues and Spark are stopped.\n"
    assert processes_with(tag) == []


@needs_proc
def test_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    tag = uuid.uuid4().hex
    process = start("--messages", "30", "--keep", str(tmp_path / "kept"), tag=tag)
    time.sleep(6)
    process.kill()
    process.communicate()

    deadline = time.monotonic() + 20
    while processes_with(tag) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_with(tag) == []


def test_bad_input_ends_with_two_and_a_sentence(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{\n")

    for path, sentence in ((empty, "holds no message"), (tmp_path / "absent", "cannot be read")):
        exit_code, numbers, err = finish(start("--input", str(path)))

        assert exit_code == 2
        assert numbers == {}
        assert sentence in err
        assert "Traceback" not in err
