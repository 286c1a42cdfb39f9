"""``gameday``: sends a test message through an installation and watches each joint."""

import argparse
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime

from dlq_cli.gameday.joints import Joint, Name, Report, Verdict
from dlq_cli.gameday.run import Clock, GameDay, announcement, prepare, who_is_notified
from dlq_cli.stack_values import required
from spark_reprocess.command_line.terminal import (
    AS_JSON,
    print_answer,
    print_line,
    print_parts,
)
from spark_reprocess.command_line.verb import CHECK_FAILED, DONE, Verb
from spark_reprocess.errors import InputError

_ABOUT = """\
Sends one test message through the real queues, watches each joint, and removes the message. Says
before what it does and what it costs, and asks. By default the message goes to the DLQ with its
replay count at MaxAttempts: the function parks it, and no consumer sees it. Alarms, topics and keys
are only read. Exit code 1 if a joint failed."""

_WORDS = {
    Name.SETTINGS: "settings",
    Name.SENT: "message sent",
    Name.CONSUMER: "main queue → consumer → DLQ → function",
    Name.FUNCTION: "DLQ → function",
    Name.PARKED: "parked",
    Name.METRIC: "metric seen",
    Name.ALARMS: "alarms",
    Name.TOPIC: "topic",
    Name.DRAIN: "drain",
    Name.RING: "alarm rung",
    Name.CLEAN_UP: "cleaned up",
}
_SIGNS = {
    Verdict.PASSED: ("✓", "green"),
    Verdict.FAILED: ("✗", "red"),
    Verdict.UNKNOWN: ("?", "cyan"),
    Verdict.SKIPPED: ("-", "dim"),
}
_PLAIN_SIGNS = {"✓": "ok", "✗": "FAILED", "→": "to", "·": "|"}

CLOCK = Clock(lambda: datetime.now(UTC), time.sleep)
"""The clock of this machine. Tests replace it."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--through-consumer",
        action="store_true",
        help="send the message to the main queue; your consumer has to fail on it",
    )
    parser.add_argument(
        "--ring",
        action="store_true",
        help="set an alarm off, which notifies its subscribers, and read whether it could",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _run(options: argparse.Namespace) -> int:
    stack = required(options.stack)
    if not options.yes and not sys.stdin.isatty():
        raise InputError("nobody can be asked here, because this is no terminal: add --yes")
    day = prepare(
        options.session,
        stack,
        CLOCK,
        through_consumer=options.through_consumer,
        ring=options.ring,
    )
    for line in announcement(day):
        print_line(line, sys.stderr)
    if not options.yes and not _is_agreed(day):
        raise InputError("nothing was done")
    report = day.run(lambda joint: None if AS_JSON.get() else _print(joint))
    print_answer(asdict(report) | {"has_failed": report.has_failed}, lambda: _print_end(report))
    return CHECK_FAILED if report.has_failed else DONE


def _is_agreed(day: GameDay) -> bool:
    questions = ["Go on?"]
    if day.ringing:
        questions.append(who_is_notified(day.ringing, day.subscribers))
    return all(_ask(question) for question in questions)


def _ask(question: str) -> bool:
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _print(joint: Joint) -> None:
    sign, style = _SIGNS[joint.verdict]
    rest = _shown(f"{_timed(joint)}: {joint.observed}")
    print_parts((f"{_shown(sign):<7}", style), (rest, ""))
    for cause in joint.causes:
        print_line(f"       {cause.subject}: {cause.fault}")
        print_line(f"       to do: {cause.fix}")


def _print_end(report: Report) -> None:
    parts = [
        f"{_timed(joint)} {_SIGNS[joint.verdict][0]}{_first_cause(joint)}"
        for joint in report.joints
        if joint.verdict is not Verdict.SKIPPED
    ]
    print_line("")
    print_line(_shown(" · ".join(parts)))


def _first_cause(joint: Joint) -> str:
    return f" {joint.causes[0].subject}: {joint.causes[0].fault}" if joint.causes else ""


def _timed(joint: Joint) -> str:
    words = _WORDS[joint.name]
    return words if joint.seconds is None else f"{words} {joint.seconds:.1f} s"


def _shown(text: str) -> str:
    """Return *text*, in ASCII where the terminal or the pipe has no Unicode."""
    if (sys.stdout.encoding or "").lower().startswith("utf"):
        return text
    for sign, plain in _PLAIN_SIGNS.items():
        text = text.replace(sign, plain)
    return text


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run)
