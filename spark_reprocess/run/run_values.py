"""What a run is asked for and what it answers: frozen values. Pure."""

from dataclasses import dataclass

from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.drain.drain import DrainSummary
from spark_reprocess.errors import InputError
from spark_reprocess.findings import Findings
from spark_reprocess.redrive.redrive_values import RedriveSummary

NOT_REDRIVEN_BEFORE = "plan_id IS NULL"
"""Selects archived messages that no redrive has sent before they were parked."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a schedule starts.

    Attributes:
        archive: the folder, or ``s3://BUCKET/PREFIX``.
        parked_queue_url: the queue to empty.
        to_queue_url: where all of a policy's redrives go, wherever their messages came from.
        main_queue_url: the source queue of messages that do not name theirs; a *policy* needs one
            of the two.
        policy: the file of rules, None for drain and analysis alone.
        policy_sha256: the SHA-256 that this file must have, in hex; None for any.
        time_budget_seconds: for the drain, None for as long as it takes.
        max_rate: messages a second, over all tasks; None for as fast as it goes.
        canary: what goes ahead of a redrive and decides about the rest; None for nothing.
        masks: regular expressions of what the report must not show, besides our own.
        has_samples: whether the report shows (masked, shortened) bodies at all.
        has_metrics: whether the command line tells CloudWatch what is undecided.
        reason: why, for the ledger; required with *execute*.
        execute: without it nothing is sent; the queue is drained all the same.
    """

    archive: str
    parked_queue_url: str
    to_queue_url: str | None = None
    main_queue_url: str | None = None
    policy: str | None = None
    policy_sha256: str | None = None
    time_budget_seconds: float | None = None
    max_rate: float | None = None
    canary: CanaryOptions | None = None
    masks: tuple[str, ...] = ()
    has_samples: bool = True
    has_metrics: bool = True
    reason: str = ""
    execute: bool = False

    @property
    def destination(self) -> str | None:
        """The URL of the queue that redrives go to."""
        return self.to_queue_url or self.main_queue_url

    def check(self) -> None:
        """Raise InputError where the options contradict each other."""
        if self.policy and not self.destination:
            raise InputError(
                "--policy needs --main-queue-url, the queue that the messages came from, or "
                "--to-queue-url: where its redrives go"
            )
        if self.policy_sha256 and not self.policy:
            raise InputError("--policy-sha256 needs --policy: the file that has this hash")
        if self.execute and not self.policy:
            raise InputError("--execute needs --policy: the rules of what to do")
        if self.execute and not self.reason.strip():
            raise InputError("--execute needs --reason: one sentence on why, for the ledger")


@dataclass(frozen=True, slots=True)
class Undecided:
    """What the archive holds that nobody has decided about, at the end of a run.

    Attributes:
        messages: how many.
        oldest_seconds: how long ago the oldest of them was parked; 0 where there is none.
    """

    messages: int
    oldest_seconds: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What each step did.

    Attributes:
        findings: None where the archive holds no message at all.
        redriven: None without a policy, or where there was nothing to decide about.
        policy_sha256: of the policy that was used, in hex; None without one.
        postponed: who acted on the same messages or drained others, so that nothing was redriven;
            empty if nobody did.
        warnings: what went wrong beside the work itself, a sentence each.
    """

    run_id: str
    drained: DrainSummary
    findings: Findings | None
    redriven: RedriveSummary | None
    undecided: Undecided
    policy_sha256: str | None = None
    postponed: str = ""
    warnings: tuple[str, ...] = ()
