"""The result of an analysis: frozen values, and how a difference is formatted. Pure.

Every text in here has been masked, but for what people said about a group; none is safe to put into
a page unescaped.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from dlq.explain.grouping import common_text
from dlq.explain.triage import SeenGroup, Status
from dlq.figures import counted, percent

_Group = TypeVar("_Group", bound=Any)
"""Anything with a ``group_id``."""

LEAST_GROUP = 10
"""Minimum group size for differences. Below it, differences are not significant."""

TOO_FEW = "too few messages to compare"
"""Shown in place of the differences of a smaller group."""

NO_QUEUE = "not known"
"""Shown in place of the source queue of a group that has none, or several."""


def state_of(value: str) -> str:
    """Return the state that stands for a value: ``missing``; empty if there is a value."""
    is_state = value.startswith("(") and value.endswith(")")
    return value[1:-1] if is_state else ""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A predicate that holds for nearly the same messages as a part (95 % or more)."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Part:
    """A condition of a difference.

    Attributes:
        field: its path: ``body.customer.region``, ``attribute.tenant``; an array's elements are
            ``[]``. ``message_group_id``, ``sender_id``, ``source_arn`` and ``body_bytes`` are the
            archive's columns.
        value: the value, masked and shortened. In round brackets if the part is not a value:
            ``(missing)`` or ``(present)``, if other messages differ in that, or a type, such as
            ``(text)``. A text that has such brackets itself is quoted.
        group_share: share of the group's messages for which it holds, 0 to 1.
        other_share: share of the messages that the group is compared with, 0 to 1.
        synonyms: at most three.
    """

    field: str
    value: str
    group_share: float
    other_share: float
    synonyms: tuple[Synonym, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One to three conditions that together set a group apart from other pending messages.

    Attributes:
        group_share, other_share: as of a part, for messages for which all parts hold.
        score: difference of the shares, at most 1; a third of it if the shape of the messages may
            imply the difference.
        condition: Spark SQL that selects such messages, for ``--where``; empty if SQL cannot
            express it, or if a value is masked.
        compared_with: the messages of *other_share*, to be read after "of".
    """

    parts: tuple[Part, ...]
    group_share: float
    other_share: float
    score: float
    condition: str = ""
    compared_with: str = "all others"


@dataclass(frozen=True, slots=True)
class Sample:
    """One message of a group, masked and shortened; of binary attributes the size.

    *logged* says how and where a log has its error, a link, and frames, in lines; empty without.
    """

    message_id: str
    sent_at: datetime | None
    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    logged: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of a number over a group's messages; None where no message has it."""

    least: float | None
    median: float | None
    p95: float | None
    greatest: float | None


@dataclass(frozen=True, slots=True)
class ReplayCount:
    """The number of messages with one replay count; None is an unknown count."""

    replay_count: int | None
    messages: int


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """One failure and the facts about it. docs/analysis.md has the fields, under "For machines".

    Attributes:
        reasons, sources: the most frequent first.
        replay_counts: ascending, the unknown one first.
        age_seconds: since the first known failure, at the time of the analysis.
        differences, samples: at most five; the strongest difference first.
        queue: the source queue of its messages; empty if it is not known, or if there are several.
    """

    group_id: str
    title: str
    count: int
    share: float
    first_parked_at: datetime | None
    last_parked_at: datetime | None
    arrivals: tuple[int, ...]
    trend: str
    reasons: Mapping[str, int]
    sources: Mapping[str, int]
    replay_counts: tuple[ReplayCount, ...]
    body_bytes: Spread
    age_seconds: Spread
    differences: tuple[Difference, ...]
    samples: tuple[Sample, ...]
    status: str = Status.NEW.value
    first_seen_at: datetime | None = None
    resolved_at: datetime | None = None
    last_action: str | None = None
    note: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """A whole analysis. docs/analysis.md has the fields, under "For machines".

    Attributes:
        groups: the largest first. One may have all messages of smaller ones: ``grouping.OTHERS``.
        gone: groups without a pending message that the analysis before listed.
        different: how many of *messages* are no copies of another; 0 if unknown.
        where: the condition of the analysis, None for all messages.
        sampled: how many messages the differences were found in; all where they are few.
        left_for_people: the last decision of a person about groups that a rule would have decided,
            by id, see ``triage.BINDING_DISPOSITIONS``; or ``unreadable``.
        clock: the fault of the machine's clock, see ``clock_note``; empty for none.
        same_failure: groups of the same failure, by id: the oldest group of that failure, which is
            left out itself. A decision about one counts for all.
        queue: the queue that a look saw, where there is no archive; empty otherwise.
        similar: groups that people see in one row, likewise: of the same failure, or whose texts
            differ in one or two words. Then each has its own decision.
    """

    plan_id: str
    archive: str
    plan_path: str
    analyzed_at: datetime
    messages: int
    bucket_starts: tuple[datetime, ...]
    bucket_seconds: float
    groups: tuple[GroupFinding, ...]
    where: str | None
    different: int = 0
    sampled: int = 0
    gone: tuple[SeenGroup, ...] = ()
    unreadable: tuple[str, ...] = ()
    left_for_people: Mapping[str, str] = field(default_factory=dict)
    stack: str | None = None
    logs: str = ""
    clock: str = ""
    same_failure: Mapping[str, str] = field(default_factory=dict)
    similar: Mapping[str, str] = field(default_factory=dict)
    group_by: str = ""
    queue: str = ""

    @property
    def origin(self) -> str:
        """The queues of most messages, and the stack: ``orders and 2 more queues, stack shop``.

        Of a look it is the queue that it saw.
        """
        if self.queue:
            return self.queue
        counts: Counter[tuple[str, str]] = Counter()
        for group in self.groups:
            for source, messages in group.sources.items():
                place, _, name = source.rpartition(":")
                counts[name, place] += messages

        by_queue: Counter[str] = Counter()
        for (name, place), messages in counts.items():
            # A message that names its queue without the ARN is of the only queue with that name.
            places = {other for same, other in counts if same == name and other}
            _, _, where = place.partition(":sqs:")
            label = f"{name} of {where}" if len(places) > 1 and where else name
            by_queue[label] += messages

        queues = by_queue.most_common(1)[0][0] if by_queue else ""
        if len(by_queue) > 1:
            queues += f" and {counted(len(by_queue) - 1, 'more queue')}"
        stack = f"stack {self.stack}" if self.stack else ""
        return ", ".join(filter(None, [queues, stack]))

    @property
    def queues(self) -> dict[str, "QueueFinding"]:
        """The numbers of each source queue by name, as ``count_queues`` returns them."""
        return count_queues(self.groups)

    @property
    def statuses(self) -> dict[str, int]:
        """See ``count_statuses``. A look has no memory, and so none."""
        if self.queue:
            return {}
        return count_statuses((group.status for group in self.groups), len(self.gone))


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """The numbers of one source queue; *new* counts groups."""

    messages: int
    groups: int
    new: int


