"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze.

Resolve the plan: one disposition per message. Write the dispositions into the archive. Send, to one
destination after the other. Summarize.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.disposition import WORK
from spark_reprocess.archive.files import open_archive
from spark_reprocess.canary.options import (
    CanaryOptions,
    CanarySample,
    Redelivery,
    combined,
    recommended,
)
from spark_reprocess.canary.probe import Preflight, QueueProbe
from spark_reprocess.clients import (
    ClientFactory,
    require_queue,
    sqs_client,
    sqs_sender,
)
from spark_reprocess.errors import InputError
from spark_reprocess.limits import read_limit
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.progress import Progress, silent
from spark_reprocess.redrive.breaker_gate import WAITING, is_waiting
from spark_reprocess.redrive.canary import (
    PLANNED,
    Canary,
    drawn_sample,
    not_reached,
    to_send_by_group,
)
from spark_reprocess.redrive.dispositions import DESTINATION
from spark_reprocess.redrive.edits import edit_samples, sql_faults
from spark_reprocess.redrive.execution import TaskRunner, carry_out, dry_summary, other_edits
from spark_reprocess.redrive.queues import Attributes, Queues, find_queues
from spark_reprocess.redrive.redrive_values import (
    RedriveOptions,
    RedriveSummary,
    Sent,
    Tally,
)
from spark_reprocess.redrive.resolve import ResolvedPlan, resolved_plan
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.stop_signals import Deadline


