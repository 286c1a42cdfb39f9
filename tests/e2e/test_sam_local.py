"""The build of ``sam build``, run as Lambda runs it, in a container."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from demo import ROOT
from demo.sam_local import EVENTS, architecture, event_names, reachable_server, try_event
from tests.support.golden import stored_texts
from tests.support.needs import needs_build

pytestmark = needs_build

IMAGE = f"public.ecr.aws/lambda/python:3.13-{architecture()}"
PULL_SECONDS = 240


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    ensure = str(ROOT / "scripts" / "ensure-docker.sh")
    started = subprocess.run([ensure], capture_output=True, text=True, check=False)
    if started.returncode:
        pytest.skip(f"no Docker engine could be started: {started.stderr}")
    if fault := missing_image():
        pytest.skip(f"no image {IMAGE}: {fault}")
    with reachable_server() as url:
        yield url


def missing_image() -> str:
    """Why the image of Lambda's runtime is not here and cannot be pulled; empty if it is here."""
    inspect, pull = (["docker", *words, IMAGE] for words in (("image", "inspect"), ("pull", "-q")))
    if subprocess.run(inspect, capture_output=True, check=False).returncode == 0:
        return ""
    try:
        pulled = subprocess.run(
            pull, capture_output=True, text=True, timeout=PULL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not pulled within {PULL_SECONDS} s"
    return pulled.stderr.strip() if pulled.returncode else ""


def records(name: str) -> list[Mapping[str, Any]]:
    event = json.loads((EVENTS / f"{name}.json").read_text("utf-8"))
    return event if isinstance(event, list) else event["Records"]


@pytest.mark.parametrize("name", event_names())
def test_event(name: str, server: str) -> None:
    """The outcome of each record is tested without a container: ``golden/handled.txt``."""
    answer, arrivals = try_event(name, server)

    stored = stored_texts("handled")[f"{name}.json"].splitlines()[0]
    assert f"answer {json.dumps(answer)}" == stored
    left = len(answer["batchItemFailures"])
    assert left + sum(map(len, arrivals.values())) == len(records(name))
