"""``python -m dlq_cli.stack VERB STACK``: examine, pause or resume a live installation."""

import argparse
import sys
from collections.abc import Callable, Sequence

import boto3

from dlq_cli.stack.facts import Installation
from dlq_cli.stack.rules import Finding, Severity, examine
from dlq_cli.stack.survey import SurveyError, survey
from dlq_cli.stack.trigger import switch

DONE, FOUND, BAD_INPUT = 0, 1, 2

_COLOURS = {Severity.BROKEN: "31", Severity.RISK: "33", Severity.UNKNOWN: "36"}


def main(
    argv: Sequence[str] | None = None,
    make_session: Callable[..., boto3.session.Session] = boto3.session.Session,
) -> int:
    """Run one verb; return its exit code.

    0 done, and nothing is broken; 1 the doctor found something broken; 2 bad arguments, or the
    stack cannot be examined.
    """
    arguments = _parser().parse_args(argv)
    session = make_session(profile_name=arguments.profile, region_name=arguments.region)
    try:
        if arguments.verb == "doctor":
            return _doctor(survey(session, arguments.stack, look=arguments.look))
        for line in switch(session, arguments.stack, on=arguments.verb == "resume"):
            print(line)
    except SurveyError as error:
        print(f"dlq_cli.stack: {error}", file=sys.stderr)
        return BAD_INPUT
    if arguments.verb == "pause":
        print("Dead letters now stay in the DLQ, and their retention goes on: resume in time.")
    return DONE


def _doctor(installation: Installation) -> int:
    findings = examine(installation)
    queues = ", ".join(queue.name for queue in installation.queues)
    print(f"{installation.function_name}: {queues}")
    for finding in findings:
        print(_spell(finding))
    broken = sum(finding.severity is Severity.BROKEN for finding in findings)
    risks = sum(finding.severity is Severity.RISK for finding in findings)
    unknown = len(findings) - broken - risks
    print(f"{broken} broken, {risks} at risk, {unknown} could not be examined")
    return FOUND if broken else DONE


def _spell(finding: Finding) -> str:
    word = f"{finding.severity.value:<8}"
    if sys.stdout.isatty():
        word = f"\x1b[{_COLOURS[finding.severity]}m{word}\x1b[0m"
    return f"{word} {finding.subject}: {finding.fault}\n         to do: {finding.fix}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dlq_cli.stack",
        description="Looks after a deployed stack. Credentials and endpoint are boto3's.",
        epilog="exit codes: 0 done, nothing broken; 1 the doctor found something broken; "
        "2 bad arguments, or the stack cannot be examined",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    doctor = _verb(verbs, "doctor", "check queues, function and trigger; say what to change")
    doctor.add_argument(
        "--no-look",
        dest="look",
        action="store_false",
        help="do not receive (and give back) up to 10 parked messages to see how much room their "
        "attributes leave",
    )
    _verb(verbs, "pause", "stop automatic replay; dead letters stay in the DLQ")
    _verb(verbs, "resume", "start it again")
    return parser


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("stack", metavar="STACK", help="the stack's name")
    parser.add_argument("--region", help="its Region (default: boto3's own)")
    parser.add_argument("--profile", help="whose credentials to use (default: boto3's own)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
