"""The arguments of a canary, and the options that they make."""

import argparse
from typing import Any

from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.share import NONE, Share
from spark_reprocess.command_line.argument_types import above_zero, whole_number
from spark_reprocess.errors import InputError

_NAMES = (
    "canary",
    "canary_wait",
    "canary_max_return",
    "force_canary_wait",
    "consumer_max_seconds",
)

_LONGEST_HIDDEN_SECONDS = 43_200
"""SQS hides a message for at most 12 hours after its receive."""


def add_canary(parser: argparse.ArgumentParser) -> None:
    """Add them; the parked queue, where failures come back, is an argument of the verb's own."""
    group = parser.add_argument_group("canary")
    add = group.add_argument
    add(
        "--canary",
        type=_size,
        metavar="N|P%",
        help="send so many messages ahead, over all groups by size, at least one of each",
    )
    add(
        "--canary-wait",
        type=above_zero,
        metavar="S",
        help="seconds to wait for failures once the destination's backlog is gone, and first as "
        "long for that (default: the least that tells: its visibility timeout, or "
        "--consumer-max-seconds if that is more, x maxReceiveCount + 60); both begin 60 s after "
        "the send, because SQS's counts lag",
    )
    add(
        "--consumer-max-seconds",
        type=whole_number(1, _LONGEST_HIDDEN_SECONDS),
        metavar="S",
        help="the longest that the consumer keeps one message hidden, where it extends the "
        "visibility of its messages, as the consumer kit's heartbeat does: its longest work on "
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
        help="take --canary-wait although a failure may need longer to come back, and at most "
        "as long instead of the first 60 s; for tests and demos",
    )


def take_canary(values: dict[str, Any]) -> CanaryOptions | None:
    """Take the canary's arguments out of *values*; None where no canary is asked for.

    ``parked_queue_url`` stays: it means something without a canary, too.

    Raises:
        InputError: they do not fit together.
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