def redrive(
    spark: SparkSession,
    options: RedriveOptions,
    *,
    make_client: ClientFactory = sqs_client,
    make_sender: ClientFactory = sqs_sender,
    progress: Progress = silent,
    now_seconds: Callable[[], float] = time.time,
) -> RedriveSummary:
    """Say what the plan would do now, and with ``execute`` do it. Safe to repeat at any time.

    Raises:
        InputError: the options, the plan, the archive or the queue do not fit together; the plan's
            faults are all named. Nothing was sent.
        BusyError: another plan is being carried out, or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    options.check()
    deadline = Deadline.after(options.time_budget_seconds, now_seconds)
    masks = compile_masks(options.masks)
    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan(sql_faults(spark))
    if options.group is not None:
        plan = plan.only(options.group)
    options.check_decisions(plan)
    option = "--to-queue-url" if options.to_queue_url else "--main-queue-url"
    attributes = require_queue(option, options.destination, make_client)
    queues, destinations = find_queues(options, attributes, make_client)
    context = RunContext(
        request=options,
        plan_id=plan.plan_id,
        destination=options.destination,
        to_fifo=queues.is_fifo,
        sizes=queues.sizes_of(options.destination),
        edits=plan.edits,
        cut_from=plan.snapshot.sha256[:12],
        policy_sha256=plan.snapshot.policy_sha256,
    )
    preflights = dict[str, Preflight]()

    def check_canaries(urls: Iterable[str]) -> None:
        for url in urls:
            if options.canary and url not in preflights:
                preflights[url] = _preflight(
                    options.canary, url, options, destinations, make_client
                )

    check_canaries([options.destination])
    with ExitStack() as stack:
        # Before the plan is resolved: what another plan decides after that would not be seen.
        context = stack.enter_context(context.locked(archive))
        resolved = stack.enter_context(
            resolved_plan(spark, archive, plan, options, queues, context.editor, progress)
        )
        notes = (*resolved.notes, *other_edits(archive, plan, resolved.planned))
        # The operator's destination is the first.
        work = {url: resolved.work[url] for url in destinations if url in resolved.work}
        resolved = replace(resolved, work=work)
        check_canaries(work)
        if not options.execute:
            samples = (
                edit_samples(resolved.messages, resolved.dispositions.frame, context.editor, masks)
                if options.has_samples
                else ()
            )
            return replace(
                dry_summary(plan.groups, resolved, context),
                samples=samples,
                notes=(*notes, *_limits_in_words(options, work)),
                drawn=_drawn(resolved, context, options, destinations, queues),
                max_rate=options.max_rate,
                decisions_sha256=plan.decisions_sha256,
            )
        runner = TaskRunner(
            archive, resolved.messages, make_sender, progress, options.tasks, deadline
        )

        def make_probe(preflight: Preflight) -> QueueProbe:
            drains = plan.snapshot.drain_ids
            return QueueProbe(spark, archive, preflight, plan.plan_id, drains, make_client)

        def send(context: RunContext, dispositions: DataFrame) -> dict[str, Sent]:
            contexts = {
                url: replace(context, destination=url, sizes=queues.sizes_of(url)) for url in work
            }
            return _send_all(runner, options, dispositions, contexts, work, preflights, make_probe)

        summary = carry_out("redrive", plan.groups, resolved, context, runner, send)
    notes += summary.notes
    return replace(summary, notes=notes, decisions_sha256=plan.decisions_sha256)


def _send_all(
    runner: TaskRunner,
    options: RedriveOptions,
    dispositions: DataFrame,
    contexts: Mapping[str, RunContext],
    planned: Mapping[str, Sequence[Tally]],
    preflights: Mapping[str, Preflight],
    make_probe: Callable[[Preflight], QueueProbe],
) -> dict[str, Sent]:
    """Send to one destination after the other. What stops the run stops those that follow.

    A limit of the circuit breaker stops its own destination alone. Limited ones come last.
    """
    sent: dict[str, Sent] = {}
    limits = {url: read_limit(options.failure_table, url) for url in planned}
    for url in sorted(planned, key=lambda url: bool(limits[url].sentence)):
        tallies = planned[url]
        if any(one.stopped_by and not is_waiting(one.stopped_by) for one in sent.values()):
            sent[url] = Sent(not_reached(tallies))
            continue
        limit = read_limit(options.failure_table, url)
        if limit.per_minute == 1:
            sent[url] = Sent(not_reached(tallies), f"{WAITING}: {limit.sentence}")
            continue
        to_here = replace(contexts[url], limit=limit)
        # The operator's destination has the run's own name.
        name = to_here.run_id
        if url != options.destination:
            name = f"{name}-{_name(url)}"
        is_work = F.col("disposition").isin(*WORK)
        is_planned = F.coalesce(is_work & (F.col(DESTINATION) == url), F.lit(False))  # noqa: FBT003
        rows = dispositions.withColumn(PLANNED, is_planned).where(F.col(PLANNED) | ~is_work)
        if options.canary is None:
            sent[url] = runner.execute(rows, tallies, to_here, name)
            continue
        canary = Canary(runner, to_here, options.canary, preflights[url], make_probe, name)
        in_order = to_here.to_fifo and not options.allow_reordering
        sent[url] = canary.send(rows, tallies, in_order=in_order)
    return {url: sent[url] for url in planned}


def _limits_in_words(options: RedriveOptions, urls: Iterable[str]) -> Iterator[str]:
    """Say which destinations are limited now, and of which that is not known."""
    for url in urls:
        limit = read_limit(options.failure_table, url)
        if limit.fault:
            yield f"{_name(url)}: its limit is not known: {limit.fault}"
        elif limit.sentence:
            yield f"{_name(url)}: {limit.sentence}"


def _name(url: str) -> str:
    return QueueAddress.from_url(url).name


def _preflight(
    canary: CanaryOptions,
    url: str,
    options: RedriveOptions,
    destinations: Mapping[str, Attributes],
    make_client: ClientFactory,
) -> Preflight:
    """Check that failures of a canary of this destination would show.

    Raises:
        InputError: a queue cannot be watched, is the wrong one, or never shows a failure.
    """
    try:
        return Preflight.check(canary, url, destinations[url], make_client)
    except InputError as error:
        if url == options.destination:
            raise
        name = QueueAddress.from_url(url).name
        raise InputError(
            f"messages of source queue {name}: {error}. To leave them out, add --where "
            f"\"coalesce(source_queue, '') <> '{name}'\""
        ) from error


def _drawn(
    resolved: ResolvedPlan,
    context: RunContext,
    options: RedriveOptions,
    destinations: Mapping[str, Attributes],
    queues: Queues,
) -> CanarySample | None:
    """Return the canary that would go ahead, or is recommended, over all destinations."""
    found: list[CanarySample] = []
    for url, tallies in resolved.work.items():
        redelivery, to_send = Redelivery.of(destinations[url]), to_send_by_group(tallies)
        if options.canary is None:
            found += filter(None, [recommended(to_send, redelivery)])
            continue
        of_destination = resolved.dispositions.frame.where(
            ~F.col("disposition").isin(*WORK) | (F.col(DESTINATION) == url)
        )
        with drawn_sample(
            of_destination,
            resolved.messages,
            to_send,
            replace(context, destination=url, sizes=queues.sizes_of(url)),
            options.canary,
            redelivery,
        ) as (sample, _):
            found.append(sample)
    return combined(found)
