"""The build of ``sam build``, run as Lambda runs it, in a container."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from demo.sam_local import EVENTS, architecture, event_names, reachable_server, try_event
from tests.support.containers import missing_engine, missing_image
from tests.support.golden import stored_texts
from tests.support.needs import needs_build

pytestmark = needs_build

IMAGE = f"public.ecr.aws/lambda/python:3.13-{architecture()}"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if fault := missing_engine():
        pytest.skip(f"no Docker engine could be started: {fault}")
    if fault := missing_image(IMAGE):
        pytest.skip(f"no image {IMAGE}: {fault}")
    with reachable_server() as url:
        yield url


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
