"""Facts of an installation, and rules that find its faults, and the fixes. Pure.

None stands for an unknown fact. Each rule is a generator.

Sources of the limits: SQSDeveloperGuide ("Using dead-letter queues in Amazon SQS", "Amazon SQS
message quotas"), LambdaDeveloperGuide ("Using Lambda with Amazon SQS").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from dlq.aws.clients import Queue
from dlq_replay.settings import ReplaySettings
from dlq_replay.wire.addresses import QueueAddress

LAMBDA_MIN_RECEIVE_COUNT = 5
"""Below it Lambda's own throttling sends good messages to the DLQ."""

NET_MIN_RECEIVE_COUNT = 100
"""The DLQ's redrive policy is a net under the rules, and holds on FIFO add to the count."""

VISIBILITY_TIMES_TIMEOUT = 6
FIFO_DLQ_MAX_VISIBILITY_SECONDS = 240
LOOK_SECONDS = 1200
"""FailedSendsAlarm and NearestExpiryAlarm count on a receive of what is left so often."""

MAX_RETENTION_SECONDS = 1_209_600
EXPIRY_ALARM_SECONDS = 172_800
"""NearestExpiryAlarm and ParkedExpiryAlarm ring 2 days before SQS deletes a message."""

_LIVE = {"ENABLED", "ENABLING", "UPDATING", "CREATING", "RUNNING", "STARTING"}
"""States of event source mappings and of pipes, which AWS spells differently."""


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """The trigger of a function: an event source mapping, or a pipe.

    Attributes:
        name: what it is, and which: ``event source mapping UUID``, ``pipe NAME``.
        state: as AWS spells it.
        reports_batch_item_failures: whether what the function wants to keep stays in the DLQ.
            That of a pipe that waits for the answer always does.
        target: the ARN of what gets the messages.
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
    def is_live(self) -> bool:
        """True if it receives messages, or is about to."""
        return self.state.upper() in _LIVE


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that the rules look at.

    Attributes:
        account: the number of that of the function; empty where it is not known.
        recursive_loop: ``Allow`` or ``Terminate``.
        other_readers: those of other functions and targets, on the DLQ and the parked queue.
        consumers: the time-out in seconds of each function that event source mappings feed from
            the main queue, by its name.
        other_main: the other main queues that are configured, as far as they could be read.
        dlq_source_arns: the queues whose redrive policy names the DLQ.
        denied_keys: customer keys that the function's role may not decrypt with.
        denied_sends: names of queues to which the function's role may not send.
        knows_triggers: whether ``triggers`` are all.
        denies_metrics: whether the function's role may not read metrics.
        unjudged: of main queues whose consumer the circuit breaker cannot judge, by name: why, see
            ``BreakerView.unjudged_in_words``.
        missing: names of the table and of log groups that do not exist.
        unknown: what could not be found out, and why.
    """

    function_name: str
    timeout_seconds: int
    settings: ReplaySettings
    main: Queue
    dlq: Queue
    parked: Queue
    other_main: tuple[Queue, ...] = ()
    triggers: tuple[TriggerFacts, ...] = ()
    other_readers: tuple[TriggerFacts, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)
    recursive_loop: str | None = None
    reserved_concurrency: int | None = None
    dlq_source_arns: tuple[str, ...] | None = None
    denied_keys: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    denied_sends: tuple[str, ...] | None = None
    knows_triggers: bool = True
    main_retention_seconds: int = 345_600
    account: str = ""
    denies_metrics: bool | None = None
    unjudged: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_fed(self) -> bool:
        """True if a trigger brings messages of the DLQ to the function, and it may run.

        True also where that could not be found out.
        """
        feeds = (feed.is_live and feed.source_arn == self.dlq.arn for feed in self.triggers)
        return (any(feeds) or not self.knows_triggers) and self.reserved_concurrency != 0

    @property
    def main_queues(self) -> tuple[Queue, ...]:
        """The main queue, and the others."""
        return (self.main, *self.other_main)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All of them."""
        return (*self.main_queues, self.dlq, self.parked)


class Severity(StrEnum):
    """Severity of a finding."""

    BROKEN = "broken"
    RISK = "risk"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change: what it is about, what is so, and what to do."""

    severity: Severity
    subject: str
    fault: str
    fix: str


broken = partial(Finding, Severity.BROKEN)
"""Makes a finding that stops messages, of its subject, fault and fix."""

_risk = partial(Finding, Severity.RISK)
Rule = Callable[[Installation], Iterator[Finding]]


