"""Facts of an installation, and rules that find its faults, and the fixes. Pure.

None means an unknown fact. Each rule is a generator.

Sources of the limits: SQSDeveloperGuide ("Using dead-letter queues in Amazon SQS", "Amazon SQS
message quotas"), LambdaDeveloperGuide ("Using Lambda with Amazon SQS").
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import TypeVar

from dlq.aws.clients import DescribedQueue
from dlq.cli.verb import PROGRAM
from dlq_replay.settings import FleetSettings, ReplaySettings
from dlq_replay.wire.addresses import QueueAddress

LAMBDA_MIN_RECEIVE_COUNT = 5
"""Below it Lambda's own throttling sends good messages to the DLQ."""

NET_MIN_RECEIVE_COUNT = 100
"""The DLQ's redrive policy is a net under the rules, and holds on FIFO add to the count."""

VISIBILITY_TIMES_TIMEOUT = 6
FIFO_DLQ_MAX_VISIBILITY_SECONDS = 240
LOOK_SECONDS = 1200
"""FailedSendsAlarm and NearestExpiryAlarm need a receive of each message within this time."""

MAX_RETENTION_SECONDS = 1_209_600
EXPIRY_ALARM_SECONDS = 172_800
"""NearestExpiryAlarm and ParkedExpiryAlarm ring 2 days before SQS deletes a message."""

_LIVE = {"ENABLED", "ENABLING", "UPDATING", "CREATING", "RUNNING", "STARTING"}
"""States of event source mappings and of pipes, which AWS writes differently."""


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """The trigger of a function: an event source mapping, a pipe, or a rule with a schedule.

    Attributes:
        name: what it is, and which: ``event source mapping UUID``, ``pipe NAME``, ``rule NAME``.
        state: as AWS spells it.
        reports_batch_item_failures: whether messages that the function wants to keep stay in the
            DLQ. With a pipe that waits for the answer they always do.
        target: the ARN of the function or service that gets the messages.
        changed_at_seconds: when its state changed last, epoch seconds; None where AWS does not say.
    """

    name: str
    state: str
    source_arn: str
    reports_batch_item_failures: bool
    target: str = ""
    changed_at_seconds: float | None = None

    @property
    def is_pipe(self) -> bool:
        """True for an EventBridge Pipe."""
        return self.name.startswith("pipe ")

    @property
    def is_rule(self) -> bool:
        """True for an EventBridge rule."""
        return self.name.startswith("rule ")

    @property
    def is_live(self) -> bool:
        """True if it receives messages, or is about to."""
        return self.state.upper() in _LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """The facts of every stack, of its function above all.

    Attributes:
        place: the options that name the stack and its Region, for the commands of fixes.
        account: the number of the function's account; empty where it is not known.
        triggers: what feeds the function.
        knows_triggers: whether ``triggers`` are all.
        recursive_loop: ``Allow`` or ``Terminate``.
        denied_keys: customer keys that the function's role may not decrypt with.
        denied_sends: names of queues to which the function's role may not send.
        denies_metrics: whether the function's role may not read metrics.
        unjudged: of main queues whose consumer the circuit breaker cannot judge, by name: why, see
            ``BreakerView.unjudged_in_words``.
        missing: names of the table and of log groups that do not exist.
        unknown: facts that could not be found out, and why.
    """

    function_name: str
    settings: ReplaySettings | FleetSettings
    place: tuple[str, ...] = ()
    account: str = ""
    triggers: tuple[TriggerFacts, ...] = ()
    knows_triggers: bool = True
    recursive_loop: str | None = None
    reserved_concurrency: int | None = None
    denied_keys: tuple[str, ...] | None = None
    denied_sends: tuple[str, ...] | None = None
    denies_metrics: bool | None = None
    unjudged: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def main_queues(self) -> tuple[DescribedQueue, ...]:
        """The queues to which messages are replayed; none of a fleet."""
        return ()

    @property
    def queues(self) -> tuple[DescribedQueue, ...]:
        """All queues of the stack."""
        return self.main_queues


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInstallation(StackFacts):
    """The facts of a fleet, without its members: ``fleet_rules`` has these.

    Attributes:
        parked: the standard parked queue, and the FIFO one if there is one.
        denied_actions: what the function's role may not do with members, or to find them.
    """

    settings: FleetSettings
    parked: tuple[DescribedQueue, ...]
    denied_actions: tuple[str, ...] | None = None

    @property
    def queues(self) -> tuple[DescribedQueue, ...]:
        """The parked queues."""
        return self.parked


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation(StackFacts):
    """The facts of a stack with queues of its own.

    Attributes:
        other_readers: triggers of other functions and targets, on the DLQ and the parked queue.
        consumers: the time-out in seconds of each function that event source mappings feed from
            the main queue, by its name.
        other_main: the other main queues that are configured, as far as they could be read.
        dlq_source_arns: the queues whose redrive policy names the DLQ.
    """

    settings: ReplaySettings
    timeout_seconds: int
    main: DescribedQueue
    dlq: DescribedQueue
    parked: DescribedQueue
    other_main: tuple[DescribedQueue, ...] = ()
    other_readers: tuple[TriggerFacts, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)
    dlq_source_arns: tuple[str, ...] | None = None
    main_retention_seconds: int = 345_600

    @property
    def is_fed(self) -> bool:
        """True if a trigger brings messages of the DLQ to the function, and it may run.

        True also where that could not be found out.
        """
        if self.reserved_concurrency == 0:
            return False
        if not self.knows_triggers:
            return True
        live_sources = {trigger.source_arn for trigger in self.triggers if trigger.is_live}
        return self.dlq.arn in live_sources

    @property
    def main_queues(self) -> tuple[DescribedQueue, ...]:
        """The main queue, and the others."""
        return (self.main, *self.other_main)

    @property
    def queues(self) -> tuple[DescribedQueue, ...]:
        """All of them."""
        return (*self.main_queues, self.dlq, self.parked)


