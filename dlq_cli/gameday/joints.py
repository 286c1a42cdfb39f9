"""The joints of the chain, and what was seen of the test message at each. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dlq_cli.stack.facts import Installation
from dlq_cli.stack.rules import (
    WHY_NOT_DEAD,
    WHY_NOT_FED,
    WHY_NOT_SENT,
    Finding,
    broken,
    findings,
)
from dlq_replay.decision import ParkReason
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry

RECEIVABLE_MESSAGES = 100
"""The most messages in a queue of which a game day receives. SQS cannot select messages, so all of
them are hidden for about a second."""


class Verdict(StrEnum):
    """What a game day says of a joint."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class Name(StrEnum):
    """The joints, in their order."""

    SETTINGS = "settings"
    SENT = "sent"
    CONSUMER = "consumer"
    FUNCTION = "function"
    PARKED = "parked"
    METRIC = "metric"
    ALARMS = "alarms"
    TOPIC = "topic"
    DRAIN = "drain"
    RING = "ring"
    CLEAN_UP = "clean-up"


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint.

    Attributes:
        observed: what was seen, or why nothing could be.
        seconds: from the send to the observation; None where nothing was waited for.
        causes: why it failed: what is at fault, how, and what to do. Empty unless it failed.
    """

    name: Name
    verdict: Verdict
    observed: str
    seconds: float | None = None
    causes: tuple[Finding, ...] = ()


def passed(name: Name, observed: str, seconds: float | None = None) -> Joint:
    """Return a joint that works."""
    return Joint(name, Verdict.PASSED, observed, seconds)


def failed(name: Name, observed: str, causes: Sequence[Finding]) -> Joint:
    """Return a joint that does not work."""
    # One fault may be found by two rules.
    return Joint(name, Verdict.FAILED, observed, causes=tuple(dict.fromkeys(causes)))


def unknown(name: Name, observed: str) -> Joint:
    """Return a joint that could not be observed."""
    return Joint(name, Verdict.UNKNOWN, observed)


def skipped(name: Name, observed: str) -> Joint:
    """Return a joint that this installation does not have, or that nothing reached."""
    return Joint(name, Verdict.SKIPPED, observed)


@dataclass(frozen=True, slots=True)
class LogLine:
    """What the replay function logged of the test message.

    Attributes:
        is_parked: whether SQS confirmed the send to the parked queue.
        text: the reason why it was parked, or the cause for which it was left in the DLQ.
        detail: of such a cause.
    """

    is_parked: bool
    text: str
    detail: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether SQS refused the send, so that another try soon would end the same way."""
        return not self.is_parked and self.text == "refused"


def read_log_line(text: str, message_id: str) -> LogLine | None:
    """Read a line of the function's log; None unless it says what became of the message."""
    try:
        line: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or message_id not in (line.get("ids") or ()):
        return None
    match line.get("message"):
        case "parked":
            return LogLine(is_parked=True, text=str(line.get("reason")))
        case "left in the DLQ":
            cause, detail = str(line.get("cause")), str(line.get("detail") or "")
            return LogLine(is_parked=False, text=cause, detail=detail)
        case _:
            return None


@dataclass(slots=True)
class Sighting:
    """What was seen of the test message so far.

    Attributes:
        message_id: of the copy that was sent; SQS keeps it when it moves a message to its DLQ.
        line: the newest of the log, and ``line_seconds`` when it was seen, since the send.
        log_fault: why the log shows nothing; empty if it does.
        copy: the copy that was received from the parked queue, and ``copy_seconds`` likewise.
        receive_fault: why nothing is received from that queue; empty if something is.
        is_limit_shortened: whether the time limit was shortened after the first sign.
    """

    message_id: str
    line: LogLine | None = None
    line_seconds: float = 0.0
    log_fault: str = ""
    copy: Message | None = None
    copy_seconds: float = 0.0
    receive_fault: str = ""
    is_limit_shortened: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is to be seen: SQS refused it, or log and queue have said all."""
        if self.line and self.line.is_refused:
            return True
        has_line = bool(self.log_fault) or bool(self.line and self.line.is_parked)
        return self.is_parked and has_line and bool(self.receive_fault or self.copy)

    @property
    def sees_nothing(self) -> bool:
        """Whether neither the log nor the queue shows anything."""
        return not self.is_parked and bool(self.log_fault) and bool(self.receive_fault)

    @property
    def is_parked(self) -> bool:
        """Whether anything shows that it was parked."""
        return self.copy is not None or (self.line is not None and self.line.is_parked)


def judge_settings(broken_findings: Sequence[Finding], unknown_facts: Sequence[str]) -> Joint:
    """Return what the doctor's rules say."""
    if broken_findings:
        return failed(Name.SETTINGS, f"{len(broken_findings)} broken", broken_findings)
    unread = f"; {len(unknown_facts)} could not be checked" if unknown_facts else ""
    return passed(Name.SETTINGS, f"dlq doctor finds nothing broken{unread}")


def why_not_fed(of: Installation) -> list[Finding]:
    """Return why the function does not see messages of the DLQ, as far as anything tells."""
    found = findings(of, WHY_NOT_FED)
    if found:
        return found
    problems = [one for one in of.triggers if "PROBLEM" in one.last_result.upper()]
    return [
        broken(
            of.function_name,
            f"{one.name} reports: {one.last_result}",
            "read the function's log; its role needs the rights to poll and decrypt the DLQ",
        )
        for one in problems
    ]


