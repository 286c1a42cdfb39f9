"""Facts of an account's DLQs, and rules: which are members of a fleet, and which could be. Pure.

A fleet is a stack whose members carry the tag ``dlq-replay`` with one value: DLQs and their source
queues alike. Each rule is a generator; ``rules`` has those of a stack with queues of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dlq.aws.clients import DescribedQueue
from dlq.figures import duration
from dlq.stack.rules import (
    MAX_RETENTION_SECONDS,
    NET_MIN_RECEIVE_COUNT,
    Severity,
    StackFinding,
    TriggerFacts,
    answers_are_partial,
    broken,
    by_severity,
    findings,
    not_checked,
    receive_count_is_enough,
    resume_command,
    risk,
)
from dlq_replay.aws.tagged_queues import TAG_KEY
from dlq_replay.wire.addresses import QueueAddress

MAPPED_FUNCTION_SECONDS = 30
"""The time-out of the replay function. Lambda refuses a queue that hides messages for less."""

_MAPPED_VISIBILITY_SECONDS = 180


class Membership(StrEnum):
    """The membership of a DLQ with its sources in a fleet; in part if only some have the tag."""

    JOINED = "joined"
    IN_PART = "joined in part"
    OPEN = "could join"
    BLOCKED = "cannot join"
    SERVED = "has its own stack"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet's stack.

    Attributes:
        place: the options that name the stack and its Region, for the commands of fixes.
        tag: the value of its members' tag.
        functions: the ARNs of its functions.
        parked_queues: where they park.
        sweep: the rule by which it reads its members; None without one.
        longest_wait_seconds: the longest wait before a replay; 0 where that is not known.
    """

    stack: str
    place: tuple[str, ...]
    tag: str
    functions: tuple[str, ...]
    parked_queues: tuple[QueueAddress, ...]
    sweep: TriggerFacts | None = None
    longest_wait_seconds: int = 0

    def feeds_on(self, trigger: TriggerFacts) -> bool:
        """Return whether a trigger is one of its functions, or of a version or an alias of them."""
        return f"{trigger.target}:".startswith(tuple(f"{arn}:" for arn in self.functions))


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A KMS key of a customer: its ARN, and the value of its tag ``dlq-replay`` or None."""

    arn: str
    tag: str | None


@dataclass(frozen=True, slots=True)
class DlqFacts:
    """One DLQ, and the queues whose dead letters it gets.

    Attributes:
        sources: those of its account.
        foreign_sources: names and accounts of those of other accounts.
        tags: the value of the tag ``dlq-replay`` of every queue of the account that has it; None if
            they could not be read.
        triggers: event source mappings and pipes that read the DLQ.
        keys: customers' KMS keys, as far as they could be read, by the names that queues have for
            them.
        dlqs_among_sources: names of sources that are DLQs themselves.
        fleet: None if no fleet is chosen.
        own_stack: a stack for this one DLQ, or that parks in it; empty if there is none.
    """

    dlq: DescribedQueue
    sources: tuple[DescribedQueue, ...]
    tags: Mapping[QueueAddress, str] | None
    foreign_sources: tuple[str, ...] = ()
    triggers: tuple[TriggerFacts, ...] = ()
    keys: Mapping[str, KeyFacts] = field(default_factory=dict)
    dlqs_among_sources: tuple[str, ...] = ()
    fleet: Fleet | None = None
    own_stack: str = ""

    @property
    def is_served(self) -> bool:
        """True if a stack of its own replays it, or parks in it, and none of it is a member."""
        return bool(self.own_stack) and not self.has_member

    @property
    def queues(self) -> tuple[DescribedQueue, ...]:
        """The source queues, and the DLQ."""
        return (*self.sources, self.dlq)

    def tag_of(self, queue: DescribedQueue) -> str | None:
        """Return the value of a queue's tag; None without one."""
        return (self.tags or {}).get(QueueAddress.from_arn(queue.arn))

    @property
    def tag(self) -> str | None:
        """The fleet's tag; where no fleet is chosen, that of the DLQ or of one of its sources."""
        if self.fleet:
            return self.fleet.tag
        tags = filter(None, map(self.tag_of, reversed(self.queues)))
        return next(tags, None)

    @property
    def untagged(self) -> tuple[DescribedQueue, ...]:
        """The queues without this tag, the DLQ last; none where tags are not known."""
        if self.tags is None:
            return ()
        tag = self.tag
        return tuple(queue for queue in self.queues if tag is None or self.tag_of(queue) != tag)

    @property
    def own_triggers(self) -> tuple[TriggerFacts, ...]:
        """The triggers that bring messages of the DLQ to a function of the fleet."""
        fleet = self.fleet
        return tuple(trigger for trigger in self.triggers if fleet and fleet.feeds_on(trigger))

    @property
    def has_member(self) -> bool:
        """True if one of the queues is a member; of a DLQ of DLQs, that one itself."""
        if self.dlqs_among_sources:
            return self.dlq not in self.untagged and self.tags is not None
        return self.tags is not None and len(self.untagged) < len(self.queues)


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """The DLQs of one account and Region.

    Attributes:
        queue_count: the number of all queues.
        dlqs: those that could be described, with all their sources.
        unknown: facts that could not be found out, and why.
    """

    queue_count: int
    dlqs: tuple[DlqFacts, ...]
    tags: Mapping[QueueAddress, str] | None
    fleet: Fleet | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedDlq:
    """One DLQ, and what the rules say about it.

    Attributes:
        queue: its name.
        sources: names of the queues whose dead letters it gets.
        tag: the value of the tag that it has or would get; None where no fleet is chosen.
        visible: messages that can be received.
        held: messages that are delayed or hidden, and would stay if the DLQ left its fleet now.
        untagged_urls: the queues that lack a tag and may get one, the DLQ last.
        findings: the most severe first.
    """

    queue: str
    sources: tuple[str, ...]
    state: Membership
    tag: str | None
    visible: int
    held: int
    untagged_urls: tuple[str, ...]
    findings: tuple[StackFinding, ...]


