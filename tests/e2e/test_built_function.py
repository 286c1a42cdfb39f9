"""The artefact that ``sam build`` made, as Lambda would import it: nothing else on the path."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from dlq_replay.message import Message, SendEntry
from dlq_replay.sqs import SqsQueue
from local_sqs.server import RunningServer, serve_in_thread
from tests.builders import environment, lambda_record
from tests.needs import needs_build

BUILD = Path(__file__).parents[2] / ".aws-sam" / "build"

pytestmark = needs_build

# boto3 and botocore are the runtime's own on Lambda; here they come from this environment, and
# stand behind the layer on the path, as they do there.
INVOKE = """
import json, sys
import handler, dlq_replay, aws_lambda_powertools

class Context:
    def get_remaining_time_in_millis(self):
        return 30_000

answer = handler.lambda_handler(json.load(sys.stdin), Context())
print(json.dumps([answer, dlq_replay.__file__, aws_lambda_powertools.__file__]))
"""


@pytest.fixture
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as served:
        yield served


def test_built_function_replays_a_dead_letter(world: RunningServer, tmp_path: Path) -> None:
    client = boto3.client("sqs", endpoint_url=world.url)
    main, dlq, parked = (
        SqsQueue(client, client.create_queue(QueueName=name)["QueueUrl"])
        for name in ("main", "dlq", "parked")
    )
    dlq.send([SendEntry('{"order": 1}')])
    (letter,) = dlq.receive(wait_seconds=1)
    assert isinstance(letter, Message)
    layer = BUILD / "CoreLayer" / "python"
    variables = environment(
        MAIN_QUEUE_URL=main.url,
        DLQ_URL=dlq.url,
        PARKED_QUEUE_URL=parked.url,
        BACKOFF_CAP_SECONDS="0",
        AWS_ENDPOINT_URL=world.url,
        PYTHONPATH=os.pathsep.join([str(BUILD / "ReplayFunction"), str(layer)]),
    )
    finished = subprocess.run(
        [sys.executable, "-c", INVOKE],
        cwd=tmp_path,
        env={**os.environ, **variables},
        input=json.dumps({"Records": [lambda_record(letter)]}),
        capture_output=True,
        text=True,
        check=True,
    )

    answer, core, powertools = json.loads(finished.stdout.splitlines()[-1])
    (copy,) = main.receive(wait_seconds=1)
    assert answer == {"batchItemFailures": []}
    assert Path(core).is_relative_to(layer)
    assert Path(powertools).is_relative_to(layer)
    assert isinstance(copy, Message)
    assert copy.body == '{"order": 1}'