def judge_function(seen: Sighting, of: Installation, limit_seconds: float) -> Joint:
    """Return whether the function took the message from the DLQ."""
    name = Name.FUNCTION
    if seen.line:
        return passed(name, "its log names the message", seen.line_seconds)
    if seen.copy and seen.log_fault:
        return passed(name, f"it parked the message; log: {seen.log_fault}", seen.copy_seconds)
    if seen.copy:
        cause = broken(
            of.log_group,
            "has no line of the message, although the function parked it: its role may not write "
            "there, or the function logs elsewhere",
            "allow logs:CreateLogStream and logs:PutLogEvents to the role, or deploy the stack",
        )
        return failed(name, "it parked the message and logged nothing", [cause])
    if seen.log_fault and seen.receive_fault:
        return unknown(name, f"log: {seen.log_fault}; parked queue: {seen.receive_fault}")
    cause = broken(
        of.function_name,
        f"did nothing with a message of {of.dlq.name} for {limit_seconds:.0f} s",
        "read its log, and LastProcessingResult of its event source mapping",
    )
    return failed(name, f"nothing after {limit_seconds:.0f} s", why_not_fed(of) or [cause])


def judge_consumer(seen: Sighting, of: Installation, limit_seconds: float) -> Joint:
    """Return whether the consumer failed on the message, so that SQS moved it to the DLQ."""
    name = Name.CONSUMER
    if seen.line:
        observed = f"{of.main.name} gave it to a consumer that failed, then SQS moved it"
        return passed(name, observed, seen.line_seconds)
    if seen.copy:
        return passed(name, "it failed, then SQS moved the message", seen.copy_seconds)
    if seen.log_fault and seen.receive_fault:
        return unknown(name, f"log: {seen.log_fault}; parked queue: {seen.receive_fault}")
    cause = broken(
        of.main.name,
        f"the message did not become a dead letter within {limit_seconds:.0f} s: no consumer "
        "receives it, or the consumer does not fail on it",
        "let the consumer run, and fail on messages that have the attribute sqs-dlq-gameday",
    )
    causes = findings(of, WHY_NOT_DEAD) or why_not_fed(of) or [cause]
    return failed(name, f"nothing after {limit_seconds:.0f} s", causes)


def judge_parked(seen: Sighting, entry: SendEntry, of: Installation) -> Joint:
    """Return whether the message arrived in the parked queue as it was sent."""
    name, line = Name.PARKED, seen.line
    if seen.copy:
        return _judge_copy(seen.copy, seen, entry, of)
    if line is None:
        return skipped(name, "the function took no message")
    return _judge_line(line, seen, of)


def _judge_copy(copy: Message, seen: Sighting, entry: SendEntry, of: Installation) -> Joint:
    faults = copy_faults(copy, entry, seen.message_id, of)
    if not faults:
        return passed(Name.PARKED, f"its copy in {of.parked.name} is as sent", seen.copy_seconds)
    cause = broken(
        of.function_name,
        f"changed the message on its way: {'; '.join(faults)}",
        "deploy the stack again with the version of this command",
    )
    return failed(Name.PARKED, "its copy is not as sent", [cause])


def _judge_line(line: LogLine, seen: Sighting, of: Installation) -> Joint:
    name = Name.PARKED
    if not line.is_parked:
        why = f"{line.text}: {line.detail}" if line.detail else line.text
        cause = broken(
            of.parked.name,
            f"the function could not send to it: {why}",
            "see what docs/reference.md says about left in the DLQ",
        )
        return failed(name, "left in the DLQ", findings(of, WHY_NOT_SENT) or [cause])
    if line.text != ParkReason.ATTEMPTS_EXHAUSTED:
        cause = broken(
            of.function_name,
            f"parked the message as {line.text}, not as {ParkReason.ATTEMPTS_EXHAUSTED}",
            "deploy the stack again: its settings are not those that the doctor reads",
        )
        return failed(name, f"as {line.text}", [cause])
    if seen.receive_fault:
        return passed(name, f"its log says so; {seen.receive_fault}", seen.line_seconds)
    return unknown(
        name,
        f"its log says so, but {of.parked.name} did not have it: a drain or something else took it",
    )


def copy_faults(copy: Message, entry: SendEntry, sent_id: str, of: Installation) -> list[str]:
    """Return how the parked *copy* differs from what the wire format promises."""
    context = copy.history.context
    counter = entry.attributes[REPLAY_COUNT_ATTRIBUTE].value
    pairs: list[tuple[str, object, object]] = [
        ("replay count", copy.history.replay_count, int(counter)),
        ("reason", context.reason, ParkReason.ATTEMPTS_EXHAUSTED.value),
        ("first id", context.first_id, sent_id),
        ("source queue", context.source_queue, of.main.name),
        ("message group", copy.message_group_id, entry.message_group_id),
    ]
    return [f"{what} is {is_}, not {due}" for what, is_, due in pairs if is_ != due]


def metric_is_missing(metric: str, waited_seconds: float, of: Installation) -> Joint:
    """Return that CloudWatch does not have the metric that the function wrote into its log."""
    cause = broken(
        of.log_group,
        f"CloudWatch made no value of {metric} for MainQueue={of.main.name} of its lines: alarms "
        "and dashboard see nothing",
        "see whether the log has lines with _aws, and whether the function's version is this one",
    )
    return failed(Name.METRIC, f"nothing after {waited_seconds:.0f} s", [cause])


@dataclass(frozen=True, slots=True)
class Report:
    """The transcript of a game day.

    Attributes:
        run_id: the value of the message's attribute ``sqs-dlq-gameday``.
        message_id: of the copy that was sent; None if none was.
        announced: what was said before.
        joints: in their order.
        seconds: from the first call to the last.
    """

    stack: str
    run_id: str
    started_at: str
    message_id: str | None
    announced: tuple[str, ...]
    joints: tuple[Joint, ...] = field(default=())
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether a joint failed."""
        return any(one.verdict is Verdict.FAILED for one in self.joints)
