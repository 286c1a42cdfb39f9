"""Archives and clients for the tests of verbs; importable by Spark's workers."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.aws.clients import ClientFactory, sqs_sender
from dlq.engine import Engine
from dlq.explain.analyze import AnalysisRequest, analyze
from dlq.explain.findings import Findings
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest
from dlq.redrive.send_run import prepare
from dlq.redrive.sending.stop_signals import Clock
from dlq.redrive.summary import RedriveSummary
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message, SendEntry
from tests.support import sqs_driver
from tests.support.approved_plan import approve
from tests.support.builders import NOW, context, counter, message, queue_url, text
from tests.support.ledgers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAIN_ID = "20231121T031502Z-ab12cd"
Spark: TypeAlias = "SparkSession"


def archive_of(
    folder: Path,
    messages: Sequence[Message],
    drain_id: str = DRAIN_ID,
    drained_from: str | None = None,
) -> Archive:
    """An archive as a drain of that parked queue would have left it.

    Without *drained_from*, a queue of the kind that the messages are of: FIFO queues alone number
    them.
    """
    archive = open_archive(str(folder), creates=True)
    is_fifo = any("SequenceNumber" in message.system for message in messages)
    drained_from = drained_from or queue_url("parked.fifo" if is_fifo else "parked")
    drained_at = datetime.fromtimestamp(NOW, UTC)
    rows = [to_row(message, drained_from, drained_at) for message in messages]
    write_messages(archive, drain_id, 0, rows)
    return archive


@dataclass(frozen=True, slots=True)
class LoggedReads(LocalArchive):
    """An archive that appends to the file *log* which paths are read, also by tasks."""

    log: str = ""

    def read(self, path: str) -> bytes | None:
        self._note(path)
        return LocalArchive.read(self, path)

    def open(self, path: str) -> BinaryIO | None:
        self._note(path)
        return LocalArchive.open(self, path)

    def _note(self, path: str) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{path}\n")


receive_all = sqs_driver.receive_all


def bodies(messages: Iterable[Message]) -> list[str]:
    return [message.body for message in messages]


OWN = {
    "own-text": text("grüße"),
    "own-number": text("1.0E2", "Number.float"),
    "own-bytes": MessageAttribute("Binary.png", b"\x00\xff\x89PNG"),
}


def parked(number: int, reason: str = "attempts_exhausted", **fields: Any) -> Message:
    """A parked copy, the odd ones with a recorded error."""
    error = FailureError("TimeoutError", f"order {number} after 3 s") if number % 2 else None
    ours = {**context(first_id=f"first-{number}", reason=reason, error=error), **counter("5")}
    body = json.dumps({"type": "Order", "id": number})
    return message(f"m-{number:03d}", body, {**OWN, **ours}, **fields)


def entry_of(source: Message, **fields: Any) -> SendEntry:
    return SendEntry(source.body, source.attributes, **fields)


def recorded_as_sent(archive: Archive, message_id: str, new_message_id: str = "") -> None:
    """Leave what a run of an earlier plan leaves in the ledger, without Spark."""
    plan_id = f"p-of-{message_id}"
    sent = {message_id: Disposition.SENT}
    settle(archive, plan_id, sent, "run-0", time.time(), new_message_id=new_message_id)


def analyzed(engine: Engine, archive: Archive, **options: Any) -> Findings:
    return analyze(engine, archive, AnalysisRequest(**options))


def counts_of(findings: Findings) -> dict[str, int]:
    """The number of messages of each group."""
    return {group.group_id: group.count for group in findings.groups}


def reported(engine: Engine, archive: Archive, action: str = "redrive") -> str:
    """Analyze; set the action of each group in the plan of the report; return its path."""
    return str(approve(Path(analyzed(engine, archive).plan_path), action))


def executed(
    engine: Engine,
    archive: Archive,
    plan: str,
    url: str,
    make_sender: ClientFactory = sqs_sender,
    now_seconds: Callable[[], float] = time.time,
    **options: Any,
) -> RedriveSummary:
    fixed = {"execute": True, "reason": "it is fixed", "tasks": 2, "ramp": False}
    request = RedriveRequest(plan=plan, to_queue_url=url, **{**fixed, **options})
    run = prepare(archive, request, sql_check=engine.attribute_fault)
    return redrive(engine, run, make_sender=make_sender, clock=Clock(now_seconds))
