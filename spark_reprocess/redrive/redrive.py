"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze."""

import getpass
import re
import socket
import time
from dataclasses import replace

from pyspark.sql import SparkSession

from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.dead_letter_schema import from_row
from spark_reprocess.archive.files import Archive, open_archive, read_text
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
from spark_reprocess.redrive.edit_preview import PREVIEW_SAMPLES, EditSample, edit_sample
from spark_reprocess.redrive.edit_records import other_edits, record_edits
from spark_reprocess.redrive.edited_rows import expression_faults, with_changes
from spark_reprocess.redrive.editor import Editor
from spark_reprocess.redrive.execution import Executed, execute
from spark_reprocess.redrive.plan_messages import work_rows
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary, summarize
from spark_reprocess.redrive.selection import WORK, Fate
from spark_reprocess.redrive.weighing import Weighed, weighed


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
    masks = _masks(options)
    archive = open_archive(options.archive)
    plan = read_plan(_read_file(options.plan), expression_faults(spark))
    queue = require_queue("--to-queue-url", options.to_queue_url, sqs_client)
    if options.execute:
        archive.check_writable()
    facts = _facts(plan, options, int(queue.get("MaximumMessageSize", MAX_MESSAGE_BYTES)))
    with weighed(spark, archive, plan, options, facts.editor, progress) as whole:
        notes = tuple(other_edits(archive, plan, whole.counts(Fate.SENT_BEFORE)))
        if options.execute:
            executed = _execute(whole, archive, facts, options, make_sender, progress)
            return replace(_summary(plan, facts, whole, executed), notes=notes)
        samples = _samples(whole, facts.editor, masks) if options.has_samples else ()
    summary = summarize(plan, "", options.to_queue_url, whole.planned, whole.hindered)
    return replace(summary, samples=samples, notes=notes)


def _execute(
    whole: Weighed,
    archive: Archive,
    facts: RunFacts,
    options: RedriveOptions,
    make_sender: ClientFactory,
    progress: Progress,
) -> Executed:
    record_edits(archive, facts, time.time())
    tasks = options.tasks_within(options.tasks or whole.spark.sparkContext.defaultParallelism)
    rows = work_rows(whole.messages, whole.fates, tasks, in_order=facts.to_fifo)
    return execute(
        with_changes(rows, facts.edits),
        whole.planned,
        archive,
        facts,
        max_rate=options.max_rate,
        make_sender=make_sender,
        progress=progress,
    )


def _summary(plan: Plan, facts: RunFacts, whole: Weighed, executed: Executed) -> RedriveSummary:
    rest = [tally for tally in whole.planned if tally.word not in WORK]
    return summarize(
        plan,
        facts.run_id,
        facts.destination,
        [*rest, *executed.outcomes],
        [*whole.hindered, *executed.outcomes],
        executed.stopped_by,
    )


def _masks(options: RedriveOptions) -> tuple[re.Pattern[str], ...]:
    try:
        return compile_masks(options.masks)
    except ValueError as error:
        raise InputError(f"--mask {error}") from error


def _samples(
    whole: Weighed, editor: Editor, masks: tuple[re.Pattern[str], ...]
) -> tuple[EditSample, ...]:
    return tuple(
        edit_sample(row["group_id"], from_row(row), editor.message(row), masks)
        for row in whole.first_edited(editor, PREVIEW_SAMPLES)
    )


def _read_file(path: str) -> str:
    try:
        return read_text(path)
    except InputError as error:
        raise InputError(f"--plan {error}; give the plan.yaml that analyze wrote") from error


def _facts(plan: Plan, options: RedriveOptions, max_message_bytes: int) -> RunFacts:
    return RunFacts(
        run_id=new_id(time.time()),
        plan_id=plan.plan_id,
        who=_who(),
        reason=options.reason,
        destination=options.to_queue_url,
        to_fifo=require_queue_url("--to-queue-url", options.to_queue_url).is_fifo,
        claim_ttl_seconds=options.claim_ttl_seconds,
        send_in_doubt=options.send_in_doubt,
        keep_counter=options.keep_counter,
        max_message_bytes=max_message_bytes,
        edits=plan.edits,
    )


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