def count_queues(groups: Iterable[GroupFinding]) -> dict[str, QueueFinding]:
    """Return the numbers of each source queue by name, the largest first.

    Groups without a queue are together, as ``NO_QUEUE``. Empty if all groups with a queue have the
    same one.
    """
    groups_by_queue = defaultdict[str, list[GroupFinding]](list)
    for group in groups:
        groups_by_queue[group.queue or NO_QUEUE].append(group)
    if len(groups_by_queue.keys() - {NO_QUEUE}) <= 1:
        return {}

    queues = {}
    for name, groups_of_queue in groups_by_queue.items():
        queues[name] = QueueFinding(
            messages=sum(group.count for group in groups_of_queue),
            groups=len(groups_of_queue),
            new=sum(group.status == Status.NEW for group in groups_of_queue),
        )
    return dict(sorted(queues.items(), key=lambda queue: (-queue[1].messages, queue[0])))


def in_rows(groups: Iterable[_Group], oldest: Mapping[str, str]) -> list[list[_Group]]:
    """Return the groups of each row together, in the order of the first of each.

    *oldest* are ``Findings.similar``, or ``Findings.same_failure``.
    """
    rows = defaultdict[str, list[_Group]](list)
    for group in groups:
        rows[oldest.get(group.group_id, group.group_id)].append(group)
    return list(rows.values())


def merged(row: Sequence[GroupFinding]) -> GroupFinding:
    """Return the first group of a row, with the numbers and times of all, and a title for all.

    Its status is the most severe one.
    """
    titles = []
    arrivals = []
    first_times = []
    last_times = []
    statuses = []
    severity: list[str] = list(Status)
    for group in row:
        titles.append(group.title)
        arrivals.append(group.arrivals)
        if group.first_parked_at is not None:
            first_times.append(group.first_parked_at)
        if group.last_parked_at is not None:
            last_times.append(group.last_parked_at)
        if group.status in severity:
            statuses.append(group.status)

    return replace(
        row[0],
        title=common_text(titles),
        count=sum(group.count for group in row),
        share=sum(group.share for group in row),
        first_parked_at=min(first_times, default=None),
        last_parked_at=max(last_times, default=None),
        arrivals=tuple(map(sum, zip(*arrivals, strict=False))),
        status=min(statuses, key=severity.index, default=row[0].status),
    )


def count_statuses(statuses: Iterable[str], gone: int) -> dict[str, int]:
    """Count groups by status, in the order of ``Status``; those that none has are left out."""
    counts = Counter(statuses)
    counts[Status.GONE.value] += gone

    by_status = {}
    for status in Status:
        if counts[status.value]:
            by_status[status.value] = counts[status.value]
    return by_status


def format_statuses(statuses: Mapping[str, int]) -> str:
    """Format counts by status in one line: ``1 regressed · 2 new · 9 known · 3 gone``."""
    return " · ".join(f"{count:,} {status}" for status, count in statuses.items())


def format_difference(difference: Difference) -> str:
    """Format a difference in one line: ``body.tenant = acme: 87% here, 2% of all others``."""
    return f"{format_predicate(difference)}: {format_shares(difference)}"


def format_shares(difference: Difference) -> str:
    """Format the shares of a difference: ``87% here, 2% of all others``."""
    return (
        f"{percent(difference.group_share)} here, "
        f"{percent(difference.other_share)} of {difference.compared_with}"
    )


def format_predicate(predicate: Difference | Part | Synonym) -> str:
    """Format the condition of a difference: ``body.tenant = acme and body.customer is missing``."""
    if isinstance(predicate, Difference):
        return " and ".join(map(format_predicate, predicate.parts))

    state = state_of(predicate.value)
    if state:
        return f"{predicate.field} is {state}"
    return f"{predicate.field} = {predicate.value}"
