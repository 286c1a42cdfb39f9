"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from dlq_replay.addresses import QueueAddress
from dlq_replay.errors import QueueError
from dlq_replay.policy import MAX_MESSAGE_BYTES
from dlq_replay.sqs import SqsQueue
from spark_reprocess.actor import actor
from spark_reprocess.analysis.mask import Masks, compile_masks
from spark_reprocess.archive.dead_letter_schema import from_row
from spark_reprocess.archive.files import open_archive, read_text
from spark_reprocess.archive.message_store import new_id
from spark_reprocess.archive.turns import taking_turns
from spark_reprocess.canary.live import queue_url_beside
from spark_reprocess.canary.sampling import Drawn, recommended
from spark_reprocess.canary.surroundings import Surroundings
from spark_reprocess.canary.vigil import Redelivery
from spark_reprocess.clients import (
    ClientFactory,
    dead_letter_sources,
    require_queue,
    require_queue_url,
    sqs_client,
    sqs_sender,
)
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.progress import Progress, silent
from spark_reprocess.redrive.canary_draw import drawn_sample
from spark_reprocess.redrive.edit_preview import PREVIEW_SAMPLES, EditSample, edit_sample
from spark_reprocess.redrive.edit_records import other_edits, record_edits
from spark_reprocess.redrive.edited_rows import sql_faults
from spark_reprocess.redrive.editor import Editor
from spark_reprocess.redrive.execution import with_run_record
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary, summarize
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import Fate, Queues
from spark_reprocess.redrive.sender import Sender
from spark_reprocess.redrive.weighing import Weighed, weighed


def redrive(
    spark: SparkSession,
    options: RedriveOptions,
    *,
    make_client: ClientFactory = sqs_client,
    make_sender: ClientFactory = sqs_sender,
    progress: Progress = silent,
) -> RedriveSummary:
    """Say what the plan would do now, and with ``execute`` do it. Safe to repeat at any time.

    Raises:
        InputError: the options, the plan, the archive or the queue do not fit together; the plan's
            faults are all named. Nothing was sent.
        BusyError: another plan is being carried out, or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    options.check()
    masks = _masks(options)
    archive = open_archive(options.archive)
    plan = read_plan(_read_file(options.plan), sql_faults(spark))
    queue = require_queue(options.destination_option, options.destination, make_client)
    queues = _queues(options, queue, make_client)
    facts = _facts(plan, options, _max_message_bytes(queue), queues.room_bytes)
    surroundings = options.canary and Surroundings.check(
        options.canary, options.destination, queue, make_client
    )
    with ExitStack() as stack:
        if options.execute:
            archive.check_writable()
            # Before anything is weighed: what another plan decides after that would not be seen.
            turn = stack.enter_context(taking_turns(archive, facts.run, options.claim_ttl_seconds))
        whole = stack.enter_context(
            weighed(spark, archive, plan, options, queues, facts.editor, progress)
        )
        notes = (*whole.notes, *other_edits(archive, plan, whole.counts(Fate.SENT_BEFORE)))
        if options.execute:
            facts = with_run_record(archive, facts, "redrive", spark)
            record_edits(archive, facts, time.time())
            sender = Sender(archive, options, turn.trouble, make_client, make_sender, progress)
            if surroundings:
                return replace(sender.after_canary(plan, facts, whole, surroundings), notes=notes)
            return replace(sender.at_once(plan, facts, whole), notes=notes)
        samples = _samples(whole, facts.editor, masks) if options.has_samples else ()
        drawn = _drawn(whole, facts, options, Redelivery.of(queue))
    summary = summarize(plan, "", options.destination, whole.planned, whole.hindered)
    return replace(summary, samples=samples, notes=notes, drawn=drawn, max_rate=options.max_rate)


def _drawn(
    whole: Weighed, facts: RunFacts, options: RedriveOptions, redelivery: Redelivery
) -> Drawn | None:
    if options.canary is None:
        return recommended(whole.counts(Fate.SEND), redelivery)
    with drawn_sample(whole, facts, options.canary, redelivery) as sample:
        return sample.drawn


def _masks(options: RedriveOptions) -> Masks:
    try:
        return compile_masks(options.masks)
    except ValueError as error:
        raise InputError(f"--mask {error}") from error


def _samples(whole: Weighed, editor: Editor, masks: Masks) -> tuple[EditSample, ...]:
    return tuple(
        edit_sample(row["group_id"], from_row(row), editor.message(row), masks)
        for row in whole.first_edited(editor, PREVIEW_SAMPLES)
    )


def _read_file(path: str) -> str:
    try:
        return read_text(path)
    except InputError as error:
        raise InputError(f"--plan {error}; give the plan.yaml that analyze wrote") from error


def _queues(
    options: RedriveOptions, attributes: Mapping[str, str], make_client: ClientFactory
) -> Queues:
    """Ask SQS about the queues that a copy passes, and whether others use them."""
    dead_letter_arn = Redelivery.of(attributes).dead_letter_arn
    dead_letters = queue_url_beside(options.destination, dead_letter_arn)
    parked = options.parked_queue_url
    if parked is not None:
        require_queue_url("--parked-queue-url", parked)
    limits = [_max_message_bytes(attributes)]
    for url in filter(None, (dead_letters, parked)):
        with suppress(QueueError):
            limits.append(_max_message_bytes(SqsQueue(make_client(url), url).describe()))
    return Queues(
        destination=options.destination,
        parked=parked,
        is_named=bool(options.to_queue_url),
        dead_letter_queue=QueueAddress.from_arn(dead_letter_arn).name if dead_letter_arn else None,
        room_bytes=min(limits),
        is_shared=_is_shared(options.destination, dead_letters, parked, make_client),
        includes_foreign=options.include_foreign,
    )


def _is_shared(
    main: str, dead_letters: str | None, parked: str | None, make_client: ClientFactory
) -> bool:
    """Whether messages of other queues than *main* may be parked where its messages are."""
    if dead_letters is None:
        return False
    known = {QueueAddress.from_url(url) for url in (main, dead_letters)}
    for url in {dead_letters, parked or dead_letters}:
        sources = dead_letter_sources(url, make_client)
        if sources is None or not sources <= known:
            return True
    return False


def _max_message_bytes(attributes: Mapping[str, str]) -> int:
    return int(attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES))


def _facts(
    plan: Plan, options: RedriveOptions, max_message_bytes: int, room_bytes: int
) -> RunFacts:
    return RunFacts(
        run_id=new_id(time.time()),
        plan_id=plan.plan_id,
        who=actor(),
        reason=options.reason,
        destination=options.destination,
        to_fifo=require_queue_url(options.destination_option, options.destination).is_fifo,
        claim_ttl_seconds=options.claim_ttl_seconds,
        send_in_doubt=options.send_in_doubt,
        keep_counter=options.keep_counter,
        max_message_bytes=max_message_bytes,
        room_bytes=room_bytes,
        edits=plan.edits,
        max_rate=options.max_rate,
        requires_room=options.requires_room,
        cut_from=plan.snapshot.sha256[:12],
        policy_sha256=plan.snapshot.policy_sha256,
    )