@dataclass(frozen=True, slots=True)
class ReplayTime:
    """The time until a message that always fails is parked.

    Attributes:
        replays: how often it is replayed, unless it gets too old before.
        wait_seconds: the waits before the replays, on average, all of them.
        try_seconds: the time of one try until the message is dead, at most: the receives of the
            main queue, each of which hides the message.
        most_seconds: after this age it is parked anyway; None for never.
    """

    replays: int
    wait_seconds: float
    try_seconds: int
    most_seconds: int | None

    @property
    def total_seconds(self) -> float:
        """The first try, the waits, and a try after each."""
        seconds = self.wait_seconds + (self.replays + 1) * self.try_seconds
        return seconds if self.most_seconds is None else min(seconds, self.most_seconds)


def replay_time(installation: Installation) -> ReplayTime:
    """Return how long a message of the main queue is replayed."""
    policy = installation.settings.policy
    main = installation.main
    replays = range(1, policy.max_attempts + 1)
    # A wait is a random time up to its ceiling.
    wait_seconds = sum(policy.backoff.window_seconds(number) / 2 for number in replays)
    return ReplayTime(
        replays=policy.max_attempts,
        wait_seconds=wait_seconds,
        try_seconds=main.visibility_timeout_seconds * (main.max_receive_count or 1),
        most_seconds=policy.max_age_seconds,
    )


class Severity(StrEnum):
    """Severity of a finding."""

    BROKEN = "broken"
    RISK = "risk"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StackFinding:
    """One thing to change: its subject, its fault, and the fix."""

    severity: Severity
    subject: str
    fault: str
    fix: str


broken = partial(StackFinding, Severity.BROKEN)
"""Makes a finding that stops messages, of its subject, fault and fix."""

risk = partial(StackFinding, Severity.RISK)
"""The same of one that may lose, delay or double messages."""

Facts = TypeVar("Facts")
Rule = Callable[[Installation], Iterator[StackFinding]]
FleetRule = Callable[[FleetInstallation], Iterator[StackFinding]]


def examine(installation: Installation | FleetInstallation) -> list[StackFinding]:
    """Return all findings, sorted by severity, the most severe first."""
    if isinstance(installation, FleetInstallation):
        all_findings = findings(installation, _FLEET_RULES)
    else:
        all_findings = findings(installation, _RULES)
    return by_severity([*all_findings, *not_checked(installation.unknown)])


