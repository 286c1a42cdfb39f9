"""The verb ``drain``: tasks of an engine move a parked queue's messages into the archive."""

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from dlq.archive.messages.message_store import (
    FILE_MESSAGES,
    rows_written,
    write_messages,
)
from dlq.archive.storage.files import Archive, ArchiveProof, begin_archive, new_id
from dlq.aws.clients import (
    CONCURRENT_CALLS,
    ClientFactory,
    QueueCounts,
    queue_counts,
    require_queue,
    require_queue_url,
    sqs_client,
)
from dlq.drain.drain_task import DrainCounts, DrainRules, DrainTask
from dlq.engine import STOPPED, Engine, Work
from dlq.errors import ArchiveError, InputError
from dlq.progress import Progress, ProgressLine, silent
from dlq_replay.aws.sqs import SqsQueue

IN_FLIGHT_MESSAGES = 60_000
"""Half of SQS's quota of messages in flight per queue (SQS Developer Guide, message quotas): each
task holds two chunks, the one that it receives and the one that it deletes."""

_MOST_TASKS = IN_FLIGHT_MESSAGES // FILE_MESSAGES

_PROOFS = "proofs"
"""The folder of these proofs. What a killed driver left there is not read."""

_COUNT_TYPES: dict[str, pa.DataType] = {
    "received": pa.int64(),
    "archived": pa.int64(),
    "deleted": pa.int64(),
    "not_deleted": pa.int64(),
    "unreadable": pa.int64(),
    "tests": pa.int64(),
    "faults": pa.list_(pa.string()),
    "stopped_by": pa.string(),
}
_COUNTS = pa.schema(_COUNT_TYPES)
"""The row that a task yields: its ``DrainCounts``."""

