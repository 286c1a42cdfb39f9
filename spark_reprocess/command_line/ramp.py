"""The ramp of ``redrive`` and ``run``: its arguments, and its part of the answer."""

import argparse
import os
from collections.abc import Sequence

from spark_reprocess.command_line.terminal import print_line, print_table
from spark_reprocess.figures import counted, duration
from spark_reprocess.ramp.rule import Forecast, GroupRamp, Verdict, read_allowed


def add_ramp(parser: argparse.ArgumentParser) -> None:
    """Add the ramp's arguments; ``--parked-queue-url`` and ``--failure-table`` are the verbs'.

    DLQ_MINUTE_SECONDS shortens its minutes, for demonstrations.
    """
    parser.set_defaults(minute_seconds=float(os.environ.get("DLQ_MINUTE_SECONDS", "60")))
    group = parser.add_argument_group("ramp")
    how = group.add_mutually_exclusive_group()
    how.add_argument(
        "--ramp",
        action="store_true",
        default=None,
        help="send 1, 2, 6, 18, ... messages of each group, each step after the one before is "
        "known to be good (default where --failure-table and --parked-queue-url are given)",
    )
    how.add_argument(
        "--at-once", dest="ramp", action="store_false", help="send everything in one step"
    )
    group.add_argument(
        "--allow-returns",
        type=_allowed,
        metavar="N|P%",
        help="how many messages of a group may come back (default: none of the first 20, one up "
        "to 100, then 1%% of what was sent)",
    )
    group.add_argument(
        "--function-arn",
        metavar="ARN",
        help="the replay function: a step is good only while something feeds it, and it had no "
        "errors",
    )


def _allowed(text: str) -> str:
    try:
        return read_allowed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def print_forecast(forecast: Forecast) -> None:
    """Print how many steps a ramp would have, and how long it takes."""
    print_line(
        f"ramp: up to {counted(len(forecast.sizes), 'step')} a group, at least "
        f"{duration(forecast.seconds)} in all; --at-once sends everything in one step"
    )


def print_ramp(groups: Sequence[GroupRamp]) -> None:
    """Print how far each group is."""
    print_table(
        ("ramp of group", "step", "sent", "came back", "may", "verdict", ""),
        [
            (
                one.group_id,
                f"{one.step} of {one.steps}",
                one.sent,
                "?" if one.returned is None else one.returned,
                one.allowed,
                one.verdict.value,
                one.why,
            )
            for one in groups
        ],
    )


def stopped_sentence(groups: Sequence[GroupRamp]) -> str:
    """Format which groups are stopped, and what to do."""
    bad = [one.group_id for one in groups if one.verdict is Verdict.BAD]
    which = f"stopped: {', '.join(bad)}" if bad else "groups of the plan are stopped"
    return (
        f"{which}: more came back than may, and the rest was not sent; collect shows "
        "what came back; once it is fixed, decide again, and the next ramp begins with step one"
    )