def examine(installation: Installation) -> list[Finding]:
    """Return everything that is wrong, what is broken first."""
    all_findings = findings(installation, _RULES)
    all_findings += [
        Finding(Severity.UNKNOWN, "survey", fault, "allow it, or look by hand")
        for fault in installation.unknown
    ]
    return sorted(all_findings, key=lambda finding: list(Severity).index(finding.severity))


def findings(installation: Installation, rules: Sequence[Rule]) -> list[Finding]:
    """Return what *rules* find."""
    return [finding for rule in rules for finding in rule(installation)]


def _main_queues_fail_to_the_dlq(of: Installation) -> Iterator[Finding]:
    for queue in of.main_queues:
        if queue.redrive_target_arn != of.dlq.arn:
            target = queue.redrive_target_arn or "nowhere"
            instead = "" if queue == of.main else ", or take the queue out of OtherMainQueueArns"
            yield broken(
                queue.name,
                f"its redrive policy leads to {target}, so no failure reaches {of.dlq.name}",
                f"set RedrivePolicy to deadLetterTargetArn {of.dlq.arn}{instead}",
            )
        elif (queue.max_receive_count or 0) < LAMBDA_MIN_RECEIVE_COUNT:
            yield _risk(
                queue.name,
                f"maxReceiveCount is {queue.max_receive_count}: where a Lambda consumes the "
                "queue, its throttling alone makes dead letters",
                f"raise it to {LAMBDA_MIN_RECEIVE_COUNT} or more",
            )


def _redrive_policies_end_in_the_parked_queue(of: Installation) -> Iterator[Finding]:
    count = of.dlq.max_receive_count
    if count is None:
        yield _risk(
            of.dlq.name,
            "has no redrive policy, so what can never be handled goes round until it expires",
            f"set RedrivePolicy to deadLetterTargetArn {of.parked.arn}, maxReceiveCount 1000",
        )
    elif of.dlq.redrive_target_arn != of.parked.arn:
        yield broken(
            of.dlq.name,
            f"its redrive policy leads to {of.dlq.redrive_target_arn}, not to the parked queue",
            f"set deadLetterTargetArn to {of.parked.arn}",
        )
    elif count < NET_MIN_RECEIVE_COUNT:
        yield broken(
            of.dlq.name,
            f"maxReceiveCount is {count}: SQS parks messages while they still wait to be replayed",
            "raise it to 1000; the function's own rules end the replays",
        )
    if target := of.parked.redrive_target_arn:
        yield _risk(
            of.parked.name,
            f"has a redrive policy: SQS moves what was received {of.parked.max_receive_count} "
            f"times to {target}, where no drain finds it. So doctor received nothing to check it",
            "remove the redrive policy",
        )


def _nobody_else_reads(of: Installation) -> Iterator[Finding]:
    names = {queue.arn: queue.name for queue in (of.dlq, of.parked)}
    for reader in of.other_readers:
        if reader.is_live and reader.source_arn in names:
            yield broken(
                names[reader.source_arn],
                f"{reader.name} takes messages out too, for {reader.target}: these are neither "
                "replayed nor archived",
                "remove it, or turn it off",
            )


def _redrive_allow_policies_admit(of: Installation) -> Iterator[Finding]:
    for source, target in [*((queue, of.dlq) for queue in of.main_queues), (of.dlq, of.parked)]:
        if source.redrive_target_arn == target.arn and not target.lets_in(source.arn):
            yield broken(
                target.name,
                f"its RedriveAllowPolicy does not admit {source.name}",
                f"add {source.arn} to sourceQueueArns, or allow all",
            )


def _retention_is_enough(of: Installation) -> Iterator[Finding]:
    for main in of.main_queues:
        # A dead letter of a standard queue keeps the age that it had in main.
        left_seconds = of.dlq.retention_seconds - main.retention_seconds
        if of.dlq.is_fifo or left_seconds > EXPIRY_ALARM_SECONDS:
            continue
        consequence = (
            "expires on arrival"
            if left_seconds <= 0
            else "has 2 days left or less, so NearestExpiryAlarm rings for each that stays"
        )
        fault = (
            f"keeps messages for {_days(of.dlq)} and {main.name} for {_days(main)}: a dead "
            f"letter that waited long in main {consequence}"
        )
        if of.dlq.retention_seconds >= MAX_RETENTION_SECONDS:
            yield _risk(of.dlq.name, fault, f"lower the retention of {main.name}")
        else:
            report = broken if left_seconds <= 0 else _risk
            yield report(of.dlq.name, fault, f"set its retention to {MAX_RETENTION_SECONDS} s")
    for queue in (of.dlq, of.parked):
        if queue.retention_seconds < MAX_RETENTION_SECONDS:
            yield _risk(
                queue.name,
                f"keeps messages for {_days(queue)}; then SQS deletes them, and the alarms on "
                "expiry count with 14 days",
                f"set MessageRetentionPeriod to {MAX_RETENTION_SECONDS}, 14 days",
            )


