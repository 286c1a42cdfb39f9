"""``doctor``: checks an installation."""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from dlq_cli.stack.facts import Installation
from dlq_cli.stack.rules import Finding, Severity, examine
from dlq_cli.stack.survey import survey
from dlq_cli.stack_values import required
from spark_reprocess.command_line.terminal import print_answer, print_line, print_parts
from spark_reprocess.command_line.verb import CHECK_FAILED, DONE, Verb

_ABOUT = """\
Checks an installation: its queues, function, trigger, keys and table. Prints what is broken or at
risk, and what to change. Exit code 1 if something is broken. Changes nothing. It receives up to 10
parked messages and makes them visible again at once, unless you give --no-peek."""

_STYLES = {Severity.BROKEN: "red", Severity.RISK: "yellow", Severity.UNKNOWN: "cyan"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-peek",
        dest="peek",
        action="store_false",
        help="do not receive up to 10 parked messages to check the room for attributes",
    )


def _run(options: argparse.Namespace) -> int:
    installation = survey(options.session, required(options.stack), peek=options.peek)
    findings = examine(installation)
    found = [asdict(one) for one in findings]
    print_answer(
        {"function": installation.function_name, "findings": found},
        lambda: _print(installation, findings),
    )
    is_broken = any(one.severity is Severity.BROKEN for one in findings)
    return CHECK_FAILED if is_broken else DONE


def _print(installation: Installation, findings: Sequence[Finding]) -> None:
    queues = ", ".join(queue.name for queue in installation.queues)
    print_line(f"{installation.function_name}: {queues}")
    for one in findings:
        print_parts(
            (f"{one.severity.value:<8}", _STYLES[one.severity]),
            (f" {one.subject}: {one.fault}\n         to do: {one.fix}", ""),
        )
    counts = Counter(one.severity for one in findings)
    print_line(
        f"{counts[Severity.BROKEN]} broken, {counts[Severity.RISK]} at risk, "
        f"{counts[Severity.UNKNOWN]} could not be checked"
    )


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run)
