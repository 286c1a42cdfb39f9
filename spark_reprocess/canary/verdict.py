"""What a canary says of each group. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from spark_reprocess.canary.share import Share
from spark_reprocess.queue_counts import QueueCounts


class Verdict(StrEnum):
    """Whether the rest of a group may follow; unknown stops like failure."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on one group.

    Attributes:
        sent: canaries of which SQS confirmed that it has them.
        returned: canaries that came back to the parked queue.
        allowed: how many of them may.
        why: what is not known; empty for the other verdicts.
        failures: of those that came back, by first id, the type of the recorded error; empty where
            none was recorded.
    """

    group_id: str
    sent: int
    returned: int
    allowed: int
    verdict: Verdict
    why: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """A whole canary.

    Attributes:
        waited_seconds: from its last send to the verdict.
        archived: messages that came into the archive while it was waited for, of any kind.
        main_queue: its counts at the last look, None where there was none.
    """

    groups: tuple[GroupVerdict, ...]
    waited_seconds: float
    archived: int = 0
    main_queue: QueueCounts | None = None

    @property
    def stopped_groups(self) -> tuple[str, ...]:
        """The groups whose rest must not follow."""
        return tuple(one.group_id for one in self.groups if one.verdict is not Verdict.PASSED)


def joined(reports: Sequence[CanaryReport]) -> CanaryReport | None:
    """Join the reports of canaries that went to different queues; None where there is none."""
    if not reports:
        return None
    return CanaryReport(
        tuple(group for one in reports for group in one.groups),
        sum(one.waited_seconds for one in reports),
        sum(one.archived for one in reports),
        reports[0].main_queue if len(reports) == 1 else None,
    )


def with_failures(
    groups: Iterable[GroupVerdict], failures: Mapping[str, Mapping[str, str]]
) -> tuple[GroupVerdict, ...]:
    """Add which canaries came back, by group id and first id, with the type of their error."""
    return tuple(replace(one, failures=failures.get(one.group_id, {})) for one in groups)


def judge(
    sent: Mapping[str, int],
    returned: Mapping[str, int],
    max_return: Share,
    unknown: str = "",
    never_sent: Iterable[tuple[str, str]] = (),
) -> tuple[GroupVerdict, ...]:
    """Judge each group by itself.

    Args:
        sent: by group id, how many canaries SQS confirmed.
        returned: by group id, how many came back.
        max_return: how many, or what share, of a group's canaries may come back.
        unknown: why the wait told nothing; empty where it did. Failures that were seen count
            all the same.
        never_sent: groups without a canary, and why.
    """
    judged = [
        _judge(group_id, count, returned.get(group_id, 0), max_return.at_most(count), unknown)
        for group_id, count in sent.items()
    ]
    missing = [GroupVerdict(one, 0, 0, 0, Verdict.UNKNOWN, why) for one, why in never_sent]
    return (*judged, *missing)


def _judge(group_id: str, sent: int, returned: int, allowed: int, unknown: str) -> GroupVerdict:
    if returned > allowed:
        return GroupVerdict(group_id, sent, returned, allowed, Verdict.FAILED)
    why = unknown or ("" if sent else "none of its canaries is known to be sent")
    verdict = Verdict.UNKNOWN if why else Verdict.PASSED
    return GroupVerdict(group_id, sent, returned, allowed, verdict, why)
