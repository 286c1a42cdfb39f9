"""The canary of ``redrive`` and ``run``: its arguments, and its part of the answer."""

import argparse
from typing import Any

from spark_reprocess.canary.options import NONE, CanaryOptions, CanarySample, Share
from spark_reprocess.canary.watch import CanaryReport, GroupVerdict, Verdict
from spark_reprocess.command_line.arguments import positive_number, whole_number
from spark_reprocess.command_line.terminal import print_line, print_table
from spark_reprocess.command_line.verb import STACK
from spark_reprocess.errors import InputError
from spark_reprocess.figures import duration
from spark_reprocess.plan.policy import LONGEST_HIDDEN_SECONDS

_NAMES = (
    "canary",
    "canary_wait",
    "canary_max_return",
    "force_canary_wait",
    "consumer_max_seconds",
)


def add_canary(parser: argparse.ArgumentParser) -> None:
    """Add the canary's arguments; ``--parked-queue-url`` is added by the verbs."""
    group = parser.add_argument_group("canary")
    add = group.add_argument
    add(
        "--canary",
        type=_size,
        metavar="N|P%",
        help="send so many messages first, over all groups by size, at least one of each",
    )
    add(
        "--canary-wait",
        type=positive_number,
        metavar="S",
        help="seconds to wait for failures after the destination's backlog is gone, and at most as "
        "long for that (default: the shortest wait that suffices: its visibility timeout, or "
        "--consumer-max-seconds if that is more, x maxReceiveCount + 60); both start 60 s after "
        "the send, because SQS's counts lag",
    )
    add(
        "--consumer-max-seconds",
        type=whole_number(1, LONGEST_HIDDEN_SECONDS),
        metavar="S",
        help="for a consumer that extends the visibility of its messages, as the consumer kit's "
        "heartbeat does: the longest time that it keeps one message hidden, its longest work on "
        "one message plus the heartbeat's timeout (default: the destination's visibility timeout)",
    )
    add(
        "--canary-max-return",
        type=_share,
        metavar="N|P%",
        help="how many of a group's canaries may come back (default: 0)",
    )
    add(
        "--force-canary-wait",
        action="store_true",
        help="use --canary-wait although a failure may take longer to come back, and also instead "
        "of the first 60 s if it is less; for tests and demos",
    )


def take_canary(values: dict[str, Any]) -> CanaryOptions | None:
    """Take the canary's arguments out of *values*; return None where no canary is asked for.

    ``parked_queue_url`` stays: the verbs need it without a canary, too.

    Raises:
        InputError: the arguments contradict each other.
    """
    taken = {name: values.pop(name) for name in _NAMES}
    if taken["canary"] is None:
        given = [name for name in _NAMES[1:] if taken[name]]
        if given:
            option = given[0].replace("_", "-")
            raise InputError(f"--{option}: means nothing without --canary")
        return None
    if values["parked_queue_url"] is None:
        raise InputError("--canary needs --parked-queue-url: where its failures come back")
    if taken["force_canary_wait"] and taken["canary_wait"] is None:
        raise InputError("--force-canary-wait needs --canary-wait: how long to wait")
    return CanaryOptions(
        size=taken["canary"],
        parked_queue_url=values["parked_queue_url"],
        wait_seconds=taken["canary_wait"],
        max_return=taken["canary_max_return"] or NONE,
        is_wait_forced=taken["force_canary_wait"],
        consumer_max_seconds=taken["consumer_max_seconds"],
    )


def _size(text: str) -> Share:
    share = _share(text)
    if not share.number:
        raise argparse.ArgumentTypeError(f"{text!r}: must be above 0; leave --canary out for none")
    return share


def _share(text: str) -> Share:
    try:
        return Share.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


_NAMED_GROUPS = 5
_NAMED_MESSAGES = 5


def print_sample(sample: CanarySample) -> None:
    """Print which canary a run would send, or which one is recommended."""
    groups = [f"{group_id} {count:,}" for group_id, count in sample.counts.items()]
    shown = ", ".join(groups[:_NAMED_GROUPS]) + (", …" if len(groups) > _NAMED_GROUPS else "")
    if sample.is_recommended:
        queue = "" if STACK.get() else " --parked-queue-url URL"
        print_line(
            f"recommended: --canary {sample.total}{queue} sends {sample.total:,} "
            f"messages first ({shown}) and the rest only of groups of which none comes back"
        )
    else:
        print_line(f"canary: {sample.total:,} messages would be sent first ({shown})")
    print_line(
        f"  its verdict takes {duration(sample.wait_seconds)} from when the main queue's backlog "
        f"is gone, which shows {duration(sample.stale_seconds)} after the send at the earliest"
    )
    if sample.without:
        print_line(f"  no canary, and so stopped: {', '.join(sample.without)}")


def print_verdict(report: CanaryReport) -> None:
    """Print the verdict of each group, and the messages that came back."""
    print_table(
        ("canary of group", "sent ahead", "came back", "may come back", "verdict", ""),
        [
            (one.group_id, one.sent, one.returned, one.allowed, one.verdict.value, one.why)
            for one in report.groups
        ],
    )
    for one in report.groups:
        if one.failures:
            _print_failures(one)
    stopped = report.stopped_groups
    passed = len(report.groups) - len(stopped)
    print_line(
        f"canary: {passed:,} of {len(report.groups):,} groups passed after "
        f"{duration(report.waited_seconds)}; {report.archived:,} parked messages came into the "
        "archive meanwhile"
    )
    if counts := report.main_queue:
        print_line(
            f"main queue at the verdict: {counts.visible:,} waiting, {counts.in_flight:,} in "
            f"flight, {counts.delayed:,} delayed"
        )


def stopped_sentence(report: CanaryReport) -> str:
    """Format which groups were stopped, and what to do."""
    parts = [
        f"{verdict.value}: {', '.join(ids)}"
        for verdict in (Verdict.FAILED, Verdict.UNKNOWN)
        if (ids := [one.group_id for one in report.groups if one.verdict is verdict])
    ]
    return (
        f"stopped by the canary ({'; '.join(parts)}): the rest of these groups was not sent; what "
        "came back is in the archive for the next analyze; run the same command again once it is "
        "fixed, for a new canary of what is left"
    )


def _print_failures(one: GroupVerdict) -> None:
    """Print the canaries that came back, one a line, by the id that ``show`` takes."""
    print_line(f"came back of group {one.group_id} (details: show MESSAGE_ID):")
    for first_id, error in list(one.failures.items())[:_NAMED_MESSAGES]:
        print_line(f"  {first_id}  {error}".rstrip())
    if len(one.failures) > _NAMED_MESSAGES:
        print_line(f"  … and {len(one.failures) - _NAMED_MESSAGES:,} more")
