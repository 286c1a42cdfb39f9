"""The verbs over an archive on S3, read by plain pyspark, which has no file system for it."""

import json
import os
import re
from typing import TYPE_CHECKING

import boto3
import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.message_store import drain_folder
from spark_reprocess.command_line.cli import main
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import DRAIN_ID, bodies, entry_of, parked, receive_all
from tests.small_jobs import ANALYZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def archive(
    moto_endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Archive:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_endpoint)
    bucket = re.sub(r"[^a-z0-9]+", "-", request.node.name)[:63].strip("-")
    region = os.environ["AWS_REGION"]
    boto3.client("s3", region_name=region).create_bucket(Bucket=bucket)
    return open_archive(f"s3://{bucket}/dead letters", creates=True)


def approve(location: str) -> None:
    folder, _, name = location.rpartition("/")
    reports = open_archive(folder)
    plan = reports.read(name)
    assert plan is not None
    reports.write(name, plan.replace(b"action: leave", b"action: redrive"))


def test_three_commands_lose_nothing(
    spark: "SparkSession", make_queue: MakeQueue, archive: Archive, capsys: Capture
) -> None:
    source, destination = make_queue("parked"), make_queue("main")
    sent = [parked(number) for number in range(30)]
    for start in range(0, 30, 10):
        source.send([entry_of(one) for one in sent[start : start + 10]])
    place = ["--archive", archive.root]
    to_main = ["--to-queue-url", destination.url, "--execute", "--reason", "fixed"]

    collected = main(["collect", *place, "--parked-queue-url", source.url, "--wait-seconds", "0"])
    capsys.readouterr()
    assert main(["groups", *place, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan.startswith(f"{archive.root}/reports/")
    approve(plan)
    redriven = main(["redrive", *place, "--plan", plan, *to_main])
    again = main(["redrive", *place, "--plan", plan, *to_main])

    assert (collected, redriven, again) == (0, 0, 0)
    assert receive_all(source) == []
    assert sorted(bodies(receive_all(destination))) == sorted(bodies(sent))


def test_broken_file_is_named_in_a_sentence(
    spark: "SparkSession", archive: Archive, capsys: Capture
) -> None:
    archive.write(f"{drain_folder(DRAIN_ID)}/part.parquet", b"PAR1 but no more")

    assert main([*ANALYZE, "--archive", archive.root]) == 2

    shown = capsys.readouterr().err
    assert f"archive {archive.root}: {drain_folder(DRAIN_ID)}/part.parquet cannot be" in shown
    assert "Traceback" not in shown


def test_plan_that_is_not_there_is_named(
    spark: "SparkSession", archive: Archive, capsys: Capture
) -> None:
    plan = f"{archive.root}/plan.yaml"
    argv = ["redrive", "--archive", archive.root, "--plan", plan, "--to-queue-url", "u"]

    assert main(argv) == 2
    assert f"--plan {plan}: No such file; give the plan.yaml" in capsys.readouterr().err
