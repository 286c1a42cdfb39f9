"""Alarms, the topics that they notify, and the Spark job: what is read of them, and what is wrong.

Pure. Each rule is a generator, as in ``dlq_cli.stack.rules``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dlq_cli.gameday.joints import Joint, Name, failed, passed, skipped
from dlq_cli.stack.facts import metrics_of
from dlq_cli.stack.policies import ServiceCall, may_use_key
from dlq_cli.stack.rules import Finding, broken
from dlq_replay.measures import MAIN_QUEUE_DIMENSION, NAMESPACE

CLOUDWATCH = "cloudwatch.amazonaws.com"
SNS_MANAGED_KEY = "alias/aws/sns"
RINGING_REASON = "dlq gameday"
"""What the reason of a state begins with that a game day has set."""

_NOT_ENDED_WELL = {"FAILED", "TIMEOUT", "ERROR"}


@dataclass(frozen=True, slots=True)
class AlarmState:
    """One alarm of the stack.

    Attributes:
        topics: the SNS topics of its actions.
        main_queues: the value of the dimension MainQueue of each metric of ours that it watches.
        newest: when its newest datapoint began, as CloudWatch words it; empty without one.
    """

    name: str
    arn: str
    state: str
    reason: str
    has_actions: bool
    topics: tuple[str, ...]
    main_queues: tuple[str, ...]
    is_calm_without_data: bool
    newest: str = ""


def alarm_of(raw: Mapping[str, Any]) -> AlarmState:
    """Read an alarm of DescribeAlarms."""
    return AlarmState(
        name=raw["AlarmName"],
        arn=raw["AlarmArn"],
        state=raw["StateValue"],
        reason=raw.get("StateReason", ""),
        has_actions=raw.get("ActionsEnabled", True),
        topics=tuple(one for one in raw.get("AlarmActions", []) if ":sns:" in one),
        main_queues=tuple(
            dimension["Value"]
            for metric in metrics_of(raw)
            if metric.get("Namespace") == NAMESPACE
            for dimension in metric.get("Dimensions", [])
            if dimension["Name"] == MAIN_QUEUE_DIMENSION
        ),
        is_calm_without_data=raw.get("TreatMissingData") == "notBreaching",
        newest=_newest(raw.get("StateReasonData")),
    )


def _newest(reason_data: str | None) -> str:
    try:
        read: Any = json.loads(reason_data or "{}")
    except ValueError:
        return ""
    return str(read.get("startDate") or "") if isinstance(read, dict) else ""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that alarms notify.

    Attributes:
        policy: its policy, a JSON document.
        key: the KMS key that encrypts it, as the topic names it; empty if none does.
        key_policy: of that key; None if it could not be read, or there is no key.
        confirmed: subscriptions that get notices.
        pending: subscriptions that nobody has confirmed yet.
        alarms: the ARN of an alarm that notifies it.
        last_failure: the error of the newest action of an alarm on it; empty if that went well.
    """

    arn: str
    policy: str
    key: str
    key_policy: str | None
    confirmed: int
    pending: int
    alarm: str
    last_failure: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.arn.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The Spark job, which drains the parked queue.

    Attributes:
        denied: actions that its role may not do, each with its resource; None if IAM was not asked.
        triggers: state of each trigger, by its name.
        last_state: of its newest run; empty if it never ran.
    """

    name: str
    role: str
    denied: tuple[str, ...] | None
    triggers: Mapping[str, str]
    last_state: str = ""
    last_error: str = ""


def judge_alarms(alarms: Sequence[AlarmState], main_queue: str) -> Joint:
    """Return whether the stack's alarms watch this installation and notify somebody."""
    if not alarms:
        return skipped(Name.ALARMS, "the stack has none (CreateAlarms)")
    found = [finding for one in alarms for finding in _alarm_notifies(one, main_queue)]
    states = ", ".join(
        f"{sum(one.state == state for one in alarms)} {state}"
        for state in sorted({one.state for one in alarms})
    )
    newest = max((one.newest for one in alarms), default="")
    observed = f"{states}{f'; newest datapoint {newest}' if newest else ''}"
    return failed(Name.ALARMS, observed, found) if found else passed(Name.ALARMS, observed)


def _alarm_notifies(alarm: AlarmState, main_queue: str) -> Iterator[Finding]:
    if not alarm.has_actions:
        yield broken(
            alarm.name,
            "its actions are switched off, so it notifies nobody",
            f"aws cloudwatch enable-alarm-actions --alarm-names {alarm.name}",
        )
    elif not alarm.topics:
        yield broken(alarm.name, "has no topic among its actions", "deploy the stack again")
    for watched in sorted({*alarm.main_queues} - {main_queue}):
        yield broken(
            alarm.name,
            f"watches MainQueue={watched}, and the function publishes MainQueue={main_queue}",
            "set MainQueueName to the name of the main queue",
        )


