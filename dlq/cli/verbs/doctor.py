"""``doctor``: checks an installation."""

import argparse
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import AS_JSON, print_answer, print_line, print_parts
from dlq.cli.verb import CHECK_FAILED, DONE, Verb
from dlq.cli.verbs import require_yes
from dlq.cli.verbs.doctor_all import examine_all, print_findings
from dlq.errors import InputError
from dlq.figures import counted, duration
from dlq.stack.outputs import clients_of, read_stack, required
from dlq.stack.rules import (
    FleetInstallation,
    Installation,
    Severity,
    StackFinding,
    examine,
    replay_time,
)
from dlq.stack.survey import survey, survey_fleet
from dlq.stack.trial import Check, Trial

_ABOUT = """\
Checks an installation: its queues, function, trigger, keys, table and log groups; of a fleet
without its members. Prints what is broken or at risk, and what to change, and when a message that
always fails is parked. Exit code 1 if something is broken. Changes nothing.

With --send-test-message it also sends one marked message to the DLQ, whose counter makes the
function park it: no consumer sees it. It finds the message among at most 100 parked ones, compares
it and deletes it.

With --all it lists the DLQs of the account and Region: which are members of the fleet of --stack
(a stack with QueueTag), which could join it by a tag, and what is at risk then. It prints the
commands; --tag runs them after a question. Whoever may tag a queue may let it join. Exit code 1 if
something that has joined is broken, or a queue could not be tagged."""

_VERDICTS = {True: ("works", "green"), False: ("broken", "red"), None: ("unknown", "cyan")}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--send-test-message",
        action="store_true",
        help="send one message through the DLQ, the function and the parked queue",
    )
    parser.add_argument(
        "--through-consumer",
        action="store_true",
        help="send the test message to the main queue; your consumer has to fail on it",
    )
    parser.add_argument(
        "--all", action="store_true", help="look at all DLQs of the account and Region"
    )
    parser.add_argument(
        "--tag", action="store_true", help="with --all: tag the queues that could join"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask before --through-consumer and --tag"
    )


def _run(options: argparse.Namespace) -> int:
    if options.through_consumer and not options.send_test_message:
        raise InputError("--through-consumer: add --send-test-message")
    if options.tag and not options.all:
        raise InputError("--tag: add --all")
    if options.all and options.send_test_message:
        raise InputError("--send-test-message: needs the one DLQ of a stack; leave --all out")
    if options.all:
        return examine_all(options)

    stack = read_stack(options.session, required(options.stack))
    facts: Installation | FleetInstallation
    if stack.queue_tag and not options.send_test_message:
        facts = survey_fleet(options.session, stack)
    else:
        facts = survey(options.session, stack)
    findings = examine(facts)
    if not AS_JSON.get():
        _print(facts, findings)

    checks: list[Check] = []
    if options.send_test_message and isinstance(facts, Installation):
        checks = _send_test_message(options, facts)

    parked_after_seconds = None
    if isinstance(facts, Installation):
        parked_after_seconds = round(replay_time(facts).total_seconds)
    answer = {
        "function": facts.function_name,
        "findings": list(map(asdict, findings)),
        "parked_after_seconds": parked_after_seconds,
        "test_message": list(map(asdict, checks)),
    }
    print_answer(answer, lambda: None)

    is_broken = any(finding.severity is Severity.BROKEN for finding in findings)
    has_failed = any(check.works is False for check in checks)
    return CHECK_FAILED if is_broken or has_failed else DONE


def _send_test_message(options: argparse.Namespace, installation: Installation) -> list[Check]:
    """Send one message through the installation; print each check as soon as it is known."""
    if options.through_consumer and not options.yes:
        main = installation.main
        require_yes(
            f"The consumer of {main.name} gets a message whose body it does not know, up to "
            f"{main.max_receive_count} times. It has to fail on it.",
            "add --yes",
        )

    trial = Trial(
        client=clients_of(options.session),
        installation=installation,
        trial_id=secrets.token_hex(8),
        through_consumer=options.through_consumer,
    )
    checks = []
    for check in trial.run():
        checks.append(check)
        if not AS_JSON.get():
            _print_check(check)
    return checks


def _print_check(check: Check) -> None:
    verdict, style = _VERDICTS[check.works]
    observed = f" test message, {check.name}: {check.observed}"
    print_parts((f"{verdict:<8}", style), (observed, ""))
    for cause in check.causes:
        print_line(f"{'':<9}{cause.subject}: {cause.fault}\n{'':<9}to do: {cause.fix}")


def _print(facts: Installation | FleetInstallation, findings: Sequence[StackFinding]) -> None:
    queues = ", ".join(queue.name for queue in facts.queues)
    print_line(f"{facts.function_name}: {queues}")
    print_findings(findings)

    counts = Counter(finding.severity for finding in findings)
    print_line(
        f"{counts[Severity.BROKEN]} broken, {counts[Severity.RISK]} at risk, "
        f"{counts[Severity.UNKNOWN]} could not be checked"
    )
    if isinstance(facts, Installation):
        print_line(_replay_time_in_words(facts))
    if isinstance(facts, FleetInstallation):
        print_line("next, for its members and what could join:")
        print_line(f"  {suggested_command('doctor', '', '--all')}")


def _replay_time_in_words(installation: Installation) -> str:
    """Format when a message that always fails is parked, and why then."""
    time = replay_time(installation)
    main = installation.main
    text = (
        f"a message of {main.name} that always fails is parked after about "
        f"{duration(time.total_seconds)}: {counted(time.replays, 'replay')}, which wait for about "
        f"{duration(time.wait_seconds)} in all, and up to {duration(time.try_seconds)} until each "
        f"try has failed ({counted(main.max_receive_count or 1, 'receive')} of "
        f"{duration(main.visibility_timeout_seconds)})"
    )
    if time.most_seconds is not None:
        text += f"; none after {duration(time.most_seconds)}"
    return text


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
)