_NUMBERS = ("received", "archived", "deleted", "not_deleted", "unreadable", "tests")
"""The columns of ``_COUNTS`` that are added up."""


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Options of a drain: the arguments of ``collect``, see its help.

    Attributes:
        tasks: loops in parallel; None for one for each full file of what SQS counts, 1 to 30 and,
            on one machine, no more than cores. A FIFO queue gets one, so that its order is kept.
        limit: messages to take in total, at least 1; None for all. A task that Spark starts again
            takes its whole share again.
        time_budget_seconds: when to stop receiving; received messages are still written and
            deleted.
    """

    parked_queue_url: str
    tasks: int | None = None
    limit: int | None = None
    time_budget_seconds: float | None = None
    wait_seconds: int = 1


@dataclass(frozen=True, slots=True)
class DrainSummary:
    """Result of all tasks; the counts are those of ``DrainCounts``.

    Attributes:
        rest: SQS's counts of the queue afterwards; None if SQS did not answer.
        tests: test messages of ``dlq doctor``.
    """

    drain_id: str
    archive: str
    seconds: float
    received: int
    archived: int
    deleted: int
    not_deleted: int
    unreadable: int
    faults: tuple[str, ...]
    stopped_by: tuple[str, ...]
    rest: QueueCounts | None = None
    tests: int = 0


def drain(
    engine: Engine,
    archive: Archive,
    request: DrainRequest,
    *,
    make_client: ClientFactory = sqs_client,
    progress: Progress = silent,
) -> DrainSummary:
    """Move the queue's messages into the archive. Each is written durably before it is deleted.

    A task that does not see the driver's archive receives nothing and says so in ``stopped_by``.
    A drain that is killed leaves duplicate rows at worst, which every read removes.

    Raises:
        InputError, ArchiveError: the queue or the archive cannot be used as given. Nothing was
            received.
    """
    address = require_queue_url("--parked-queue-url", request.parked_queue_url)
    at_start = require_queue("--parked-queue-url", request.parked_queue_url, make_client).counts
    begin_archive(archive)
    started = time.time()
    drain_id = new_id(started)

    waiting = at_start.visible + at_start.delayed
    expected = waiting if request.limit is None else min(waiting, request.limit)
    rules = rules_by_task(request, expected, most_tasks(engine), started, is_fifo=address.is_fifo)

    proof = ArchiveProof(f"{_PROOFS}/{drain_id}", secrets.token_hex(16).encode())
    archive.write(proof.path, proof.content)
    with ExitStack() as stack:
        stack.callback(archive.discard, proof.path)
        work = DrainWork(
            archive=archive,
            proof=proof,
            drain_id=drain_id,
            queue_url=request.parked_queue_url,
            rules=rules,
            make_client=make_client,
        )
        progress_line = ProgressLine(expected)
        with progress("draining", lambda: progress_line.text(rows_written(archive, drain_id))):
            tasks = [pa.table({"task": [number]}) for number in range(len(rules))]
            counts = engine.run(Work(tasks, work.run, _COUNTS)).to_pylist()

    seconds = time.time() - started
    queue = SqsQueue(make_client(request.parked_queue_url), request.parked_queue_url)
    return _summary(drain_id, archive, seconds, counts, queue_counts(queue))


def drain_each(
    engine: Engine,
    archive: Archive,
    urls: Sequence[str],
    request: DrainRequest,
    *,
    make_client: ClientFactory = sqs_client,
    progress: Progress = silent,
) -> tuple[DrainSummary, ...]:
    """Drain one queue after the other, as the *request* says for each.

    The limit is that of all together, and each queue has an equal share of the time budget. Of
    several queues one that cannot be used as given does not keep the others from being drained: its
    summary says so in ``stopped_by``.

    Raises:
        InputError: there is only one queue, and it cannot be used as given. Nothing was received.
        ArchiveError: the archive cannot be used.
    """
    summaries: list[DrainSummary] = []
    share_seconds = request.time_budget_seconds
    if share_seconds is not None:
        share_seconds /= len(urls)

    left = request.limit
    for url in urls:
        if left == 0:
            break
        wanted = replace(
            request, parked_queue_url=url, limit=left, time_budget_seconds=share_seconds
        )
        try:
            summary = drain(engine, archive, wanted, make_client=make_client, progress=progress)
        except InputError as error:
            if len(urls) == 1:
                raise
            stopped = {"faults": [], "stopped_by": str(error), **dict.fromkeys(_NUMBERS, 0)}
            summary = _summary("", archive, 0, [stopped], None)
        summaries.append(summary)
        if left is not None:
            left = max(0, left - summary.received)
    return tuple(summaries)


def _summary(
    drain_id: str,
    archive: Archive,
    seconds: float,
    counts_of_tasks: Iterable[Mapping[str, Any]],
    rest: QueueCounts | None,
) -> DrainSummary:
    """Add up the counts of all tasks, which are rows of ``_COUNTS``."""
    totals = Counter[str]()
    faults: list[str] = []
    causes: set[str] = set()
    for counts in counts_of_tasks:
        faults += counts["faults"]
        if counts["stopped_by"]:
            causes.add(counts["stopped_by"])
        for name in _NUMBERS:
            totals[name] += counts[name]

    return DrainSummary(
        drain_id=drain_id,
        archive=archive.root,
        seconds=seconds,
        received=totals["received"],
        archived=totals["archived"],
        deleted=totals["deleted"],
        not_deleted=totals["not_deleted"],
        unreadable=totals["unreadable"],
        faults=tuple(faults),
        stopped_by=tuple(sorted(causes)),
        rest=rest,
        tests=totals["tests"],
    )


@dataclass(frozen=True, slots=True)
class DrainWork:
    """Runs the tasks of one drain; an engine calls ``run``."""

    archive: Archive
    proof: ArchiveProof
    drain_id: str
    queue_url: str
    rules: tuple[DrainRules, ...]
    make_client: ClientFactory

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of each number in *batches*; yield its counts."""
        for batch in batches:
            counts = [asdict(self._run_task(row["task"])) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(counts, schema=_COUNTS)

    def _run_task(self, index: int) -> DrainCounts:
        try:
            # In this order: the check for a writable folder creates the folder.
            self.proof.check(self.archive)
            self.archive.check_writable()
        except ArchiveError as error:
            return DrainCounts(stopped_by=str(error))
        queue = SqsQueue(self.make_client(self.queue_url), self.queue_url)

        def count_visible() -> int | None:
            counts = queue_counts(queue)
            return counts.visible if counts else None

        if index and count_visible() == 0:
            # It started when the others had emptied the queue: not each finds that out by polling.
            return DrainCounts()
        with ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="drain") as executor:
            return DrainTask(
                queue=queue,
                write=partial(write_messages, self.archive, self.drain_id, index),
                rules=self.rules[index],
                executor=executor,
                count_visible=count_visible,
                is_stopped=STOPPED.get(),
            ).run()


def most_tasks(engine: Engine) -> int:
    """Return how many tasks are useful at most.

    On one machine those that begin when others have ended find nothing left. A cluster may grow.
    """
    return _MOST_TASKS if engine.may_grow else engine.slots


def rules_by_task(
    request: DrainRequest, expected: int, slots: int, started: float, *, is_fifo: bool
) -> tuple[DrainRules, ...]:
    """Return the rules of each task; about *expected* messages are in the queue."""
    if is_fifo:
        tasks = 1
    elif request.tasks:
        tasks = request.tasks
    else:
        most = min(slots, _MOST_TASKS)
        tasks = max(1, min(most, expected // FILE_MESSAGES))

    budget_seconds = request.time_budget_seconds
    rules = DrainRules(
        is_fifo=is_fifo,
        wait_seconds=request.wait_seconds,
        chunk_messages=max(1, min(FILE_MESSAGES, IN_FLIGHT_MESSAGES // tasks)),
        receives=1 if is_fifo else CONCURRENT_CALLS // 2,
        until_seconds=None if budget_seconds is None else started + budget_seconds,
    )
    if request.limit is None:
        return (rules,) * tasks

    # The first tasks take one message more where the limit cannot be divided evenly.
    share, rest = divmod(request.limit, tasks)
    larger = replace(rules, limit=share + 1)
    smaller = replace(rules, limit=share)
    return (larger,) * rest + (smaller,) * (tasks - rest)