def _expiry_alarm_knows_the_retention(of: Installation) -> Iterator[Finding]:
    longest = max(of.main_queues, key=lambda main: main.retention_seconds)
    alarm_seconds = MAX_RETENTION_SECONDS - EXPIRY_ALARM_SECONDS
    # A retention that leaves the alarm no time has a finding of its own.
    if of.dlq.is_fifo or longest.retention_seconds >= alarm_seconds:
        return
    is_late = longest.retention_seconds > of.main_retention_seconds
    if is_late or of.main_retention_seconds >= alarm_seconds:
        yield _risk(
            longest.name,
            f"keeps messages for {_days(longest)}, and the stack's MessageRetentionPeriod is "
            f"{of.main_retention_seconds} s, so NearestExpiryAlarm rings "
            + ("too late" if is_late else "for each dead letter that stays"),
            f"update the stack with MessageRetentionPeriod={longest.retention_seconds}",
        )


def _visibility_fits(of: Installation) -> Iterator[Finding]:
    if of.dlq.is_fifo and of.dlq.visibility_timeout_seconds > FIFO_DLQ_MAX_VISIBILITY_SECONDS:
        yield _risk(
            of.dlq.name,
            f"VisibilityTimeout is {of.dlq.visibility_timeout_seconds} s: a send that is repeated "
            "after it may fall out of the 5 minutes in which SQS removes duplicates",
            f"set it to {FIFO_DLQ_MAX_VISIBILITY_SECONDS} s or less",
        )
    if not of.dlq.is_fifo and of.dlq.visibility_timeout_seconds > LOOK_SECONDS:
        yield _risk(
            of.dlq.name,
            f"VisibilityTimeout is {of.dlq.visibility_timeout_seconds} s: what could not be sent "
            "on is tried again after it, so FailedSendsAlarm and NearestExpiryAlarm may stay "
            "silent",
            f"set it to {of.timeout_seconds * VISIBILITY_TIMES_TIMEOUT} s, six times the timeout",
        )
    consumers = [(of.main, *consumer) for consumer in of.consumers.items()]
    for queue, name, timeout in [(of.dlq, of.function_name, of.timeout_seconds), *consumers]:
        seconds, fix_seconds = queue.visibility_timeout_seconds, timeout * VISIBILITY_TIMES_TIMEOUT
        fix = f"set it to {fix_seconds} s, six times the timeout"
        if seconds < timeout:
            yield broken(
                queue.name,
                f"VisibilityTimeout is {seconds} s, and {name} may run for {timeout} s: Lambda "
                "refuses such an event source, and delivers again what is being handled",
                fix,
            )
        elif seconds < fix_seconds and not (queue == of.dlq and queue.is_fifo):
            yield _risk(
                queue.name,
                f"VisibilityTimeout is {seconds} s, and {name} may run for {timeout} s: while it "
                "is throttled, messages may be handled twice, or become dead letters",
                fix,
            )


def _trigger_is_right(of: Installation) -> Iterator[Finding]:
    # What could not be listed may feed the function.
    if of.knows_triggers and not any(trigger.is_live for trigger in of.triggers):
        states = ", ".join(f"{trigger.name} is {trigger.state}" for trigger in of.triggers)
        fault, fix = f"replay is paused: {states}", "dlq resume --stack NAME"
        if not states:
            fault = "has no event source mapping and no pipe: nothing is replayed"
            fix = "deploy the stack again"
        yield _risk(of.function_name, fault, fix)
    for trigger in of.triggers:
        if trigger.source_arn != of.dlq.arn:
            yield broken(
                of.function_name,
                f"is fed by {trigger.source_arn}, not by {of.dlq.name}",
                f"remove {trigger.name}",
            )
        if not trigger.reports_batch_item_failures:
            yield broken(
                of.function_name,
                f"{trigger.name} lacks ReportBatchItemFailures: Lambda deletes dead letters that "
                "the function wants to keep",
                "deploy the stack again",
            )


