"""``dlq rehearse --image`` in a real container engine, with Lambda's own base image."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import ROOT
from demo.sam_local.engines import architecture
from dlq_cli.__main__ import main
from spark_reprocess.archive.rehearsals import newest_rehearsal, read_verdicts
from tests.rehearsals import archived, order, plan_of

BASE = f"public.ecr.aws/lambda/python:3.13-{architecture()}"
IMAGE = "dlq-rehearsal-test"

APP = """
import json
import socket

import boto3

table = boto3.client("dynamodb")

def lambda_handler(event, context):
    [record] = event["Records"]
    body = json.loads(record["body"])
    if body["id"] == 2:
        socket.create_connection(("172.17.0.1", 9), 2)
    if body["id"] == 3:
        table.get_item(TableName="rates", Key={"id": {"S": "3"}})
    body["vat"]
    table.put_item(TableName="orders", Item={"id": {"N": str(body["id"])}})
"""


def docker(*words: str) -> bool:
    """Run the engine; return whether it did what it was told."""
    command = ["docker", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """Build the consumer's image on Lambda's."""
    started = subprocess.run([str(ROOT / "scripts" / "ensure-docker.sh")], check=False)
    if started.returncode:
        pytest.skip("no Docker engine could be started")
    if not docker("image", "inspect", BASE):
        pytest.skip(f"no image {BASE}")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nCOPY app.py /var/task/app.py\n")
    assert docker("build", "--quiet", "--tag", IMAGE, str(tmp_path))
    yield IMAGE
    docker("rmi", "--force", IMAGE)


def test_each_message_gets_its_verdict_in_a_container(tmp_path: Path, image: str) -> None:
    archive = archived(tmp_path / "kept", [order(n, vat=n != 1) for n in range(4)])
    plan = plan_of(archive)
    (group,) = plan.groups
    words = ("--archive", archive.root, "--group", group.group_id, "--image", image)

    assert main(["rehearse", *words, "--handler", "app.lambda_handler"]) == 1

    rehearsal = newest_rehearsal(archive, plan.plan_id, group.group_id)
    assert rehearsal is not None
    assert rehearsal.is_isolated
    assert rehearsal.recorded == {"dynamodb:PutItem": 1}
    found = read_verdicts(archive, rehearsal).to_pylist()
    assert [(one["message_id"], one["verdict"], one["reason"]) for one in found] == [
        ("m-000", "pass", ""),
        ("m-001", "fail", "KeyError: 'vat'"),
        ("m-002", "unknown", "network: 172.17.0.1:9 is not reachable in a rehearsal"),
        ("m-003", "unknown", "dynamodb:GetItem is not stubbed"),
    ]
