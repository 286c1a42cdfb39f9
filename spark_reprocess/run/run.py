"""The verb ``run``: drain, analyze, apply the policy, redrive, report.

Safe to run twice and to kill at any point: each step is, and the next run goes on where this one
ended. Of two runs at the same time both drain and analyze, and the plan lock lets one redrive.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict

from pyspark.sql import SparkSession

from spark_reprocess.analysis.analyze import GROUPS_SCHEMA, AnalyzeOptions, analyze
from spark_reprocess.analysis.policy_actions import load_policy
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import timestamp
from spark_reprocess.archive.message_store import drain_ids, new_id
from spark_reprocess.archive.reading import MESSAGES
from spark_reprocess.drain.drain import DrainOptions, drain
from spark_reprocess.errors import BusyError, InputError
from spark_reprocess.findings import Findings
from spark_reprocess.inspect import UNDECIDED
from spark_reprocess.inspect.status import StatusOptions, status
from spark_reprocess.plan.policy import Policy
from spark_reprocess.progress import Progress, silent
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary
from spark_reprocess.run.run_values import (
    NOT_REDRIVEN_BEFORE,
    RunOptions,
    RunSummary,
    Undecided,
)

STATUS_FILE = "status.json"
"""Below the archive's root: what waits since the last run; ids and numbers only."""

Publish = Callable[[Undecided], str | None]
"""Tells a monitoring system what is undecided; answers what went wrong, None if nothing."""


def run(
    spark: SparkSession,
    options: RunOptions,
    *,
    publish: Publish = lambda _: None,
    progress: Progress = silent,
) -> RunSummary:
    """Do all steps, each on what the one before it left.

    A drain that SQS ends early does not keep what is archived from being decided about. An operator
    or another run that redrives, erases or drains at this moment only keeps this run from
    redriving, or from analysing: the next one does it.

    Raises:
        InputError: options or policy have faults. Before anything was done, unless the sentence
            says otherwise.
        ArchiveError: the archive cannot be used.
    """
    options.check()
    policy = _policy(spark, options)
    archive = open_archive(options.archive)
    archive.check_writable()
    run_id = new_id(time.time())
    drained = drain(spark, _drain_options(options), progress=progress)
    findings, redriven, postponed = None, None, ""
    if drain_ids(archive):
        files = archive.list(MESSAGES)
        try:
            findings = analyze(spark, _analyze_options(options, policy), progress=progress)
            redriven = _redrive(spark, options, policy, findings, progress)
        except InputError as error:
            # Another drain has added messages, so the archive does not hold what the plan froze.
            is_changed = archive.list(MESSAGES) != files
            if not is_changed and not isinstance(error, BusyError):
                raise
            postponed = str(error)
    undecided = _undecided(spark, archive, run_id)
    fault = publish(undecided)
    warnings = (fault,) if fault else ()
    used = policy.sha256 if policy else None
    return RunSummary(run_id, drained, findings, redriven, undecided, used, postponed, warnings)


def _policy(spark: SparkSession, options: RunOptions) -> Policy | None:
    if options.policy is None:
        return None
    return load_policy(spark, options.policy, GROUPS_SCHEMA, options.policy_sha256)


def _drain_options(options: RunOptions) -> DrainOptions:
    return DrainOptions(
        parked_queue_url=options.parked_queue_url,
        archive=options.archive,
        time_budget_seconds=options.time_budget_seconds,
    )


def _analyze_options(options: RunOptions, policy: Policy | None) -> AnalyzeOptions:
    return AnalyzeOptions(
        archive=options.archive,
        policy=policy,
        masks=options.masks,
        has_samples=options.has_samples,
    )


def _redrive(
    spark: SparkSession,
    options: RunOptions,
    policy: Policy | None,
    findings: Findings,
    progress: Progress,
) -> RedriveSummary | None:
    if policy is None or options.destination is None or not findings.groups:
        return None
    wanted = RedriveOptions(
        archive=options.archive,
        plan=findings.plan_path,
        to_queue_url=options.to_queue_url,
        main_queue_url=options.main_queue_url,
        parked_queue_url=options.parked_queue_url,
        # What cannot carry the plan's id would be selected again by every run.
        requires_room=True,
        where=None if policy.redrive_again else NOT_REDRIVEN_BEFORE,
        max_rate=options.max_rate,
        canary=options.canary,
        masks=options.masks,
        has_samples=options.has_samples,
        reason=options.reason,
        execute=options.execute,
    )
    return redrive(spark, wanted, progress=progress)


def _undecided(spark: SparkSession, archive: Archive, run_id: str) -> Undecided:
    """Count what is left, and write down for the daily notice who waits for whom."""
    if not drain_ids(archive):
        return Undecided(0, 0)
    now = status(spark, StatusOptions(archive.root))
    waiting = {"waiting": now.waiting, "blockers": [asdict(one) for one in now.blockers]}
    content = {"version": 1, "run_id": run_id, "time": timestamp(now.at.timestamp()), **waiting}
    archive.write(STATUS_FILE, json.dumps(content, indent=1).encode())
    oldest = now.oldest_undecided_at
    age_seconds = (now.at - oldest).total_seconds() if oldest else 0
    return Undecided(now.count(UNDECIDED), max(0, round(age_seconds)))
