"""What ``sam build`` made, run as Lambda runs it, in a container."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from demo import ROOT
from demo.sam_local import EVENTS, architecture, event_names, reachable_server, try_event
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, ReplayContext
from dlq_replay.wire.history import REPLAY_COUNT_ATTRIBUTE
from tests.support.needs import needs_build

pytestmark = needs_build

IMAGE = f"public.ecr.aws/lambda/python:3.13-{architecture()}"
PULL_SECONDS = 240

# Where each record of each event goes, in the order of the event.
DESTINATIONS = {
    "standard": ["main", "main", "main"],
    "fifo": ["main", "main", "main"],
    "pipe": ["main", "main"],
    "binary-attribute": ["main"],
    "exhausted": ["parked"],
    "foreign-source": ["parked"],
    "malformed": ["parked", "main", "main", "left", "main", "main"],
}
REASONS = {
    "exhausted": {"attempts_exhausted"},
    "foreign-source": {"foreign_source"},
    "malformed": {"invalid_counter"},
}


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


def own(record: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the producer's own."""
    return {
        name: (one["dataType"], one.get("stringValue") or one["binaryValue"])
        for name, one in record.get("messageAttributes", {}).items()
        if name not in (REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE)
    }


def test_every_event_is_tried() -> None:
    assert sorted(DESTINATIONS) == event_names()


@pytest.mark.parametrize("name", sorted(DESTINATIONS))
def test_event(name: str, server: str) -> None:
    answer, arrivals = try_event(name, server)

    dispositions = list(zip(records(name), DESTINATIONS[name], strict=True))
    left = [{"itemIdentifier": record["messageId"]} for record, to in dispositions if to == "left"]
    assert answer == {"batchItemFailures": left}
    for queue in ("main", "dlq", "parked"):
        expected = [record for record, to in dispositions if to == queue]
        found = arrivals[queue]
        assert Counter(one["body"] for one in found) == Counter(one["body"] for one in expected)
        by_body = {one["body"]: own(one) for one in expected}
        assert all(own(one) == by_body[one["body"]] for one in found)
    contexts = [one["messageAttributes"][CONTEXT_ATTRIBUTE] for one in arrivals["parked"]]
    reasons = {ReplayContext.from_json(context["stringValue"]).reason for context in contexts}
    assert reasons == REASONS.get(name, set())