def examine_dlq(facts: DlqFacts) -> ExaminedDlq:
    """Return whether a DLQ is a member or could be one, and what is broken or at risk."""
    # The sources of a DLQ of DLQs have no consumer.
    rules = (_sources_can_join,) if facts.dlqs_among_sources else _RULES
    # dlq doctor --stack examines it.
    if facts.is_served:
        rules = ()
    all_findings = by_severity(findings(facts, rules))
    is_broken = any(finding.severity is Severity.BROKEN for finding in all_findings)

    if facts.is_served:
        state = Membership.SERVED
    elif facts.tags is None:
        state = Membership.UNKNOWN
    elif facts.has_member:
        state = Membership.IN_PART if facts.untagged else Membership.JOINED
    else:
        state = Membership.BLOCKED if is_broken else Membership.OPEN

    untagged_urls: list[str] = []
    for queue in () if facts.is_served else facts.untagged:
        if not (facts.tag_of(queue) or facts.dlqs_among_sources):
            untagged_urls.append(queue.url)

    counts = facts.dlq.counts
    return ExaminedDlq(
        queue=facts.dlq.name,
        sources=tuple(source.name for source in facts.sources),
        state=state,
        tag=None if facts.is_served else facts.tag,
        visible=counts.visible,
        held=counts.delayed + counts.in_flight,
        untagged_urls=tuple(untagged_urls),
        findings=tuple(all_findings),
    )


def examine_fleet(account: AccountFacts) -> list[StackFinding]:
    """Return the findings that are of no single DLQ."""
    return [*_fleet_findings(account), *not_checked(account.unknown)]


