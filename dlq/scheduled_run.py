"""The verb ``run``: drain, analyze, apply the policy, redrive, report.

Every step is safe to repeat and to kill, and the next run continues where this one ended. Of two
runs at the same time both drain and analyze. The archive lock lets one redrive at a time: the other
tries to take it until its time budget is over.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlq.archive.ledger.claims import timestamp
from dlq.archive.ledger.message_state import PENDING
from dlq.archive.ledger.stop import StopCause
from dlq.archive.messages.message_store import message_files
from dlq.archive.storage.files import Archive, new_id
from dlq.aws.clients import require_queue, require_queue_url, sqs_client
from dlq.drain.drain import DrainRequest, DrainSummary, drain_each
from dlq.engine import Engine
from dlq.errors import BusyError, InputError
from dlq.explain.analyze import AnalysisRequest, analyze, load_policy
from dlq.explain.findings import Findings
from dlq.explain.logs.events import LIMIT_MINUTES
from dlq.explain.signature.mask import compile_masks
from dlq.inspect.status import ArchiveStatus, count
from dlq.plan.action_policy import Policy, RunSettings
from dlq.progress import Progress, silent
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest
from dlq.redrive.send_run import prepare
from dlq.redrive.sending.stop_signals import Clock, Deadline
from dlq.redrive.summary import RedriveSummary

STATUS_FILE = "status.json"
"""Below the archive's root: how many messages were pending at the end of the last run, which ones
others waited for, and when the last run began that emptied the parked queue, or each of several.
The daily notice reads it."""

NOT_REDRIVEN_BEFORE = "plan_id IS NULL"
"""Condition for messages that no redrive sent before they were parked."""

_CLOCK = Clock()

_LOCK_RETRY_SECONDS = 30.0
"""A run waits for this time before it tries again to take the archive lock."""

_DRAIN_SHARE = 0.5
"""Of the time budget. A queue that takes longer leaves time to send what is archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(RedriveRequest):
    """Options of a scheduled run: those of its redrive, and more. It drains each parked queue.

    Attributes:
        policy: the file of rules, None to drain and analyze only. With it a destination is needed.
        policy_sha256: the SHA-256 that this file must have, in hex; None for any.
        stack: name of the stack, for the report; None without one.
        logs, logs_minutes: as for the analysis.
    """

    parked_queue_urls: tuple[str, ...]
    policy: str | None = None
    policy_sha256: str | None = None
    stack: str | None = None
    logs: Sequence[str] = ()
    logs_minutes: int = LIMIT_MINUTES

    def check(self) -> None:
        """Raise InputError if the arguments contradict each other."""
        compile_masks(self.masks)
        if self.policy_sha256 and not self.policy:
            raise InputError("--policy-sha256 needs --policy: the file that has this hash")
        if self.execute and not self.policy:
            raise InputError("--execute needs --policy: the rules of what to do")
        if self.policy:
            RedriveRequest.check(self)

    def with_settings(self, settings: RunSettings) -> "RunRequest":
        """Return this request, with what it leaves open taken from a policy.

        The masks of both hold, and the shorter time budget.
        """
        allowed = self.allow_returns
        if allowed is None and settings.allow_returns is not None:
            allowed = str(settings.allow_returns)

        budget_seconds = self.time_budget_seconds
        if budget_seconds is None:
            budget_seconds = settings.time_budget_seconds
        elif settings.time_budget_seconds is not None:
            budget_seconds = min(budget_seconds, settings.time_budget_seconds)

        return replace(
            self,
            max_rate=settings.max_rate if self.max_rate is None else self.max_rate,
            time_budget_seconds=budget_seconds,
            masks=(*self.masks, *(settings.mask or ())),
            ramp=settings.ramp if self.ramp is None else self.ramp,
            allow_returns=allowed,
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """The number of pending messages at the end of a run, and the age of the oldest, or 0."""

    messages: int
    oldest_seconds: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The results of all steps.

    Attributes:
        drained: of each parked queue.
        findings: None if the archive has no messages.
        redriven: None without a policy, or if nothing was pending.
        policy_sha256: of the policy, in hex; None without one.
        postponed: why nothing was redriven: who acted on the same messages, or the end of the time
            budget; empty if none of these.
        is_locked_out: whether that is because another run held the archive lock for all the time.
        refused: why the redrive was refused, for example because a failure table cannot be read:
            nothing was sent, and somebody must see to it; else empty.
    """

    run_id: str
    drained: tuple[DrainSummary, ...]
    findings: Findings | None
    redriven: RedriveSummary | None
    pending: Pending
    policy_sha256: str | None = None
    postponed: str = ""
    refused: str = ""
    is_locked_out: bool = False


def check_run(request: RunRequest) -> None:
    """Check what needs no engine, before anybody waits for one. Raises as ``run`` does."""
    request.check()
    if request.policy is not None:
        load_policy(None, request.policy, request.policy_sha256)
    for url in request.parked_queue_urls:
        require_queue_url("--parked-queue-url", url)
    if len(request.parked_queue_urls) == 1:
        require_queue("--parked-queue-url", *request.parked_queue_urls, sqs_client)


def run(
    engine: Engine,
    archive: Archive,
    request: RunRequest,
    *,
    progress: Progress = silent,
    clock: Clock = _CLOCK,
    announce: Callable[[str], object] = str,
) -> RunSummary:
    """Run all steps. *announce* is that of ``redrive``.

    Of a time budget the drains have half at most, and the redrive what is left after the analysis.
    If SQS ends the drain early, the archived messages are still analyzed and redriven. If an
    operator or another run redrives or erases at the same time, this run may skip its redrive or
    its analysis: the next run does it. A redrive that is refused costs neither: what waits in the
    parked queue would expire there.

    Raises:
        InputError: request or policy have faults. Nothing was done, unless the text says otherwise.
    """
    request.check()
    policy = None
    if request.policy is not None:
        policy = load_policy(engine, request.policy, request.policy_sha256)
        request = request.with_settings(policy.run)
        request.check()
    deadline = Deadline.after(request.time_budget_seconds, clock)
    archive.check_writable()
    started = time.time()
    run_id = new_id(started)

    budget_seconds = request.time_budget_seconds
    if budget_seconds is not None:
        budget_seconds *= _DRAIN_SHARE
    urls = request.parked_queue_urls
    draining = DrainRequest(urls[0], time_budget_seconds=budget_seconds)
    drained = drain_each(engine, archive, urls, draining, progress=progress)

    findings, postponed = _analyze(engine, archive, request, policy, progress)

    redrive_step = _RedriveStep(postponed=postponed)
    if policy and findings and findings.groups:
        wanted = replace(
            request,
            plan=findings.plan_path,
            # Every run would select messages again that cannot carry the plan's id.
            requires_room=True,
            where=None if policy.redrive_again else NOT_REDRIVEN_BEFORE,
        )
        redrive_step = _redrive(engine, archive, wanted, progress, deadline, announce)

    # A broken file costs the alarm an age that is too high until a run empties the queue.
    drained_at = _status(archive).get("drained_at")
    share_seconds = None if budget_seconds is None else budget_seconds / len(urls)
    if all(_has_emptied(summary, share_seconds) for summary in drained):
        drained_at = timestamp(started)
    return RunSummary(
        run_id=run_id,
        drained=drained,
        findings=findings,
        redriven=redrive_step.summary,
        pending=_pending(archive, run_id, drained_at, count(archive, is_fleet=request.is_fleet)),
        policy_sha256=policy.sha256 if policy else None,
        postponed=redrive_step.postponed,
        refused=redrive_step.refused,
        is_locked_out=redrive_step.is_locked_out,
    )


def _has_emptied(drained: DrainSummary, budget_seconds: float | None) -> bool:
    """Return whether a drain has left nothing in the queue that it could have taken."""
    if drained.stopped_by or drained.unreadable or drained.not_deleted:
        return False
    return budget_seconds is None or drained.seconds < budget_seconds


def _analyze(
    engine: Engine,
    archive: Archive,
    request: RunRequest,
    policy: Policy | None,
    progress: Progress,
) -> tuple[Findings | None, str]:
    """Analyze what is pending; return also why that was put off, empty if it was not."""
    if not message_files(archive):
        return None, ""
    analysis = AnalysisRequest(
        policy=policy,
        masks=request.masks,
        has_samples=request.has_samples,
        stack=request.stack,
        logs=request.logs,
        logs_minutes=request.logs_minutes,
    )
    try:
        return analyze(engine, archive, analysis, progress=progress), ""
    except BusyError as error:
        return None, str(error)


@dataclass(frozen=True, slots=True)
class _RedriveStep:
    """The redrive of a run, or why there was none; the fields are those of ``RunSummary``."""

    summary: RedriveSummary | None = None
    postponed: str = ""
    refused: str = ""
    is_locked_out: bool = False


def _redrive(
    engine: Engine,
    archive: Archive,
    request: RunRequest,
    progress: Progress,
    deadline: Deadline,
    announce: Callable[[str], object],
) -> _RedriveStep:
    """Redrive the run's own plan, which has all that earlier ones left.

    Where another run holds the archive lock, try again until the deadline; without one, once.
    """
    if deadline.seconds_left <= 0:
        return _RedriveStep(postponed=StopCause.TIME_OVER.sentence)
    while True:
        left_seconds = deadline.seconds_left
        request = replace(request, time_budget_seconds=left_seconds)
        try:
            prepared = prepare(archive, request, sql_check=engine.attribute_fault)
            summary = redrive(
                engine, prepared, progress=progress, clock=deadline.clock, announce=announce
            )
            return _RedriveStep(summary)
        except BusyError as error:
            if left_seconds == math.inf or deadline.seconds_left <= _LOCK_RETRY_SECONDS:
                return _RedriveStep(postponed=str(error), is_locked_out=True)
        except InputError as error:
            return _RedriveStep(refused=str(error))
        deadline.clock.wait(threading.Event(), _LOCK_RETRY_SECONDS)


def _status(archive: Archive) -> dict[str, Any]:
    try:
        return dict(json.loads(archive.read(STATUS_FILE) or b"{}"))
    except (ValueError, TypeError):
        # The next run writes a new one.
        return {}


def _pending(
    archive: Archive,
    run_id: str,
    drained_at: object,
    now: ArchiveStatus,
) -> Pending:
    """Write the waiting messages into ``STATUS_FILE``; return the number of pending ones."""
    oldest = now.oldest_pending_at
    age_seconds = (now.at - oldest).total_seconds() if oldest else 0
    pending = Pending(now.count(PENDING), max(0, round(age_seconds)))

    content = {
        "run_id": run_id,
        "time": timestamp(now.at.timestamp()),
        "drained_at": drained_at,
        "waiting": now.waiting,
        "blockers": [asdict(blocker) for blocker in now.blockers],
        "pending": asdict(pending),
    }
    archive.write(STATUS_FILE, json.dumps(content, indent=1).encode())
    return pending
