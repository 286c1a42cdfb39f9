"""The verdict of a canary on each group. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spark_reprocess.canary.options import Share
from spark_reprocess.clients import QueueCounts


class Verdict(StrEnum):
    """Whether the rest of a group may be sent; unknown stops the group as failed does."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on one group.

    Attributes:
        sent: canaries of which SQS confirmed that it has them.
        returned: canaries that came back to the parked queue.
        allowed: how many may come back.
        why: why the verdict is unknown; empty for the other verdicts.
        failures: the canaries that came back, by first id: the type of the recorded error, empty
            if none was recorded.
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
    """The verdicts on all groups.

    Attributes:
        waited_seconds: from the last send to the verdict.
        archived: messages of any kind that were drained into the archive meanwhile.
        main_queue: its counts at the last reading, None if there was none.
    """

    groups: tuple[GroupVerdict, ...]
    waited_seconds: float
    archived: int = 0
    main_queue: QueueCounts | None = None

    @property
    def stopped_groups(self) -> tuple[str, ...]:
        """The groups whose rest must not be sent."""
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


def judge(
    sent: Mapping[str, int],
    failures: Mapping[str, Mapping[str, str]],
    max_return: Share,
    unknown: str = "",
    never_sent: Iterable[tuple[str, str]] = (),
) -> tuple[GroupVerdict, ...]:
    """Judge each group by itself.

    Args:
        sent: by group id, how many canaries SQS confirmed.
        failures: by group id and first id, the error types of the canaries that came back.
        max_return: number or share of a group's canaries that may come back.
        unknown: why the wait gave no answer; empty if it did. Failures that were seen count in
            either case.
        never_sent: groups without a canary, and why.
    """
    judged = [
        _judge(group_id, count, failures.get(group_id, {}), max_return.at_most(count), unknown)
        for group_id, count in sent.items()
    ]
    missing = [GroupVerdict(one, 0, 0, 0, Verdict.UNKNOWN, why) for one, why in never_sent]
    return (*judged, *missing)


def _judge(
    group_id: str, sent: int, failures: Mapping[str, str], allowed: int, unknown: str
) -> GroupVerdict:
    verdict, why = Verdict.PASSED, ""
    if len(failures) > allowed:
        verdict = Verdict.FAILED
    elif why := unknown or ("" if sent else "none of its canaries is known to be sent"):
        verdict = Verdict.UNKNOWN
    return GroupVerdict(group_id, sent, len(failures), allowed, verdict, why, failures)
