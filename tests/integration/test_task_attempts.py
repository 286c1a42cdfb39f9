"""Several attempts at one redrive task, at the same time or one after the other.

Spark starts a task again when it was lost, and beside one that is slow when speculation is on. Each
attempt here is what Spark would run, over one ledger on disk and an SQS server over HTTP.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import boto3
import pyarrow as pa
import pytest

from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, SENDING_COLUMNS, to_row
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import CHUNK_MESSAGES
from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.clients import sqs_sender
from spark_reprocess.redrive.editor import CHANGES
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.send_task import TASK, SendTask
from tests.builders import NOW, message, queue_url
from tests.integration.spark_world import receive_all
from tests.ledgers import attempts_of

SEND = "SendMessageBatch"
CHUNKS = 6
MESSAGES = CHUNKS * CHUNK_MESSAGES
GROUPS = 7

PLAN: list["pa.Field[Any]"] = [
    *(pa.field(name, pa.string()) for name in ("group_id", "disposition", "unit")),
    *(pa.field(name, pa.int64()) for name in ("chunk", "place")),
    pa.field(CHANGES, pa.null()),
    pa.field(TASK, pa.int32()),
]
COPY = (*SENDING_COLUMNS, "error_type")
SCHEMA = pa.schema([*(ARROW_SCHEMA.field(name) for name in COPY), *PLAN])


@dataclass
class Stage:
    """One task of a run, and what comes of its attempts."""

    world: RunningServer
    archive: Archive
    destination: SqsQueue
    messages: Sequence[Message]
    context: RunContext
    executor: ThreadPoolExecutor

    def attempt(self) -> "Future[Counter[str]]":
        """Start one attempt, beside those that are under way; answers with its tally."""
        return self.executor.submit(self._run)

    def _run(self) -> Counter[str]:
        task = SendTask(self.archive, self.context, sqs_sender, "progress")
        (tally,) = task.run(self._batches())
        return Counter({row["word"]: row["count"] for row in tally.to_pylist()})

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, MESSAGES, CHUNK_MESSAGES):
            chunk = self.messages[start : start + CHUNK_MESSAGES]
            rows = [
                {
                    **to_row(one, queue_url("parked"), datetime.fromtimestamp(NOW, UTC)),
                    "group_id": "g",
                    "disposition": "send",
                    "unit": "u",
                    "chunk": start // CHUNK_MESSAGES + 1,
                    "place": place,
                    CHANGES: None,
                    TASK: 0,
                }
                for place, one in enumerate(chunk)
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def meet(self, effect: Effect, **fields: Any) -> None:
        self.world.front.faults.add(Fault(effect, SEND, **fields))

    def arrived(self) -> list[str]:
        return [one.body for one in receive_all(self.destination)]

    def in_doubt(self) -> set[str]:
        """Bodies of messages that the ledger cannot vouch for."""
        found: set[str] = set()
        for attempt in attempts_of(self.archive, self.context.plan_id):
            sure = {
                r.message_id for r in attempt.results or () if r.outcome is not Disposition.IN_DOUBT
            }
            found |= set(attempt.claim.message_ids) - sure
        return {one.body for one in self.messages if one.message_id in found}


@pytest.fixture(params=["main", "main.fifo"])
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    name: str = request.param
    fifo: Any = {"Attributes": {"FifoQueue": "true"}} if name.endswith("fifo") else {}
    with serve_in_thread(latency_ms=2) as world, ThreadPoolExecutor(4) as executor:
        monkeypatch.setenv("AWS_ENDPOINT_URL", world.url)
        client = boto3.client("sqs")
        queue = SqsQueue(client, client.create_queue(QueueName=name, **fifo)["QueueUrl"])
        options = RedriveOptions(str(tmp_path))
        context = RunContext(options, "p-1", queue.url, to_fifo=bool(fifo))
        groups: list[dict[str, Any]] = [
            {"MessageGroupId": f"g-{n}"} if fifo else {} for n in range(GROUPS)
        ]
        messages = [message(f"m-{n}", json.dumps(n), **groups[n % GROUPS]) for n in range(MESSAGES)]
        archive = open_archive(str(tmp_path))
        yield Stage(world, archive, queue, messages, context, executor)


def assert_in_order(bodies: Sequence[str]) -> None:
    """Messages of a group arrive in the plan's order, whatever attempts they came by."""
    numbers = [json.loads(body) for body in bodies]
    for group in range(GROUPS):
        of_group = [n for n in numbers if n % GROUPS == group]
        assert of_group == sorted(of_group)


def test_attempts_at_the_same_time_send_nothing_twice(stage: Stage) -> None:
    stage.meet(Effect.DELAY, probability=0.2, seed=1, seconds=0.02)

    tallies = [one.result() for one in [stage.attempt() for _ in range(3)]]
    last = stage.attempt().result()

    arrived = stage.arrived()
    assert last == {"sent": MESSAGES}
    assert Counter(arrived) == Counter(one.body for one in stage.messages)
    assert all(tally.keys() <= {"sent", "busy", "waits"} for tally in tallies)
    if stage.context.to_fifo:
        assert_in_order(arrived)


def test_attempt_beside_one_that_hangs_in_a_call_leaves_its_chunk_alone(stage: Stage) -> None:
    is_stuck, may_go_on = Event(), Event()

    def hang() -> None:
        is_stuck.set()
        may_go_on.wait(300)

    stage.meet(Effect.CALL, nth=15, callback=hang)
    slow = stage.attempt()
    assert is_stuck.wait(300)
    quick = stage.attempt().result()
    may_go_on.set()
    told = slow.result()
    last = stage.attempt().result()

    arrived = stage.arrived()
    assert quick["busy"] == CHUNK_MESSAGES
    assert told["busy"] + told["sent"] + told["waits"] == MESSAGES
    assert last == {"sent": MESSAGES}
    assert Counter(arrived) == Counter(one.body for one in stage.messages)
    if stage.context.to_fifo:
        assert_in_order(arrived)


def test_attempt_after_one_that_died_leaves_one_chunk_in_doubt(stage: Stage) -> None:
    """A killed worker leaves a claim without a result, however many calls it had made."""
    whole, stage.archive = stage.archive, DyingArchive(stage.archive.root, "chunk-00003")
    with pytest.raises(DiedError):
        stage.attempt().result()
    stage.archive = whole

    again = stage.attempt().result()

    arrived, in_doubt = stage.arrived(), stage.in_doubt()
    third = {one.body for one in stage.messages[2 * CHUNK_MESSAGES : 3 * CHUNK_MESSAGES]}
    behind = {one.body for one in stage.messages[3 * CHUNK_MESSAGES :]}
    assert in_doubt == third
    assert Counter(arrived) == Counter(dict.fromkeys(arrived, 1))
    if stage.context.to_fifo:
        assert again == {"sent": 2 * CHUNK_MESSAGES, "busy": len(third), "waits": len(behind)}
        assert behind.isdisjoint(arrived)
    else:
        assert again == {"sent": MESSAGES - len(third), "busy": len(third)}
        assert behind <= set(arrived)


class DiedError(BaseException):
    """The worker is gone."""


@dataclass(frozen=True)
class DyingArchive(LocalArchive):
    """Its worker dies when all of one chunk is sent and nothing of it is written down."""

    chunk: str

    def write(self, path: str, content: bytes) -> None:
        if self.chunk in path:
            raise DiedError
        super().write(path, content)
