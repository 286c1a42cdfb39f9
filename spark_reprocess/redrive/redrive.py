"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze."""

import getpass
import socket
import time
from collections import Counter
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.archive.files import Archive, open_archive, read_text
from spark_reprocess.archive.ledger_states import ledger_states
from spark_reprocess.archive.message_store import new_id
from spark_reprocess.clients import (
    ClientFactory,
    require_queue,
    require_queue_url,
    sqs_client,
    sqs_sender,
)
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.progress import Progress, silent
from spark_reprocess.redrive.chunk_sender import RunFacts
from spark_reprocess.redrive.execution import execute
from spark_reprocess.redrive.plan_messages import (
    first_ids,
    frozen_messages,
    grouped_messages,
    work_rows,
)
from spark_reprocess.redrive.redrive_values import (
    EXAMPLES,
    HINDERED,
    RedriveOptions,
    RedriveSummary,
    Tally,
    summarize,
)
from spark_reprocess.redrive.selection import WORK, limited, number_chunks, with_fates
from spark_reprocess.spark.conditions import explained


def redrive(
    spark: SparkSession,
    options: RedriveOptions,
    *,
    make_sender: ClientFactory = sqs_sender,
    progress: Progress = silent,
) -> RedriveSummary:
    """Say what the plan would do now, and with ``execute`` do it. Safe to repeat at any time.

    Raises:
        InputError: the options, the plan, the archive or the queue do not fit together; the plan's
            faults are all named. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    options.check()
    archive = open_archive(options.archive)
    plan = read_plan(_read_file(options.plan))
    queue = require_queue("--to-queue-url", options.to_queue_url, sqs_client)
    if options.execute:
        archive.check_writable()
    with progress("reading the plan's messages", str):
        messages = frozen_messages(spark, archive, plan)
        fates = _fates(messages, archive, plan, options).persist()
    try:
        with progress("weighing each message", str), explained(options.where):
            planned = _planned(plan, fates)
            hindered = _hindered(fates, planned)
        if not options.execute:
            return summarize(plan, "", options.to_queue_url, planned, hindered)
        facts = _facts(plan, options, int(queue.get("MaximumMessageSize", MAX_MESSAGE_BYTES)))
        executed = execute(
            work_rows(messages, fates, _tasks(spark, options), in_order=facts.to_fifo),
            planned,
            archive,
            facts,
            max_rate=options.max_rate,
            make_sender=make_sender,
            progress=progress,
        )
    finally:
        fates.unpersist()
    tallies = [*(tally for tally in planned if tally.word not in WORK), *executed.outcomes]
    return summarize(
        plan,
        facts.run_id,
        facts.destination,
        tallies,
        [*hindered, *executed.outcomes],
        executed.stopped_by,
    )


def _read_file(path: str) -> str:
    try:
        return read_text(path)
    except InputError as error:
        raise InputError(f"--plan {error}; give the plan.yaml that analyze wrote") from error


def _fates(messages: DataFrame, archive: Archive, plan: Plan, options: RedriveOptions) -> DataFrame:
    to_fifo = _to_fifo(options)
    spark, ttl = messages.sparkSession, options.claim_ttl_seconds
    fates = with_fates(
        number_chunks(grouped_messages(messages, options.where), to_fifo=to_fifo),
        ledger_states(spark, archive, time.time(), ttl).select("message_id", "state"),
        plan.actions,
        to_fifo=to_fifo,
        send_in_doubt=options.send_in_doubt,
        include_foreign=options.include_foreign,
    )
    return fates if options.limit is None else limited(fates, options.limit)


def _planned(plan: Plan, fates: DataFrame) -> list[Tally]:
    rows = fates.groupBy("group_id", "fate").count().collect()
    planned = [Tally(row["group_id"], row["fate"], row["count"]) for row in rows]
    known = {tally.group_id for tally in planned}
    unknown = [group_id for group_id in plan.actions if group_id not in known]
    if unknown:
        faults = "\n".join(f"  group {g}: is not in the plan's snapshot" for g in unknown)
        raise InputError(f"the plan has faults:\n{faults}")
    return planned


def _hindered(fates: DataFrame, planned: Sequence[Tally]) -> list[Tally]:
    """What stands in the way before anything is sent, by fate, with the first ids."""
    counts = Counter[str]()
    for tally in planned:
        counts[tally.word] += tally.count
    words = [word for word in HINDERED if counts[word]]
    ids = first_ids(fates, words, EXAMPLES)
    return [Tally("", word, counts[word], "", tuple(ids[word])) for word in words]


def _facts(plan: Plan, options: RedriveOptions, max_message_bytes: int) -> RunFacts:
    return RunFacts(
        run_id=new_id(time.time()),
        plan_id=plan.plan_id,
        who=_who(),
        reason=options.reason,
        destination=options.to_queue_url,
        to_fifo=_to_fifo(options),
        claim_ttl_seconds=options.claim_ttl_seconds,
        send_in_doubt=options.send_in_doubt,
        keep_counter=options.keep_counter,
        max_message_bytes=max_message_bytes,
    )


def _to_fifo(options: RedriveOptions) -> bool:
    return require_queue_url("--to-queue-url", options.to_queue_url).is_fifo


def _tasks(spark: SparkSession, options: RedriveOptions) -> int:
    return options.tasks_within(options.tasks or spark.sparkContext.defaultParallelism)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