def _fleet_findings(account: AccountFacts) -> Iterator[StackFinding]:
    fleet = account.fleet
    if fleet is None:
        return

    for queue in fleet.parked_queues:
        if (account.tags or {}).get(queue) == fleet.tag:
            yield risk(
                queue.name,
                f"is a parked queue of stack {fleet.stack}, and has the tag of its members: the "
                "function does not read it, but its role may",
                f"remove its tag {TAG_KEY}",
            )
    if fleet.sweep and not fleet.sweep.is_live:
        yield risk(
            fleet.stack,
            f"replay is paused: {fleet.sweep.name} is {fleet.sweep.state}",
            resume_command(fleet.place),
        )


def _all_have_the_tag(facts: DlqFacts) -> Iterator[StackFinding]:
    dlq = facts.dlq
    for queue in facts.untagged:
        if other_tag := facts.tag_of(queue):
            yield broken(
                queue.name,
                f"has the tag {TAG_KEY}={other_tag}: it is a member of another fleet",
                "let it leave that one first: aws sqs untag-queue",
            )
        elif facts.has_member:
            stay = "its messages stay in it, held ones too"
            if queue is not dlq:
                stay = f"its dead letters stay in {dlq.name}"
            yield broken(
                queue.name,
                f"lacks the tag {TAG_KEY}={facts.tag}: {stay}",
                "tag it, see the commands",
            )


def _sources_can_join(facts: DlqFacts) -> Iterator[StackFinding]:
    for source in facts.foreign_sources:
        yield broken(
            facts.dlq.name,
            f"gets the dead letters of {source}: the function may not send there",
            "give that queue a DLQ of its own account, and a stack there",
        )
    for name in facts.dlqs_among_sources:
        yield broken(
            facts.dlq.name,
            f"is the DLQ of the DLQ {name}: a replay would go back there, not to the consumer",
            f"tag {name} and its sources alone",
        )


def _fifo_can_be_parked(facts: DlqFacts) -> Iterator[StackFinding]:
    fleet = facts.fleet
    if fleet and facts.dlq.is_fifo and not any(queue.is_fifo for queue in fleet.parked_queues):
        yield broken(
            facts.dlq.name,
            f"is FIFO, and stack {fleet.stack} has no FIFO parked queue: what is to be parked "
            "stays in the DLQ",
            "update the stack with FifoParkedQueue=true",
        )


def _keys_are_tagged(facts: DlqFacts) -> Iterator[StackFinding]:
    for queue in facts.queues:
        key = facts.keys.get(queue.customer_key or "")
        if key and facts.tag and key.tag != facts.tag:
            yield broken(
                queue.name,
                f"its KMS key {key.arn} lacks the tag {TAG_KEY}={facts.tag}, so the function may "
                "not use it",
                f"aws kms tag-resource --key-id {key.arn} --tags "
                f"TagKey={TAG_KEY},TagValue={facts.tag}",
            )


def _nobody_else_reads(facts: DlqFacts) -> Iterator[StackFinding]:
    # Without a fleet, a member's mapping may be that of its own fleet.
    if facts.fleet is None and facts.has_member:
        return
    for trigger in facts.triggers:
        if trigger.is_live and trigger not in facts.own_triggers:
            yield broken(
                facts.dlq.name,
                f"{trigger.name} takes messages out, for {trigger.target}: these are not replayed",
                "remove it, or turn it off",
            )


def _somebody_reads(facts: DlqFacts) -> Iterator[StackFinding]:
    fleet = facts.fleet
    if fleet and facts.has_member and not (fleet.sweep or facts.own_triggers):
        yield broken(
            facts.dlq.name,
            f"nothing reads it: stack {fleet.stack} has no sweep, and the DLQ no event source "
            "mapping of its function",
            "update the stack with Sweep=true, or create an event source mapping",
        )


def _mappings_answer_in_part(facts: DlqFacts) -> Iterator[StackFinding]:
    return answers_are_partial(facts.dlq.name, facts.own_triggers)


