"""``doctor --all``: which DLQs of an account and Region are members of a fleet, which could be."""

import argparse
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq.cli.terminal import AS_JSON, print_answer, print_line, print_parts, print_table
from dlq.cli.verb import CHECK_FAILED, DONE, PLACE_WORDS
from dlq.cli.verbs import require_yes
from dlq.errors import InputError
from dlq.figures import counted
from dlq.stack.fleet_rules import (
    AccountFacts,
    ExaminedDlq,
    Membership,
    examine_dlq,
    examine_fleet,
)
from dlq.stack.fleet_survey import survey_account
from dlq.stack.outputs import read_stack
from dlq.stack.rules import Severity, StackFinding, by_severity
from dlq_replay.aws.sqs import describe
from dlq_replay.aws.tagged_queues import TAG_KEY

SEVERITY_STYLES = {Severity.BROKEN: "red", Severity.RISK: "yellow", Severity.UNKNOWN: "cyan"}

_NAMES = 5
"""Queues that a finding names; the others are in the answer of ``--json``."""

_MEMBERS = (Membership.JOINED, Membership.IN_PART)
_TAGGABLE = (Membership.OPEN, Membership.IN_PART)

_LEAVING = (
    "a DLQ with held messages that leaves (aws sqs untag-queue) keeps them: they become visible "
    "within 12 hours, and stay there until its retention ends or it joins again"
)
_LATER = "SQS and the function see a new tag only some minutes later"


def examine_all(options: argparse.Namespace) -> int:
    """Print the DLQs of the account and Region, let them join where asked to; see the verb's help.

    Raises:
        InputError: the queues cannot be listed, or ``--tag`` has no fleet.
    """
    stack = read_stack(options.session, options.stack) if options.stack else None
    if options.tag and not (stack and stack.queue_tag):
        raise InputError(
            "--tag: give --stack NAME of a fleet, a stack with QueueTag, whose tag the queues get"
        )

    account = survey_account(options.session, stack)
    tag = account.fleet.tag if account.fleet else None
    dlqs = [examine_dlq(facts) for facts in account.dlqs]
    fleet_findings = examine_fleet(account)
    members = [dlq for dlq in dlqs if dlq.state in _MEMBERS]
    notes = list(_notes(account, members))
    urls: list[str] = []
    for dlq in dlqs:
        if tag and dlq.state in _TAGGABLE:
            urls += dlq.untagged_urls
    commands = [_tag_command(url, f"{TAG_KEY}={tag}") for url in urls]
    if not AS_JSON.get():
        _print(dlqs, fleet_findings, notes, commands)

    tagged = _tag(options, urls, tag) if options.tag and tag and urls else []
    answer = {
        "queue_tag": tag,
        "queues": account.queue_count,
        "dlqs": list(map(asdict, dlqs)),
        "findings": list(map(asdict, fleet_findings)),
        "notes": notes,
        "commands": commands,
        "tagged": tagged,
    }
    print_answer(answer, lambda: None)

    findings = [*fleet_findings, *chain.from_iterable(dlq.findings for dlq in members)]
    is_broken = any(finding.severity is Severity.BROKEN for finding in findings)
    has_failed = any(result["fault"] for result in tagged)
    return CHECK_FAILED if is_broken or has_failed else DONE


def _tag_command(url: str, tag: str) -> str:
    words = ["aws", "sqs", "tag-queue", "--queue-url", url, "--tags", tag]
    return shlex.join([*words, *PLACE_WORDS.get()])


def _tag(options: argparse.Namespace, urls: Sequence[str], tag: str) -> list[dict[str, str]]:
    """Tag queues after a question, and print each result. To tag one again changes nothing.

    Returns:
        The ``queue_url`` of each, and the ``fault``, why it has no tag; empty if it has.
    """
    if not options.yes:
        require_yes(
            f"{counted(len(urls), 'queue')} get the tag {TAG_KEY}={tag}: then the function of "
            f"stack {options.stack} replays their dead letters.",
            "add --yes",
        )

    sqs = options.session.client("sqs")
    results: list[dict[str, str]] = []
    for url in urls:
        fault = ""
        try:
            sqs.tag_queue(QueueUrl=url, Tags={TAG_KEY: tag})
        except (ClientError, BotoCoreError) as error:
            fault = describe(error)
        results.append({"queue_url": url, "fault": fault})
        if not AS_JSON.get():
            print_line(f"not tagged: {url}: {fault}" if fault else f"tagged: {url}")
    return results


def _notes(account: AccountFacts, members: Sequence[ExaminedDlq]) -> Iterator[str]:
    if not account.queue_count:
        yield "no queue in this account and Region (--region, --profile)"
        return
    if not account.dlqs:
        yield (
            f"{counted(account.queue_count, 'queue')}, and none is a DLQ: set the RedrivePolicy of "
            "a source queue"
        )
    if account.fleet is None:
        yield (
            "no fleet is chosen: --stack NAME of a stack with QueueTag adds the commands by which "
            "queues join it, and checks its members"
        )
    if account.tags is None:
        yield "tags cannot be read (tag:GetResources), so nobody can say which queues are members"

    if any(dlq.held for dlq in members):
        yield _LEAVING


def _print(
    dlqs: Sequence[ExaminedDlq],
    fleet_findings: Sequence[StackFinding],
    notes: Sequence[str],
    commands: Sequence[str],
) -> None:
    if dlqs:
        rows: list[Sequence[object]] = []
        for dlq in dlqs:
            sources = ", ".join(dlq.sources)
            rows.append((dlq.queue, sources, dlq.state, dlq.tag or "", dlq.visible, dlq.held))
        headings = ("DLQ", "sources", "state", "tag", "visible", "held")
        print_table(headings, rows, spare=("tag", "sources"))

    print_findings([*fleet_findings, *chain.from_iterable(dlq.findings for dlq in dlqs)])
    counts = Counter(dlq.state for dlq in dlqs)
    if counts:
        print_line(", ".join(f"{counts[state]} {state}" for state in Membership if counts[state]))
    for note in notes:
        print_line(f"note: {note}")
    if commands:
        print_line(f"to join ({_LATER}):")
    for command in commands:
        print_line(f"  {command}")


def print_findings(findings: Sequence[StackFinding]) -> None:
    """Print findings, the most severe first; those with the same words in one."""
    subjects = defaultdict[tuple[Any, ...], list[str]](list)
    for finding in by_severity(findings):
        subjects[finding.severity, finding.fault, finding.fix].append(finding.subject)

    for (severity, fault, fix), names in subjects.items():
        shown = ", ".join(names[:_NAMES])
        if len(names) > _NAMES:
            shown += f" and {len(names) - _NAMES:,} more"
        print_parts(
            (f"{severity:<8}", SEVERITY_STYLES[severity]),
            (f" {shown}: {fault}\n         to do: {fix}", ""),
        )
