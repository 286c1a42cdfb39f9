"""The three commands in a row, in a real Spark session: archives on disk and on S3, SQS by HTTP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlq.archive.storage.files import Archive, open_archive
from dlq.cli.running import main
from dlq.engine import Engine
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import OWN, bodies, entry_of, parked, receive_all
from tests.support.small_jobs import DRAIN, QUICK_JVM

COLLECT = ("collect", "--wait-seconds", "0", "--parked-queue-url")


def approve(location: str) -> None:
    folder, _, name = location.rpartition("/")
    reports = open_archive(folder)
    plan = reports.read(name)
    assert plan is not None
    reports.write(name, plan.replace(b"action: leave", b"action: redrive"))


@pytest.mark.on_spark
@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_three_commands_lose_nothing(
    engine: Engine, make_queue: MakeQueue, archive: Archive, capsys: Capture, suffix: str
) -> None:
    source = make_queue(f"parked{suffix}")
    destination = make_queue(f"main{suffix}")
    sent = [parked(number) for number in range(30)]
    for number, entry in enumerate(sent):
        order = {"message_group_id": f"g-{number % 3}", "deduplication_id": f"d-{number}"}
        source.send([entry_of(entry, **(order if suffix else {}))])
    place = ["--archive", archive.root]
    to_main = ["--to-queue-url", destination.url, "--execute", "--reason", "fixed"]

    collected = main([*COLLECT, source.url, *place, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert main(["groups", *place, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan.startswith(f"{archive.root}/reports/")
    approve(plan)
    redriven = main(["redrive", *place, "--plan", plan, *to_main])
    again = main(["redrive", *place, "--plan", plan, *to_main])

    assert (collected, redriven, again) == (0, 0, 0)
    assert (answer["drained"]["archived"], answer["findings"]["messages"]) == (30, 30)
    assert answer["findings"]["plan"] == plan
    assert receive_all(source) == []
    arrived = receive_all(destination)
    assert sorted(bodies(arrived)) == sorted(bodies(sent))
    for group in range(3 if suffix else 0):
        in_group = [message for message in arrived if message.message_group_id == f"g-{group}"]
        assert bodies(in_group) == bodies(sent[group::3])
    for entry in arrived:
        assert {n: a for n, a in entry.attributes.items() if n != CONTEXT_ATTRIBUTE} == OWN
        assert REPLAY_COUNT_ATTRIBUTE not in entry.attributes


@pytest.mark.parametrize("has_messages", [False, True])
def test_a_drain_is_told_whatever_becomes_of_the_analysis(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: Capture, *, has_messages: bool
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(number)) for number in range(3 * has_messages)])

    argv = [*COLLECT, source.url, "--archive", str(tmp_path), "--json"]
    # Spark alone finds that this is no condition.
    assert main([*argv, "--where", "body"]) == 2 * has_messages
    answer = json.loads(capsys.readouterr().out)
    assert (answer["drained"]["archived"], answer["findings"]) == (3 * has_messages, None)


def test_command_line_needs_no_setup(
    sqs_endpoint: str, make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(1))])
    repository = Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    argv = [*DRAIN, "--archive", str(tmp_path), "--parked-queue-url", source.url]

    ended = subprocess.run(
        [sys.executable, "-m", "spark_reprocess", *argv, "--wait-seconds", "0", "--tasks", "1"],
        cwd=repository,
        env={**env, "AWS_ENDPOINT_URL": sqs_endpoint, "SPARK_SUBMIT_OPTS": QUICK_JVM},
        capture_output=True,
        text=True,
        check=False,
    )

    # A slow machine prints progress, also of Spark's start; the last is Java's, of a module.
    expected = ("starting Spark: ", "draining: ", "WARNING: Using incubator modules: ")
    complaints = [line for line in ended.stderr.splitlines() if not line.startswith(expected)]
    assert (ended.returncode, complaints) == (0, [])
    assert ended.stdout.splitlines()[:2] == [
        "received  archived  deleted  not deleted",
        "       1         1        1            0",
    ]
