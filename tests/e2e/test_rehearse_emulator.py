"""``dlq rehearse`` against the emulator that is in every Lambda base image."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dlq.cli.command import main
from tests.support.needs import EMULATORS, needs_emulator
from tests.support.parked_orders import archived, order, plan_of

APP = """
import json, os, time

def handler(event, context):
    (record,) = event["Records"]
    what = json.loads(record["body"])["id"]
    if what == 0:
        return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    if what == 1:
        raise KeyError("vat")
    if what == 2:
        time.sleep(60)
    if what == 3:
        os._exit(3)
"""


@needs_emulator
def test_verdicts_of_the_emulator_in_lambda_s_base_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    archive = archived(tmp_path, [order(number) for number in range(5)])
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port, api_port = (server.getsockname()[1] for server in (first, other))
    command = [
        str(EMULATORS[0]),
        "--runtime-interface-emulator-address",
        f"127.0.0.1:{port}",
        "--runtime-api-address",
        f"127.0.0.1:{api_port}",
        sys.executable,
        "-m",
        "awslambdaric",
        "app.handler",
    ]
    (group,) = plan_of(archive).groups
    words = ["rehearse", group.group_id, "--archive", archive.root, "--function", "function"]
    words += ["--endpoint", f"http://127.0.0.1:{port}", "--json"]
    settings = {"AWS_LAMBDA_FUNCTION_TIMEOUT": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=settings) as emulator:
        try:
            while main(words) == 2:  # it is not up yet
                assert "Could not connect" in capsys.readouterr().err
        finally:
            emulator.kill()

    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert {(outcome["error_type"], *outcome["examples"]) for outcome in outcomes} == {
        ("batchItemFailures", "m-000"),
        ("KeyError", "m-001"),
        ("Timeout", "m-002"),
        ("ProcessEnded", "m-003"),
        ("", "m-004"),
    }
