"""The requests of the verbs ``redrive`` and ``restore``, as a person makes them."""

from dataclasses import dataclass

from dlq.archive.lock import LOCK_SECONDS
from dlq.aws.actor import require_reason
from dlq.errors import InputError
from dlq.plan.plan import Plan
from dlq.redrive.sending.rate_limiter import LEAST_RATE
from dlq_replay.wire.addresses import is_queue_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """The arguments that the verbs ``redrive`` and ``restore`` have in common, see their help.

    Attributes:
        max_rate: messages a second, at least ``LEAST_RATE``; None for as fast as it goes.
        unconfirmed: what to do with what may have been sent before: ``leave`` it, or ``send`` it
            again.
        lock_seconds: the life of the archive lock; shorter in tests.
        tasks: how many chunks are sent side by side, None for one for each core; on a cluster that
            may grow also one for each 2,000 messages, 30 at most.
        failure_table: the table with the circuit breakers of the destinations and the counters of
            what fails again; None: no limits are kept to, and nothing is counted.
    """

    where: str | None = None
    limit: int | None = None
    max_rate: float | None = None
    unconfirmed: str = "leave"
    lock_seconds: float = LOCK_SECONDS
    reason: str = ""
    execute: bool = False
    tasks: int | None = None
    failure_table: str | None = None

    def check(self) -> None:
        """Raise InputError where the arguments do not go together."""
        require_reason(self.reason, execute=self.execute)
        if self.max_rate and self.max_rate < LEAST_RATE:
            raise InputError(
                f"--max-rate {self.max_rate:g}: must be at least {LEAST_RATE:g}, a message in ten "
                "seconds"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest(SendRequest):
    """The arguments of ``redrive``: the plan, the destination, the way to send; see its help.

    Attributes:
        to_queue_url: the destination of all messages that are not known to be foreign; None for
            each message's own source queue, as far as that is *main_queue_url*, or has the tag.
        queue_tag: value of the tag of a fleet's queues, in place of *main_queue_url*.
        parked_queue_urls: the run acts on messages of these parked queues; none if the archive has
            messages of one alone.
        queue: name of the source queue whose messages alone are redriven; None for all.
        sweep_function_arn: the function that reads a fleet's dead-letter queues by schedule.
        requires_room: leave messages that have no room for the plan's id.
        has_samples: whether the dry run previews edits on (masked, shortened) messages.
        ramp: whether to send in steps; None to do so where a failure table is named.
        allow_returns: how many messages of a group may fail again; see ``returns_allowed``.
        minute_seconds: a period of CloudWatch; shorter in a demonstration.
        decisions_sha256: of the plan that is meant, see ``Plan.decisions_sha256``; None for any.
        pointer_bucket: whose objects the dry run looks up; None for none.
        watches: whether the verb goes on after the send, to say what fails again.
    """

    plan: str | None = None
    to_queue_url: str | None = None
    main_queue_url: str | None = None
    queue_tag: str | None = None
    parked_queue_urls: tuple[str, ...] = ()
    queue: str | None = None
    include_foreign: bool = False
    allow_reordering: bool = False
    requires_room: bool = False
    masks: tuple[str, ...] = ()
    has_samples: bool = True
    ramp: bool | None = None
    allow_returns: str | None = None
    function_arn: str | None = None
    sweep_function_arn: str | None = None
    minute_seconds: float = 60
    group: str | None = None
    time_budget_seconds: float | None = None
    decisions_sha256: str | None = None
    watches: bool = False
    pointer_bucket: str | None = None

    def check(self) -> None:
        """Raise InputError where the arguments do not go together."""
        if self.queue_tag and self.main_queue_url:
            raise InputError("--queue-tag and --main-queue-url exclude each other")
        if self.is_fleet and not self.parked_queue_urls:
            raise InputError("--queue-tag needs --parked-queue-url: whose messages go, and where")
        if not self.is_fleet and not self.destination:
            raise InputError(
                "no destination: give --main-queue-url, the queue that the messages came from, "
                "--queue-tag, the tag of all such queues, or --to-queue-url for another one"
            )
        if self.queue is not None and not is_queue_name(self.queue):
            raise InputError(f"--queue {self.queue}: must be the name of a queue")
        if self.include_foreign and not self.to_queue_url:
            raise InputError("--include-foreign needs --to-queue-url: where those messages go")
        if self.watches and not self.failure_table:
            raise InputError("--watch needs --failure-table: nothing else counts what fails again")
        # Not super(): a dataclass with slots is another class than the one that it stands in.
        SendRequest.check(self)

    def check_decisions(self, plan: Plan) -> None:
        """Raise InputError where the plan is not, or no longer, the one that is meant."""
        if self.decisions_sha256 not in (None, plan.decisions_sha256):
            raise InputError(
                f"plan {plan.plan_id}: somebody has decided something else since this dry run; "
                "make a dry run again"
            )

    @property
    def destination(self) -> str:
        """The URL of the queue that messages go to; empty where they go to those with a tag."""
        return self.to_queue_url or self.main_queue_url or ""

    @property
    def is_fleet(self) -> bool:
        """True if each message goes to its own source, which must have the tag."""
        return bool(self.queue_tag) and not self.destination

    @property
    def queue_in_region(self) -> str:
        """The URL of a queue in the Region of all queues of the run."""
        return self.destination or self.parked_queue_urls[0]

    @property
    def goes_at_once(self) -> bool:
        """True if everything goes in one step: it is asked for, or what fails again is uncounted.

        Never because something could not be read.
        """
        return self.failure_table is None if self.ramp is None else not self.ramp


@dataclass(frozen=True, slots=True)
class RestoreRequest(SendRequest):
    """The messages that are sent, and where to.

    Attributes:
        parked_queue_urls: at least one; each message goes to the one that it was drained from.
        include_foreign: also messages that were drained from another parked queue, to the only one.
        include_discarded: also what was discarded, which is how a discard is undone.
    """

    parked_queue_urls: tuple[str, ...]
    include_foreign: bool = False
    include_discarded: bool = False

    def check(self) -> None:
        """Raise InputError where the arguments do not go together."""
        if self.include_foreign and len(self.parked_queue_urls) > 1:
            raise InputError("--include-foreign needs a single --parked-queue-url: where they go")
        SendRequest.check(self)
