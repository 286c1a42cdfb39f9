"""The verb ``restore``: archived messages go to their parked queue again, as they were.

The same claims and the same ledger as a redrive, under a plan id of the queues' own, so that a
repeat restores nothing twice. A restored message counts as decided: it is in the parked queue
again, and comes back with the next drain under another id.
"""

from hashlib import sha256

import pyarrow as pa

from dlq.archive.ledger.claims import chunk_count, in_order_units
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import strongest
from dlq.archive.ledger.open_set import claimed_table, first_rows_of
from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
from dlq.archive.messages.message_reading import FILE
from dlq.archive.messages.message_store import drains_of, require_drains, rows_named
from dlq.archive.storage.files import MESSAGES, Archive
from dlq.aws.clients import require_queue, sqs_client, sqs_sender
from dlq.engine import Engine
from dlq.ids.columns import EDIT_FAULT, values_among, with_column
from dlq.ids.dispositions import with_dispositions, with_states
from dlq.ids.order import keep_groups_whole, with_chunks, with_positions, with_waiting
from dlq.ids.origins import Queues
from dlq.plan.plan import Action, PlannedGroup
from dlq.progress import Progress, silent
from dlq.redrive.request import RestoreRequest
from dlq.redrive.resolving.resolve import read_rows, require_memory_for, resolve, with_selection
from dlq.redrive.run_record import begin_run, end_run
from dlq.redrive.send_run import SendRun
from dlq.redrive.sending.stop_signals import Deadline
from dlq.redrive.summary import RedriveSummary, Sent
from dlq.redrive.totals import first_stop, not_reached, summarize
from dlq.sql.allowed import check_sql


def restore(
    engine: Engine, archive: Archive, request: RestoreRequest, *, progress: Progress = silent
) -> RedriveSummary:
    """Say what would go to the parked queue, and with ``execute`` send it. Safe to repeat.

    Returns:
        A summary whose groups are the archive's drains.

    Raises:
        InputError: the request, the archive or the queue do not fit together. Nothing was sent.
        BusyError: a redrive is going on, another restore or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    check_restore(archive, request)
    urls = request.parked_queue_urls
    messages = sum(rows_named(path) or 0 for path in archive.list(MESSAGES))
    digest = sha256("\n".join(sorted(urls)).encode()).hexdigest()
    run = SendRun(archive, request, f"restore-{digest[:12]}", urls[0])
    with run.locked(progress) as lock:
        require_memory_for(engine, messages)
        with progress("resolving each message", str):
            dispositions = _dispositions(engine, archive, request, messages)
            in_chunks = with_chunks(dispositions, chunk_count(messages))
            resolved = resolve(in_chunks, request.limit)

        # Each drain is a group of the summary, as if a plan said to send all of it.
        drain_ids = sorted({tally.group_id for tally in resolved.planned})
        groups = [PlannedGroup(drain_id, "", 0, Action.REDRIVE) for drain_id in drain_ids]
        if not request.execute:
            return summarize(run, groups, resolved)

        runner = begin_run(
            engine,
            run,
            resolved,
            lock,
            make_sender=sqs_sender,
            progress=progress,
            deadline=Deadline(),
        )
        sent: dict[str, Sent] = {}
        for number, url in enumerate(urls):
            work = resolved.work.get(url, ())
            stop = first_stop(sent.values())
            if stop and not stop.cause.stops_one_destination:
                sent[url] = Sent(tuple(not_reached(work)))
            else:
                # Each sends chunks of its own.
                stage = f"restore-{number}" if number else "restore"
                sent[url] = runner.execute(runner.written, work, runner.context(url), stage)
        return end_run(runner, groups, resolved, sent)


def check_restore(archive: Archive, request: RestoreRequest) -> None:
    """Check what needs no engine. Raises as ``restore`` does."""
    request.check()
    check_sql(request.where, READ_COLUMNS)
    require_drains(archive)
    for url in request.parked_queue_urls:
        require_queue("--parked-queue-url", url, sqs_client)


def _dispositions(
    engine: Engine, archive: Archive, request: RestoreRequest, messages: int
) -> pa.Table:
    # A parked queue takes messages of every source, but only those that were in it.
    urls = request.parked_queue_urls
    queues = Queues(destination=None, parked=urls, includes_foreign=True)
    if request.include_foreign:
        queues = Queues(destination=urls[0], includes_foreign=True)
    first_rows = first_rows_of(archive, require_drains(archive))
    rows = read_rows(archive, first_rows.select(["message_id", FILE]), queues)
    rows = with_selection(engine, archive, rows, request.where)
    rows = rows.append_column("group_id", drains_of(rows).dictionary_encode())
    rows = with_column(rows, EDIT_FAULT, pa.nulls(rows.num_rows, pa.string()))
    rows = with_positions(rows, in_order_units(messages))

    states = strongest(claimed_table(archive), "message_id")
    if request.include_discarded:
        is_discarded = values_among(states["state"], [Disposition.DISCARDED])
        states = states.filter(pa.array(~is_discarded))

    dispositions = with_dispositions(
        with_states(rows, states), None, unconfirmed=request.unconfirmed
    )
    if request.where is not None:
        dispositions = keep_groups_whole(dispositions)
    return with_waiting(dispositions)