def by_severity(findings: Iterable[StackFinding]) -> list[StackFinding]:
    """Return *findings*, the most severe first."""
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def not_checked(unknown: Iterable[str]) -> Iterator[StackFinding]:
    """Return a finding for each fact that could not be found out."""
    for fault in unknown:
        yield StackFinding(Severity.UNKNOWN, "survey", fault, "allow it, or look by hand")


def findings(
    facts: Facts, rules: Sequence[Callable[[Facts], Iterator[StackFinding]]]
) -> list[StackFinding]:
    """Return the findings of these rules."""
    return list(chain.from_iterable(rule(facts) for rule in rules))


def _main_queues_fail_to_the_dlq(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    for queue in installation.main_queues:
        if queue.redrive_target_arn != dlq.arn:
            target = queue.redrive_target_arn or "nowhere"
            fix = f"set RedrivePolicy to deadLetterTargetArn {dlq.arn}"
            if queue != installation.main:
                fix += ", or take the queue out of OtherMainQueueArns"
            yield broken(
                queue.name,
                f"its redrive policy leads to {target}, so no failure reaches {dlq.name}",
                fix,
            )
        else:
            yield from receive_count_is_enough(queue)


def resume_command(place: Iterable[str]) -> str:
    """Format the command that turns the triggers of a stack on."""
    return shlex.join([PROGRAM, "resume", *place])


def receive_count_is_enough(main: DescribedQueue) -> Iterator[StackFinding]:
    """Check the redrive policy of a main queue for what one consumer may need."""
    if (main.max_receive_count or 0) < LAMBDA_MIN_RECEIVE_COUNT:
        yield risk(
            main.name,
            f"maxReceiveCount is {main.max_receive_count}: where a Lambda consumes the queue, its "
            "throttling alone makes dead letters",
            f"raise it to {LAMBDA_MIN_RECEIVE_COUNT} or more",
        )


def _redrive_policies_end_in_the_parked_queue(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    parked = installation.parked
    count = dlq.max_receive_count

    if count is None:
        yield risk(
            dlq.name,
            "has no redrive policy, so what can never be handled goes round until it expires",
            f"set RedrivePolicy to deadLetterTargetArn {parked.arn}, maxReceiveCount 1000",
        )
    elif dlq.redrive_target_arn != parked.arn:
        yield broken(
            dlq.name,
            f"its redrive policy leads to {dlq.redrive_target_arn}, not to {parked.name}",
            f"set deadLetterTargetArn to {parked.arn}",
        )
    elif count < NET_MIN_RECEIVE_COUNT:
        yield broken(
            dlq.name,
            f"maxReceiveCount is {count}: SQS parks messages while they still wait to be replayed",
            "raise it to 1000; the function's own rules end the replays",
        )


def _parked_queues_keep_messages(
    facts: Installation | FleetInstallation,
) -> Iterator[StackFinding]:
    for parked in facts.parked if isinstance(facts, FleetInstallation) else (facts.parked,):
        target = parked.redrive_target_arn
        if target:
            yield risk(
                parked.name,
                f"has a redrive policy: SQS moves what was received {parked.max_receive_count} "
                f"times to {target}, where no drain finds it. So doctor received nothing to check "
                "it",
                "remove the redrive policy",
            )
        yield from _keeps_for_14_days(parked)


def _keeps_for_14_days(queue: DescribedQueue) -> Iterator[StackFinding]:
    if queue.retention_seconds < MAX_RETENTION_SECONDS:
        yield risk(
            queue.name,
            f"keeps messages for {_days(queue)}; then SQS deletes them, and the alarms on expiry "
            "count with 14 days",
            f"set MessageRetentionPeriod to {MAX_RETENTION_SECONDS}, 14 days",
        )


def _nobody_else_reads(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    parked = installation.parked
    names = {dlq.arn: dlq.name, parked.arn: parked.name}
    for reader in installation.other_readers:
        if reader.is_live and reader.source_arn in names:
            yield broken(
                names[reader.source_arn],
                f"{reader.name} takes messages out too, for {reader.target}: these are neither "
                "replayed nor archived",
                "remove it, or turn it off",
            )


def _redrive_allow_policies_admit(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    pairs = [(queue, dlq) for queue in installation.main_queues]
    pairs.append((dlq, installation.parked))
    for source, target in pairs:
        if source.redrive_target_arn == target.arn and not target.lets_in(source.arn):
            yield broken(
                target.name,
                f"its RedriveAllowPolicy does not admit {source.name}",
                f"add {source.arn} to sourceQueueArns, or allow all",
            )


def _retention_is_enough(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    for main in installation.main_queues:
        # A dead letter of a standard queue keeps the age that it had in main.
        left_seconds = dlq.retention_seconds - main.retention_seconds
        if dlq.is_fifo or left_seconds > EXPIRY_ALARM_SECONDS:
            continue

        consequence = "has 2 days left or less, so NearestExpiryAlarm rings for each that stays"
        if left_seconds <= 0:
            consequence = "expires on arrival"
        fault = (
            f"keeps messages for {_days(dlq)} and {main.name} for {_days(main)}: a dead "
            f"letter that waited long in {main.name} {consequence}"
        )
        if dlq.retention_seconds >= MAX_RETENTION_SECONDS:
            yield risk(dlq.name, fault, f"lower the retention of {main.name}")
        else:
            report = broken if left_seconds <= 0 else risk
            yield report(dlq.name, fault, f"set its retention to {MAX_RETENTION_SECONDS} s")

    yield from _keeps_for_14_days(dlq)


def _expiry_alarm_knows_the_retention(installation: Installation) -> Iterator[StackFinding]:
    longest = max(installation.main_queues, key=lambda main: main.retention_seconds)
    alarm_seconds = MAX_RETENTION_SECONDS - EXPIRY_ALARM_SECONDS
    # A retention that leaves the alarm no time has a finding of its own.
    if installation.dlq.is_fifo or longest.retention_seconds >= alarm_seconds:
        return

    configured_seconds = installation.main_retention_seconds
    is_late = longest.retention_seconds > configured_seconds
    if is_late or configured_seconds >= alarm_seconds:
        consequence = "too late" if is_late else "for each dead letter that stays"
        yield risk(
            longest.name,
            f"keeps messages for {_days(longest)}, and the stack's MessageRetentionPeriod is "
            f"{configured_seconds} s, so NearestExpiryAlarm rings {consequence}",
            f"update the stack with MessageRetentionPeriod={longest.retention_seconds}",
        )


def _visibility_of_the_dlq_fits(installation: Installation) -> Iterator[StackFinding]:
    dlq = installation.dlq
    seconds = dlq.visibility_timeout_seconds
    if dlq.is_fifo and seconds > FIFO_DLQ_MAX_VISIBILITY_SECONDS:
        yield risk(
            dlq.name,
            f"VisibilityTimeout is {seconds} s: a send that is repeated "
            "after it may fall out of the 5 minutes in which SQS removes duplicates",
            f"set it to {FIFO_DLQ_MAX_VISIBILITY_SECONDS} s or less",
        )
    if not dlq.is_fifo and seconds > LOOK_SECONDS:
        fix_seconds = installation.timeout_seconds * VISIBILITY_TIMES_TIMEOUT
        yield risk(
            dlq.name,
            f"VisibilityTimeout is {seconds} s: what could not be sent "
            "on is tried again after it, so FailedSendsAlarm and NearestExpiryAlarm may stay "
            "silent",
            f"set it to {fix_seconds} s, six times the timeout",
        )


def _visibility_fits_the_functions(installation: Installation) -> Iterator[StackFinding]:
    functions = [(installation.dlq, installation.function_name, installation.timeout_seconds)]
    for name, timeout in installation.consumers.items():
        functions.append((installation.main, name, timeout))

    for queue, name, timeout in functions:
        seconds = queue.visibility_timeout_seconds
        fix_seconds = timeout * VISIBILITY_TIMES_TIMEOUT
        fix = f"set it to {fix_seconds} s, six times the timeout"
        if seconds < timeout:
            yield broken(
                queue.name,
                f"VisibilityTimeout is {seconds} s, and {name} may run for {timeout} s: Lambda "
                "refuses such an event source, and delivers again what is being handled",
                fix,
            )
        elif seconds < fix_seconds and not (queue == installation.dlq and queue.is_fifo):
            yield risk(
                queue.name,
                f"VisibilityTimeout is {seconds} s, and {name} may run for {timeout} s: while it "
                "is throttled, messages may be handled twice, or become dead letters",
                fix,
            )


def _replay_is_on(facts: StackFacts) -> Iterator[StackFinding]:
    # Where a fleet has a sweep, that reads all members that no mapping reads.
    rules = tuple(trigger for trigger in facts.triggers if trigger.is_rule)
    triggers = rules or facts.triggers
    is_live = any(trigger.is_live for trigger in triggers)
    # A trigger that could not be listed may feed the function.
    if is_live or not facts.knows_triggers:
        return

    states = [f"{trigger.name} is {trigger.state}" for trigger in triggers]
    if states:
        fault = f"replay is paused: {', '.join(states)}"
        fix = resume_command(facts.place)
    else:
        fault = "has no event source mapping and no pipe: nothing is replayed"
        fix = "deploy the stack again"
    yield risk(facts.function_name, fault, fix)


def answers_are_partial(
    function_name: str, triggers: Iterable[TriggerFacts]
) -> Iterator[StackFinding]:
    """Check that Lambda keeps the messages that the function wants to keep."""
    for trigger in triggers:
        if not trigger.reports_batch_item_failures:
            yield broken(
                function_name,
                f"{trigger.name} lacks ReportBatchItemFailures: Lambda deletes dead letters that "
                "the function wants to keep",
                "add FunctionResponseTypes [ReportBatchItemFailures] to it; a deployment of the "
                "stack does it for its own",
            )


def _trigger_is_right(installation: Installation) -> Iterator[StackFinding]:
    yield from _replay_is_on(installation)
    for trigger in installation.triggers:
        if trigger.source_arn != installation.dlq.arn:
            yield broken(
                installation.function_name,
                f"is fed by {trigger.source_arn}, not by {installation.dlq.name}",
                f"remove {trigger.name}",
            )
    yield from answers_are_partial(installation.function_name, installation.triggers)


def _fleet_answers_are_partial(fleet: FleetInstallation) -> Iterator[StackFinding]:
    return answers_are_partial(fleet.function_name, fleet.triggers)


def _members_are_admitted(fleet: FleetInstallation) -> Iterator[StackFinding]:
    if fleet.denied_actions:
        yield broken(
            fleet.function_name,
            f"its role may not {', '.join(fleet.denied_actions)}, so members cannot be found or "
            "replayed",
            "deploy the stack again; a permissions boundary has to allow it, too",
        )


def _function_may_run(facts: StackFacts) -> Iterator[StackFinding]:
    if facts.recursive_loop == "Terminate":
        yield broken(
            facts.function_name,
            "Lambda ends this loop after about 16 replays and drops the message into the DLQ's "
            "redrive policy",
            "put-function-recursion-config --recursive-loop Allow, or deploy the stack again",
        )
    if facts.reserved_concurrency == 0:
        yield broken(
            facts.function_name,
            "its reserved concurrency is 0, so it never runs",
            "remove the reserved concurrency",
        )


def _sources_are_configured(installation: Installation) -> Iterator[StackFinding]:
    if installation.dlq_source_arns is None:
        return

    dlq = installation.dlq
    configured = installation.settings.policy.other_main_queues
    sources = {QueueAddress.from_arn(arn): arn for arn in installation.dlq_source_arns}
    others = {**sources}
    others.pop(QueueAddress.from_arn(installation.main.arn), None)
    missing = [queue.name for queue in others if queue not in configured]
    if missing:
        yield risk(
            dlq.name,
            f"also takes the dead letters of {', '.join(missing)}, which are not configured; "
            "those are parked as foreign_source",
            f"set OtherMainQueueArns={','.join(others.values())}",
        )

    surveyed = {QueueAddress.from_arn(queue.arn) for queue in installation.other_main}
    for queue in configured:
        # The redrive policy of a surveyed queue has a finding of its own.
        if queue not in sources and queue not in surveyed:
            yield broken(
                queue.name,
                f"is in OtherMainQueueArns and does not use {dlq.name}",
                f"set its RedrivePolicy to deadLetterTargetArn {dlq.arn}, or take it out",
            )


def _keys_are_usable(facts: StackFacts) -> Iterator[StackFinding]:
    is_fleet = isinstance(facts, FleetInstallation)
    tag = "; give the key the tag of the members" if is_fleet else ""
    for key in facts.denied_keys or ():
        names = ", ".join(queue.name for queue in facts.queues if queue.customer_key == key)
        yield broken(
            names,
            f"the function's role may not use its KMS key {key}",
            "allow kms:Decrypt and kms:GenerateDataKey to the role, in its policy and the key's"
            + tag,
        )


def _sends_are_allowed(facts: StackFacts) -> Iterator[StackFinding]:
    if facts.denied_sends:
        yield broken(
            ", ".join(facts.denied_sends),
            "the function's role may not send to it, so dead letters stay in the DLQ",
            "allow sqs:SendMessage to the role; a deployment of the stack does it, unless a "
            "permissions boundary denies it",
        )


def _breaker_sees_the_consumers(facts: StackFacts) -> Iterator[StackFinding]:
    if not facts.settings.has_breaker:
        return
    if facts.denies_metrics:
        yield risk(
            facts.function_name,
            "its role may not call cloudwatch:GetMetricData: the circuit breaker cannot read "
            "NumberOfMessagesDeleted, so it cannot judge a consumer, and sets no limit",
            "allow cloudwatch:GetMetricData to the role; a deployment of the stack does it, "
            "unless a permissions boundary denies it",
        )
        return

    for main in facts.main_queues:
        account = QueueAddress.from_arn(main.arn).account_id
        if facts.account and account != facts.account:
            yield risk(
                main.name,
                f"is a queue of account {account}, which alone has its metric "
                "NumberOfMessagesDeleted: the circuit breaker cannot judge its consumer, and "
                "sets no limit",
                f"deploy the stack in account {account}; else replays in an outage of the consumer "
                "wait by the backoff alone",
            )
        elif reason := facts.unjudged.get(main.name):
            yield risk(
                main.name,
                f"the circuit breaker {reason}",
                "in a VPC give the function a way to CloudWatch; see its log lines that begin with "
                "circuit breaker. A queue that was not used for six hours has the metric about 15 "
                "minutes later",
            )


def _errors_can_be_found(facts: StackFacts) -> Iterator[StackFinding]:
    for name in facts.missing:
        yield risk(
            name,
            "does not exist, so no errors can be found there",
            "deploy the stack again; for a log group correct ConsumerLogGroupArns, or run the "
            "consumer once",
        )


def _days(queue: DescribedQueue) -> str:
    return f"{queue.retention_seconds / 86_400:g} days"


_RULES: tuple[Rule, ...] = (
    _main_queues_fail_to_the_dlq,
    _redrive_policies_end_in_the_parked_queue,
    _parked_queues_keep_messages,
    _nobody_else_reads,
    _redrive_allow_policies_admit,
    _retention_is_enough,
    _expiry_alarm_knows_the_retention,
    _visibility_of_the_dlq_fits,
    _visibility_fits_the_functions,
    _trigger_is_right,
    _function_may_run,
    _sources_are_configured,
    _keys_are_usable,
    _sends_are_allowed,
    _breaker_sees_the_consumers,
    _errors_can_be_found,
)

_FLEET_RULES: tuple[FleetRule, ...] = (
    _parked_queues_keep_messages,
    _replay_is_on,
    _fleet_answers_are_partial,
    _members_are_admitted,
    _function_may_run,
    _keys_are_usable,
    _sends_are_allowed,
    _breaker_sees_the_consumers,
    _errors_can_be_found,
)

WHY_NOT_DEAD: tuple[Rule, ...] = (_main_queues_fail_to_the_dlq, _redrive_allow_policies_admit)
"""Rules for causes that keep a failed message of the main queue from the DLQ."""

WHY_NOT_PARKED: tuple[Rule, ...] = (
    _trigger_is_right,
    _function_may_run,
    _keys_are_usable,
    _sends_are_allowed,
)
"""Rules for causes that keep the function from receiving a message of the DLQ or sending it on."""
