"""An image runs in a container engine. Here a program stands in for it: it starts the container's
command in a network namespace, with the variables of an image.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from dlq_cli.__main__ import main
from spark_reprocess.archive.rehearsals import newest_rehearsal
from tests.needs import needs_namespaces
from tests.rehearsals import DRAIN_ID, archived, order, plan_of, write_app

pytestmark = needs_namespaces

ENGINE = """\
#!{python}
import json, os, sys

words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
if words[:2] == ["image", "inspect"]:
    print("sha256:0123")
    sys.exit()
image = words.index("orders:fix")
assert words[image - 1] == "python3"
environment = {{"PATH": os.environ["PATH"], "LAMBDA_TASK_ROOT": {task!r}, "OF_IMAGE": "yes"}}
network = ["unshare", "--map-root-user", "--net"] if "none" in words else []
os.chdir({task!r})
command = [*network, "sh", "-c", 'ip link set lo up; exec "$@"', "sh", {python!r}]
os.execvpe(command[0], [*command, *words[image + 1:]], environment)
"""


def test_image_runs_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, [order(1), order(2)])
    plan = plan_of(archive)
    code = write_app(
        tmp_path,
        """
        import os, socket
        import boto3

        def lambda_handler(event, context):
            assert os.environ["OF_IMAGE"] == "yes"
            assert os.environ["TABLE"] == "orders"
            boto3.client("sqs").send_message(QueueUrl="https://sqs/1/q", MessageBody="x")
            if event["Records"][0]["messageId"] == "m-002":
                socket.socket().connect_ex(("192.0.2.1", 80))
        """,
    )
    log = tmp_path / "engine.log"
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(ENGINE.format(python=sys.executable, log=str(log), task=str(code)))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    group_id = plan.groups[0].group_id
    words = ["--archive", archive.root, "--group", group_id, "--handler", "app.lambda_handler"]

    assert main(["rehearse", *words, "--image", "orders:fix", "--env", "TABLE=orders"]) == 1

    said = capsys.readouterr().out
    assert "2 messages: 1 would pass, 1 unknown (network: 192.0.2.1:80 is not reachable" in said
    rehearsal = newest_rehearsal(archive, plan.plan_id, group_id)
    assert rehearsal is not None
    assert rehearsal.code == "image sha256:0123"
    run = json.loads(log.read_text().splitlines()[0])
    assert run[run.index("--network") + 1] == "none"
    assert DRAIN_ID not in str(run)


def test_container_with_a_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, [order(1)])
    plan = plan_of(archive)
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    text = ENGINE.format(python=sys.executable, log=str(tmp_path / "log"), task=str(tmp_path))
    # As a container whose engine ignores the option: there is a way out.
    with_route = 'ip link set lo up; ip route add default dev lo; exec "$@"'
    engine.write_text(text.replace('ip link set lo up; exec "$@"', with_route))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    words = ["--group", plan.groups[0].group_id, "--handler", "app.lambda_handler"]

    assert main(["rehearse", "--archive", archive.root, *words, "--image", "orders:fix"]) == 2

    assert "the network can still be reached" in capsys.readouterr().err


def test_image_needs_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, [order(1)])
    plan = plan_of(archive)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["--group", plan.groups[0].group_id, "--handler", "app.lambda_handler"]

    assert main(["rehearse", "--archive", archive.root, *words, "--image", "orders:fix"]) == 2

    assert "needs docker or podman" in capsys.readouterr().err