def judge_topics(topics: Sequence[TopicFacts]) -> Joint:
    """Return whether alarms can publish to their topics, and whether somebody hears it."""
    if not topics:
        return skipped(Name.TOPIC, "no alarm has one")
    found = [finding for one in topics for finding in _topic_is_heard(one)]
    names = ", ".join(one.name for one in topics)
    if found:
        return failed(Name.TOPIC, names, found)
    unread = [one.name for one in topics if one.key and one.key_policy is None]
    keys = f"; the policy of its key could not be read: {', '.join(unread)}" if unread else ""
    count = sum(one.confirmed for one in topics)
    return passed(Name.TOPIC, f"{names}: {count} subscribed{keys}")


def _topic_is_heard(topic: TopicFacts) -> Iterator[Finding]:
    found = [*_may_be_published_to(topic)]
    yield from found
    if topic.last_failure and not found:
        yield broken(
            topic.name,
            f"the newest notice of an alarm failed: {topic.last_failure}",
            "mend the policy of the topic or of its key; an alarm notifies at its next change",
        )
    if not topic.confirmed:
        waiting = f"; {topic.pending} wait for confirmation" if topic.pending else ""
        yield broken(
            topic.name,
            f"nobody is subscribed{waiting}",
            "subscribe somebody, or open the link in the mail of SNS",
        )


def _may_be_published_to(topic: TopicFacts) -> Iterator[Finding]:
    account = topic.alarm.split(":")[4]
    if not ServiceCall(CLOUDWATCH, "sns:Publish", account, topic.alarm).is_allowed(topic.policy):
        yield broken(
            topic.name,
            f"its policy does not let {CLOUDWATCH} publish",
            f"allow sns:Publish to {CLOUDWATCH} in the policy of the topic",
        )
    if topic.key.endswith(SNS_MANAGED_KEY):
        yield broken(
            topic.name,
            "is encrypted with SNS's own key, which alarms cannot use",
            "encrypt it with a key of yours, or not at all",
        )
    elif (
        topic.key
        and topic.key_policy is not None
        and not may_use_key(topic.key_policy, CLOUDWATCH, account, topic.alarm)
    ):
        yield broken(
            topic.key,
            f"the key of topic {topic.name}: its policy does not let {CLOUDWATCH} use it",
            f"allow kms:Decrypt and kms:GenerateDataKey to {CLOUDWATCH} in the policy of the key",
        )


def judge_job(job: JobFacts | None) -> Joint:
    """Return whether the Spark job may drain the parked queue, and runs. It is not started."""
    name = Name.DRAIN
    if job is None:
        return skipped(name, "the stack has no Spark job (CreateSparkJob)")
    found = list(_job_may_drain(job))
    rights = "" if job.denied is not None else "; IAM was not asked for its rights"
    observed = f"newest run: {job.last_state or 'none yet'}{rights}"
    return failed(name, observed, found) if found else passed(name, observed)


def _job_may_drain(job: JobFacts) -> Iterator[Finding]:
    if job.denied:
        yield broken(
            job.role,
            f"the role of job {job.name} may not do {', '.join(job.denied)}",
            "deploy the stack again, unless a permissions boundary denies it",
        )
    for trigger, state in job.triggers.items():
        if state not in {"ACTIVATED", "ACTIVATING", "CREATING", "UPDATING"}:
            yield broken(
                trigger,
                f"the trigger of job {job.name} is {state}: parked messages are not archived",
                f"aws glue start-trigger --name {trigger}",
            )
    if not job.denied and job.last_state in _NOT_ENDED_WELL:
        yield broken(
            job.name,
            f"its newest run ended as {job.last_state}: {job.last_error}",
            "read the log of the run; docs/schedule.md says what its exit codes mean",
        )


def alarm_to_ring(alarms: Sequence[AlarmState]) -> AlarmState | None:
    """Choose the alarm that ``--ring`` rings: one that is quiet, and by itself falls silent again.

    CloudWatch sets the state of an alarm back at its next evaluation. One that ignores missing data
    may have none, and would keep the state.
    """
    quiet = [
        one
        for one in alarms
        if one.state != "ALARM" and one.has_actions and one.topics and one.is_calm_without_data
    ]
    return min(quiet, key=lambda one: one.name, default=None)


def judge_ring(
    alarm: AlarmState, results: Sequence[tuple[datetime, str, str]], seconds: float
) -> Joint:
    """Return whether an alarm that rang notified its topics.

    Args:
        alarm: the one that rang.
        results: when, which topic, and the error, empty if none.
        seconds: since it rang.
    """
    causes = [
        broken(
            topic.rpartition(":")[2],
            f"the notice of {alarm.name} failed: {error}",
            "mend the policy of the topic or of its key",
        )
        for _, topic, error in results
        if error
    ]
    if causes:
        return failed(Name.RING, f"{alarm.name} could not notify", causes)
    return passed(Name.RING, f"{alarm.name} notified its topic", seconds)


def no_action_taken(alarm: AlarmState, seconds: float) -> Joint:
    """Return that an alarm rang and CloudWatch took no action."""
    cause = broken(
        alarm.name,
        f"took no action within {seconds:.0f} s after it rang",
        "see its history in CloudWatch",
    )
    return failed(Name.RING, f"nothing after {seconds:.0f} s", [cause])
