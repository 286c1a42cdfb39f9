"""The verb ``look``: what failed in a queue, and why, without moving a message.

``receive_and_give_back`` leaves each message in its queue; ``explain`` then analyzes what was seen
as ``collect`` analyzes an archive, in the memory of this process.
"""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dlq.archive.messages.dead_letter_schema import Row
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_store import (
    FILE_MESSAGES,
    message_files,
    rows_by_file,
    write_messages,
)
from dlq.archive.storage.files import begin_archive, new_id
from dlq.archive.storage.memory import MemoryArchive
from dlq.aws.clients import ClientFactory, DescribedQueue, sqs_sender
from dlq.explain import analyze
from dlq.explain.analyze import AnalysisRequest
from dlq.explain.findings import Findings
from dlq.inspect.export import json_line
from dlq.interrupts import asking_to_stop
from dlq.local_engine import LocalEngine
from dlq.look.receiver import EMPTY_POLLS, End, Handle, LookRules, Receiver, Seen
from dlq.progress import Progress, ProgressLine, silent
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.retry import awake_seconds

MOST_MESSAGES = 10_000
"""Of one look: they are held in memory."""

USUAL_MESSAGES = 1_000


@dataclass(frozen=True, slots=True)
class HiddenMessage:
    """A message that was not given back: SQS shows it again by itself.

    Attributes:
        visible_at: the time until which it may stay hidden, by this machine's clock.
    """

    message_id: str
    visible_at: datetime


@dataclass(frozen=True, slots=True)
class Received:
    """The receives of a look.

    Attributes:
        messages: different messages that were read, without test messages of ``dlq doctor``.
        size_bytes: their bodies and attributes.
        given_back: messages that SQS confirmed as visible again, test messages included.
        hidden: those that it did not confirm.
        faults: why messages could not be read. Each stays hidden for ``HIDDEN_SECONDS``.
        end: why the receives ended.
        error: SQS's refusal that ended them; empty otherwise.
    """

    messages: int
    size_bytes: int
    tests: int
    given_back: int
    hidden: tuple[HiddenMessage, ...]
    faults: tuple[str, ...]
    end: End
    error: str


def receive_and_give_back(
    queue: DescribedQueue,
    limit: int,
    *,
    make_client: ClientFactory = sqs_sender,
    progress: Progress = silent,
) -> tuple[Received, list[Row]]:
    """Receive up to *limit* messages of a queue, and make each visible again.

    The first Ctrl-C or SIGTERM ends the receives, and what was received is given back; a second one
    ends at once, and messages reappear when their receives time out.

    Args:
        queue: as SQS described it a moment ago.
        limit: 1 to ``MOST_MESSAGES``.
        make_client: its clients must try each call once, see ``Receiver``.
        progress: shows how many were received.
    """
    waiting = min(queue.counts.visible, limit)
    progress_line = ProgressLine(waiting)
    stopped = threading.Event()
    rules = LookRules(limit, queue.is_fifo, queue.max_receive_count)
    with ThreadPoolExecutor(EMPTY_POLLS, thread_name_prefix="look") as executor:
        receiver = Receiver(
            queue=SqsQueue(make_client(queue.url), queue.url, tries_once=True),
            rules=rules,
            executor=executor,
            clock_seconds=awake_seconds,
            now_seconds=time.time,
            sleep=time.sleep,
            is_stopped=stopped.is_set,
        )
        shown = progress("receiving", lambda: progress_line.text(len(receiver.seen.rows)))
        with asking_to_stop(stopped.set), shown:
            seen = receiver.run()
    return _received(seen, time.time() - awake_seconds()), list(seen.rows.values())


def _received(seen: Seen, epoch_of_clock_seconds: float) -> Received:
    """Return the counts; *epoch_of_clock_seconds* is the time of day at which the clock was 0."""

    def named(handle: Handle) -> HiddenMessage:
        seconds = epoch_of_clock_seconds + handle.hidden_until_seconds
        return HiddenMessage(handle.message_id, datetime.fromtimestamp(seconds, UTC))

    return Received(
        messages=len(seen.rows),
        size_bytes=seen.size_bytes,
        tests=seen.tests,
        given_back=len(seen.handles) - len(seen.hidden),
        hidden=tuple(map(named, seen.hidden)),
        faults=tuple(seen.faults),
        end=seen.end or End.EMPTY,
        error=seen.error,
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """The analysis of what a look saw.

    Attributes:
        archive: the messages, in memory.
    """

    findings: Findings
    archive: MemoryArchive

    def lines(self) -> Iterator[str]:
        """Yield each message as a line of JSON, see ``json_line``."""
        groups = read_table_columns(self.archive, self.findings.plan_id, ("message_id", "group_id"))
        group_of = {row["message_id"]: row["group_id"] for row in groups.to_pylist()}
        for _, rows in rows_by_file(self.archive, message_files(self.archive)):
            for row in rows.to_pylist():
                yield json_line(row, group_of[row["message_id"]])


def explain(
    queues: Sequence[DescribedQueue],
    rows: Sequence[Row],
    request: AnalysisRequest,
    *,
    progress: Progress = silent,
) -> Explained:
    """Analyze messages that looks saw in *queues*, at least one message.

    Groups with messages of a FIFO queue have no arrivals and no trend: a look sees the first of
    each message group.

    Raises:
        InputError: a mask is wrong, or logs cannot be read.
    """
    archive = MemoryArchive("a look")
    begin_archive(archive)
    look_id = new_id(time.time())
    for start in range(0, len(rows), FILE_MESSAGES):
        write_messages(archive, look_id, 0, list(rows[start : start + FILE_MESSAGES]))
    findings = analyze.explain(LocalEngine(), archive, request, progress=progress)

    fifo_urls = {queue.url for queue in queues if queue.is_fifo}
    fifo_ids = {row["message_id"] for row in rows if row["queue_url"] in fifo_urls}
    if fifo_ids:
        findings = _without_arrivals(findings, _groups_of(archive, findings, fifo_ids))
    names = " and ".join(queue.name for queue in queues)
    return Explained(replace(findings, archive="", queue=names), archive)


def _groups_of(
    archive: MemoryArchive, findings: Findings, message_ids: Collection[str]
) -> set[str]:
    """Return the ids of the groups that have one of these messages."""
    table = read_table_columns(archive, findings.plan_id, ("message_id", "group_id"))
    return {row["group_id"] for row in table.to_pylist() if row["message_id"] in message_ids}


def _without_arrivals(findings: Findings, group_ids: Collection[str]) -> Findings:
    """Remove the arrivals and the trend of some groups; the chart, too, if no others are left."""
    if len(group_ids) == len(findings.groups):
        groups = [replace(group, arrivals=(), trend="") for group in findings.groups]
        return replace(findings, groups=tuple(groups), bucket_starts=())

    groups = []
    for group in findings.groups:
        if group.group_id in group_ids:
            # The chart of the others has a number for each bucket.
            group = replace(group, arrivals=(0,) * len(group.arrivals), trend="")  # noqa: PLW2901
        groups.append(group)
    return replace(findings, groups=tuple(groups))
