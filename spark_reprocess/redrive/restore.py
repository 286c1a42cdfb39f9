"""The verb ``restore``: archived messages go to the parked queue again, as they were.

The same claims and the same ledger as a redrive, under a plan id of the queue's own, so that a
repeat restores nothing twice. A restored message counts as decided: it is in the parked queue
again, and comes back with the next drain under another id.
"""

from contextlib import ExitStack
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.wire.addresses import QueueAddress
from spark_reprocess.archive.ledger.claims import chunk_count
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.message_state import strongest
from spark_reprocess.archive.ledger.open_set import claimed_table
from spark_reprocess.archive.messages.dead_letter_schema import READ_COLUMNS
from spark_reprocess.archive.messages.frames import FILE, Held, read_archive
from spark_reprocess.archive.messages.message_order import (
    ORDER_COLUMNS,
    PARKED_QUEUE,
    in_order_units,
    keep_groups_whole,
    parked_queue,
    with_positions,
    with_waiting,
)
from spark_reprocess.archive.messages.message_store import require_drains, rows_named
from spark_reprocess.archive.storage.files import MESSAGES, Archive, open_archive
from spark_reprocess.aws.clients import require_queue, sqs_client, sqs_sender
from spark_reprocess.plan.plan import Action, PlannedGroup
from spark_reprocess.progress import Progress, silent
from spark_reprocess.redrive.execution import TaskRunner, begin, end, summarize
from spark_reprocess.redrive.redrive_values import RedriveSummary, RestoreOptions
from spark_reprocess.redrive.resolving.dispositions import with_chunks, with_dispositions
from spark_reprocess.redrive.resolving.editor import FAULT
from spark_reprocess.redrive.resolving.queues import SOURCE_COLUMNS, Queues
from spark_reprocess.redrive.resolving.resolve import ResolvedPlan, is_selected, resolve
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.spark.evaluation import evaluated, where_option
from spark_reprocess.spark.session import under_our_settings
from spark_reprocess.sql.allowed import check_sql


@under_our_settings
def restore(
    spark: SparkSession, options: RestoreOptions, *, progress: Progress = silent
) -> RedriveSummary:
    """Say what would go to the parked queue, and with ``execute`` send it. Safe to repeat.

    Returns:
        A summary whose groups are the archive's drains.

    Raises:
        InputError: the options, the archive or the queue do not fit together. Nothing was sent.
        BusyError: a redrive is going on, another restore or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    archive, url = check_restore(options), options.parked_queue_url
    is_fifo = QueueAddress.from_url(url).is_fifo
    rows = sum(rows_named(path) or 0 for path in archive.list(MESSAGES))
    context = RunContext(options, f"restore-{sha256(url.encode()).hexdigest()[:12]}", url)
    with ExitStack() as stack:
        context = stack.enter_context(context.locked(archive, progress))
        messages = read_archive(spark, archive)

        def resolving() -> ResolvedPlan:
            dispositions = _dispositions(messages, archive, options, rows, to_fifo=is_fifo)
            held = with_chunks(Held.of(dispositions, rows, stack), chunk_count(rows))
            return resolve(messages, held, rows, options, stack, to_fifo=is_fifo)

        with progress("resolving each message", str):
            resolved = evaluated(spark, resolving, *where_option(options.where))
        # Each drain is a group of the summary, as if a plan said to send all of it.
        drains = sorted({tally.group_id for tally in resolved.planned})
        groups = [PlannedGroup(one, "", 0, Action.REDRIVE) for one in drains]
        if not options.execute:
            return summarize(groups, resolved, context)
        runner = TaskRunner(archive, sqs_sender, progress)
        context, written = begin(archive, resolved, context)
        sent = runner.execute(written, resolved.planned, context, "restore")
        return end(groups, resolved, context, runner, {url: sent})


def check_restore(options: RestoreOptions) -> Archive:
    """Check what needs no Spark; return the archive. Raises as ``restore`` does."""
    options.check()
    check_sql(options.where, READ_COLUMNS)
    archive = open_archive(options.archive)
    require_drains(archive)
    require_queue("--parked-queue-url", options.parked_queue_url, sqs_client)
    return archive


def _dispositions(
    messages: DataFrame, archive: Archive, options: RestoreOptions, rows: int, *, to_fifo: bool
) -> DataFrame:
    slim = messages.select(
        *(FILE, *ORDER_COLUMNS, *SOURCE_COLUMNS),
        parked_queue().alias(PARKED_QUEUE),
        F.col("drain_id").alias("group_id"),
        F.lit(True).alias("has_room"),  # noqa: FBT003 - a value
        is_selected(messages, options.where).alias("selected"),
    )
    positioned = with_positions(slim, in_order_units(rows) if to_fifo else None)
    claimed = claimed_table(archive)
    states = messages.sparkSession.createDataFrame(strongest(claimed, "message_id"))
    if options.include_discarded:
        states = states.where(F.col("state") != Disposition.DISCARDED)
    dispositions = with_dispositions(
        positioned.withColumn(FAULT, F.lit(None)),
        states,
        None,
        # The parked queue takes messages of every source, but only those that were in it.
        Queues(
            options.parked_queue_url,
            None if options.include_foreign else options.parked_queue_url,
            includes_foreign=True,
        ),
        in_doubt=options.in_doubt,
    )
    if to_fifo:
        dispositions = with_waiting(
            dispositions if options.where is None else keep_groups_whole(dispositions)
        )
    return dispositions