def _function_may_run(of: Installation) -> Iterator[Finding]:
    if of.recursive_loop == "Terminate":
        yield broken(
            of.function_name,
            "Lambda ends this loop after about 16 replays and drops the message into the DLQ's "
            "redrive policy",
            "put-function-recursion-config --recursive-loop Allow, or deploy the stack again",
        )
    if of.reserved_concurrency == 0:
        yield broken(
            of.function_name,
            "its reserved concurrency is 0, so it never runs",
            "remove the reserved concurrency",
        )


def _sources_are_configured(of: Installation) -> Iterator[Finding]:
    if of.dlq_source_arns is None:
        return
    configured = of.settings.policy.other_main_queues
    using = {QueueAddress.from_arn(arn): arn for arn in of.dlq_source_arns}
    own = QueueAddress.from_arn(of.main.arn)
    missing = [queue.name for queue in using if queue not in configured and queue != own]
    if missing:
        arns = ",".join(arn for queue, arn in using.items() if queue != own)
        yield _risk(
            of.dlq.name,
            f"also takes the dead letters of {', '.join(missing)}, which are not configured; "
            "those are parked as foreign_source",
            f"set OtherMainQueueArns={arns}",
        )
    read = {QueueAddress.from_arn(queue.arn) for queue in of.other_main}
    for queue in configured:
        # Of a queue that could be read, its redrive policy says what is wrong.
        if queue not in using and queue not in read:
            yield broken(
                queue.name,
                f"is in OtherMainQueueArns and does not use {of.dlq.name}",
                f"set its RedrivePolicy to deadLetterTargetArn {of.dlq.arn}, or take it out",
            )


def _keys_are_usable(of: Installation) -> Iterator[Finding]:
    for key in of.denied_keys or ():
        names = ", ".join(queue.name for queue in of.queues if queue.customer_key == key)
        yield broken(
            names,
            f"the function's role may not use its KMS key {key}",
            "allow kms:Decrypt and kms:GenerateDataKey to the role, in its policy and the key's",
        )


def _sends_are_allowed(of: Installation) -> Iterator[Finding]:
    if of.denied_sends:
        yield broken(
            ", ".join(of.denied_sends),
            "the function's role may not send to it, so dead letters stay in the DLQ",
            "allow sqs:SendMessage to the role; a deployment of the stack does it, unless a "
            "permissions boundary denies it",
        )


def _breaker_sees_the_consumers(of: Installation) -> Iterator[Finding]:
    if not of.settings.has_breaker:
        return
    if of.denies_metrics:
        yield _risk(
            of.function_name,
            "its role may not call cloudwatch:GetMetricData: the circuit breaker cannot read "
            "NumberOfMessagesDeleted, so it cannot judge a consumer, and sets no limit",
            "allow cloudwatch:GetMetricData to the role; a deployment of the stack does it, "
            "unless a permissions boundary denies it",
        )
        return
    for main in of.main_queues:
        account = QueueAddress.from_arn(main.arn).account_id
        if of.account and account != of.account:
            yield _risk(
                main.name,
                f"is a queue of account {account}, which alone has its metric "
                "NumberOfMessagesDeleted: the circuit breaker cannot judge its consumer, and "
                "sets no limit",
                f"deploy the stack in account {account}; else replays in an outage of the consumer "
                "wait by the backoff alone",
            )
        elif words := of.unjudged.get(main.name):
            yield _risk(
                main.name,
                f"the circuit breaker {words}",
                "in a VPC give the function a way to CloudWatch; see its log lines that begin with "
                "circuit breaker. A queue that nobody used for six hours has the metric about 15 "
                "minutes later",
            )


def _errors_can_be_found(of: Installation) -> Iterator[Finding]:
    for name in of.missing:
        yield _risk(
            name,
            "does not exist, so no errors can be found there",
            "deploy the stack again; for a log group correct ConsumerLogGroupArns, or run the "
            "consumer once",
        )


def _days(queue: Queue) -> str:
    return f"{queue.retention_seconds / 86_400:g} days"


_RULES: tuple[Rule, ...] = (
    _main_queues_fail_to_the_dlq,
    _redrive_policies_end_in_the_parked_queue,
    _nobody_else_reads,
    _redrive_allow_policies_admit,
    _retention_is_enough,
    _expiry_alarm_knows_the_retention,
    _visibility_fits,
    _trigger_is_right,
    _function_may_run,
    _sources_are_configured,
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
"""Rules for causes that keep a message of the DLQ from the function, or it from sending it on."""