def _retention_is_enough(facts: DlqFacts) -> Iterator[StackFinding]:
    dlq = facts.dlq
    keeps = f"keeps messages for {duration(dlq.retention_seconds)}, and"
    if dlq.is_fifo:
        needed_seconds = facts.fleet.longest_wait_seconds if facts.fleet else 0
        wait = duration(needed_seconds)
        fault = f"{keeps} a replay may wait for {wait}: such a message is replayed early"
    else:
        # A dead letter of a standard queue keeps the age that it had in its source.
        needed_seconds = max((source.retention_seconds for source in facts.sources), default=0)
        age = duration(needed_seconds)
        fault = f"{keeps} a source for {age}: a dead letter that waited long there expires soon"

    if dlq.retention_seconds <= needed_seconds:
        can_grow = dlq.retention_seconds < MAX_RETENTION_SECONDS
        longer = f"set its MessageRetentionPeriod to {MAX_RETENTION_SECONDS}"
        yield risk(dlq.name, fault, longer if can_grow else "lower the retention of the source")


def _visibility_fits_a_mapping(facts: DlqFacts) -> Iterator[StackFinding]:
    seconds = facts.dlq.visibility_timeout_seconds
    if seconds < MAPPED_FUNCTION_SECONDS:
        yield risk(
            facts.dlq.name,
            f"VisibilityTimeout is {seconds} s: Lambda refuses an event source mapping of the "
            f"replay function, which may run for {MAPPED_FUNCTION_SECONDS} s; a sweep takes a "
            "time-out of its own",
            f"set it to {_MAPPED_VISIBILITY_SECONDS} s before you create a mapping",
        )


def _receive_counts_are_enough(facts: DlqFacts) -> Iterator[StackFinding]:
    for source in facts.sources:
        yield from receive_count_is_enough(source)


def _own_redrive_policy_is_a_net(facts: DlqFacts) -> Iterator[StackFinding]:
    dlq = facts.dlq
    parked = _parked_queue_name(facts)
    target = QueueAddress.from_arn(dlq.redrive_target_arn) if dlq.redrive_target_arn else None
    if target is None and facts.fleet:
        yield risk(
            dlq.name,
            "has no redrive policy, so what can be neither replayed nor parked stays until it "
            "expires",
            f"set RedrivePolicy to {parked} as deadLetterTargetArn, maxReceiveCount 1000",
        )
    if target is None:
        return

    count = dlq.max_receive_count or 0
    moves = f"has a redrive policy: after {count} receives SQS itself moves a message to"
    if count < NET_MIN_RECEIVE_COUNT:
        yield risk(
            dlq.name,
            f"{moves} {target.name}, while it may still wait to be replayed; a sweep receives a "
            "message at most once in two minutes",
            "set maxReceiveCount to 1000, or remove the redrive policy",
        )
    elif facts.fleet and target not in facts.fleet.parked_queues:
        yield risk(
            dlq.name,
            f"{moves} {target.name}, which is no parked queue of stack {facts.fleet.stack}, so "
            "that no drain finds it",
            f"let it lead to {parked}, or remove it",
        )


def _parked_queue_name(facts: DlqFacts) -> str:
    """Return the parked queue of a DLQ's kind; what is missing, if the fleet has none."""
    for queue in facts.fleet.parked_queues if facts.fleet else ():
        if queue.is_fifo == facts.dlq.is_fifo:
            return queue.name
    return "a FIFO parked queue" if facts.dlq.is_fifo else "a parked queue"


Rule = Callable[[DlqFacts], Iterator[StackFinding]]

_RULES: tuple[Rule, ...] = (
    _all_have_the_tag,
    _sources_can_join,
    _fifo_can_be_parked,
    _keys_are_tagged,
    _nobody_else_reads,
    _somebody_reads,
    _mappings_answer_in_part,
    _retention_is_enough,
    _visibility_fits_a_mapping,
    _receive_counts_are_enough,
    _own_redrive_policy_is_a_net,
)
