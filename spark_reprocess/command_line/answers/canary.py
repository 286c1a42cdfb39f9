"""The part of a redrive's answer that is about its canary."""

from spark_reprocess.canary.sampling import Drawn
from spark_reprocess.canary.verdict import CanaryReport, GroupVerdict, Verdict
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.figures import duration

_NAMED_GROUPS = 5
_NAMED_MESSAGES = 5


def print_drawn(drawn: Drawn) -> None:
    """Say what would go ahead, or should."""
    groups = [f"{group_id} {count:,}" for group_id, count in drawn.counts.items()]
    shown = ", ".join(groups[:_NAMED_GROUPS]) + (", …" if len(groups) > _NAMED_GROUPS else "")
    if drawn.is_recommended:
        say(
            f"recommended: --canary {drawn.total} --parked-queue-url URL sends {drawn.total:,} "
            f"messages ahead ({shown}) and the rest only of groups of which none comes back"
        )
    else:
        say(f"canary: {drawn.total:,} messages would go ahead ({shown})")
    say(
        f"  its verdict takes {duration(drawn.wait_seconds)} from when the main queue's backlog is "
        f"gone, which shows {duration(drawn.first_look_seconds)} after the send at the earliest"
    )
    if drawn.without:
        say(f"  no canary, and so stopped: {', '.join(drawn.without)}")


def print_verdict(report: CanaryReport) -> None:
    """Say what came of the canary, group by group, and what that means."""
    print_table(
        ("canary of group", "sent ahead", "came back", "may come back", "verdict", ""),
        [_row(one) for one in report.groups],
    )
    for one in report.groups:
        if one.failures:
            _print_failures(one)
    stopped = report.stopped_groups
    passed = len(report.groups) - len(stopped)
    say(
        f"canary: {passed:,} of {len(report.groups):,} groups passed after "
        f"{duration(report.waited_seconds)}; {report.archived:,} parked messages came into the "
        "archive meanwhile"
    )
    if counts := report.main_queue:
        say(
            f"main queue at the verdict: {counts.visible:,} waiting, {counts.in_flight:,} in "
            f"flight, {counts.delayed:,} delayed"
        )


def stopped_sentence(report: CanaryReport) -> str:
    """Say which groups were stopped, and what to do."""
    words = {
        Verdict.FAILED: "failed",
        Verdict.UNKNOWN: "unknown",
    }
    parts = [
        f"{words[verdict]}: {', '.join(ids)}"
        for verdict in words
        if (ids := [one.group_id for one in report.groups if one.verdict is verdict])
    ]
    return (
        f"stopped by the canary ({'; '.join(parts)}): the rest of these groups was not sent; what "
        "came back is in the archive for the next analyze; run the same command again once it is "
        "fixed, for a new canary of what is left"
    )


def _print_failures(one: GroupVerdict) -> None:
    """Name the canaries that came back, one a line, as ``show`` takes them."""
    say(f"came back of group {one.group_id} (show MESSAGE_ID tells more):")
    for first_id, error in list(one.failures.items())[:_NAMED_MESSAGES]:
        say(f"  {first_id}  {error}".rstrip())
    if len(one.failures) > _NAMED_MESSAGES:
        say(f"  … and {len(one.failures) - _NAMED_MESSAGES:,} more")


def _row(one: GroupVerdict) -> tuple[object, ...]:
    return (one.group_id, one.sent, one.returned, one.allowed, one.verdict.value, one.why)
