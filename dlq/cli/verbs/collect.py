"""``collect``: parked queue to archive, archive to report and plan."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dlq.archive.messages.message_index import REPORTS
from dlq.archive.storage.files import Archive, open_archive, open_folder
from dlq.aws.clients import find_queue, queue_counts, require_queue, sqs_client
from dlq.cli.arguments import add_parked_queues, add_shared, since, whole_number
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import print_answer, print_error, print_line, print_table
from dlq.cli.verb import (
    BAD_INPUT,
    DONE,
    STACK,
    Verb,
    progress_here,
)
from dlq.errors import InputError
from dlq.explain.findings import (
    LEAST_GROUP,
    NO_QUEUE,
    TOO_FEW,
    Findings,
    GroupFinding,
    format_difference,
    format_statuses,
)
from dlq.explain.grouping import check_group_by
from dlq.explain.signature.mask import shorten
from dlq.figures import counted, duration, percent, quantity
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.addresses import QueueAddress, is_queue_name

if TYPE_CHECKING:
    from dlq.drain.drain import DrainSummary
    from dlq.engine import Engine

_ABOUT = """\
Drains the parked queue into the archive, and writes each message durably before it deletes it.
Then groups the archive's pending messages by failure, and finds what sets each group apart (its
differences). Writes report.html, summary.json and groups.parquet for programs, and plan.yaml, in
which each group's action is "leave" unless a rule of a policy sets another one.

Titles and differences are printed on a terminal only: elsewhere, as in the log of a scheduled job,
you get group ids and counts. Run it again at any time. docs/analysis.md explains groups and
differences."""

_DRAIN = "drain"
_ANALYZE = "analyze"
_DRAIN_OPTIONS = ("limit", "time_budget_seconds", "tasks", "wait_seconds")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "queue",
        nargs="?",
        metavar="QUEUE",
        help="URL, ARN or name of the parked queue to drain, in place of --parked-queue-url",
    )
    parser.add_argument("--only", choices=(_DRAIN, _ANALYZE), help="do this part, with its options")

    drain = parser.add_argument_group("the drain")
    add_parked_queues(drain)
    add_shared(drain, "--limit", "--time-budget-seconds")
    drain.add_argument(
        "--tasks",
        type=whole_number(1),
        metavar="N",
        help="tasks in parallel (default: one for each 2,000 messages that SQS counts, at most "
        "30, and on one machine at most one for each core)",
    )
    drain.add_argument(
        "--wait-seconds",
        type=whole_number(0, 20),
        metavar="S",
        help="length of a long poll, 0 to 20; a task ends after three empty ones if SQS counts no "
        "visible message (default: 1)",
    )

    analysis = parser.add_argument_group("the analysis")
    add = analysis.add_argument
    add("--out", metavar="FOLDER", help="the report's folder (default: PLACE/reports/ID)")
    add_shared(analysis, "--where")
    add(
        "--queue",
        dest="source",
        metavar="NAME",
        help="only messages that came from this source queue; the drain takes all",
    )
    add(
        "--since",
        type=since,
        metavar="AGE|TIME",
        help="only messages parked since then: 45m, 12h, 7d, 2w, or a time such as "
        "2026-11-01T09:30:00Z; the plan keeps the time",
    )
    add_shared(analysis, "--policy", "--policy-sha256")
    add_shared(analysis, "--logs", "--logs-limit")
    add(
        "--group-by",
        metavar="PATTERN",
        help="a regular expression (RE2) with one group in brackets: errors of one type are one "
        "group where it captures the same in 'TYPE: TEXT'; it sees the masked text, as in titles. "
        "The archive remembers it; '' takes it away",
    )
    add_shared(analysis, "--mask", "--no-samples")


def _make_options(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - argparse's
    if values["only"] != _ANALYZE and not (values["queue"] or values["parked_queue_urls"]):
        raise InputError(f"QUEUE is missing: without it only --only {_ANALYZE} works")
    source = values.pop("source")
    if source is not None:
        values["where"] = _of_source(source, values["where"])
    if values["group_by"]:
        check_group_by(values["group_by"])
    return values


def _of_source(name: str, where: str | None) -> str:
    """Return the condition *where* of messages that came from this queue. Raises InputError."""
    if not is_queue_name(name):
        raise InputError(f"--queue {name}: must be the name of a queue")
    by_arn = f"source_queue IS NULL AND endswith(source_arn, ':{name}')"
    of_source = f"(source_queue = '{name}' OR {by_arn})"
    # A comment would hide the bracket.
    return of_source if where is None else f"{of_source} AND ({where}\n)"


def _run(values: dict[str, Any]) -> int:
    from dlq.archive.messages.message_store import message_files
    from dlq.drain.drain import DrainRequest, drain_each
    from dlq.explain.analyze import AnalysisRequest, analyze, load_policy

    only = values.pop("only")
    queue = values.pop("queue")
    urls = values.pop("parked_queue_urls")
    if queue and only != _ANALYZE:
        urls = [find_queue(queue).url]
    policy = values.pop("policy")
    sha256 = values.pop("policy_sha256")
    archive = open_archive(values.pop("archive"))
    drain_options: dict[str, Any] = {}
    for name in _DRAIN_OPTIONS:
        value = values.pop(name)
        if value is not None:
            drain_options[name] = value

    if only != _DRAIN:
        _check_analysis(values, policy, sha256)
    engine = _engine_for_part(archive, only, urls)
    # Only an engine can check all of its conditions.
    rules = load_policy(engine, policy, sha256) if policy else None

    drained: Sequence[DrainSummary] = ()
    findings = None
    try:
        if only != _ANALYZE:
            draining = DrainRequest(urls[0], **drain_options)
            drained = drain_each(engine, archive, urls, draining, progress=progress_here())
        if only == _ANALYZE or (not only and message_files(archive)):
            request = AnalysisRequest(**values, policy=rules, stack=STACK.get())
            findings = analyze(engine, archive, request, progress=progress_here())
    finally:
        # Whatever ends the analysis, the answer says what was drained.
        _answer(urls, drained, findings)
    return BAD_INPUT if any(summary.stopped_by for summary in drained) else DONE


def count_visible(urls: Sequence[str]) -> int:
    """Return the number of messages that SQS counts as visible in these queues.

    Raises:
        InputError: there is only one, and SQS does not describe it. Of several it does not count.
    """
    if len(urls) == 1:
        return require_queue("--parked-queue-url", urls[0], sqs_client).counts.visible

    visible = 0
    for url in urls:
        counts = queue_counts(SqsQueue(sqs_client(url), url))
        visible += counts.visible if counts else 0
    return visible


def _engine_for_part(archive: Archive, only: str | None, urls: Sequence[str]) -> "Engine":
    """Return the engine for what is to be done: *only* one part, or both.

    Raises:
        InputError: there is nothing to analyze, no such queue, or no such engine.
    """
    from dlq.archive.messages.message_store import require_drains
    from dlq.cli.engines import engine_for, engine_without_bodies
    from dlq.inspect.sizes import size_of_pending

    if only == _ANALYZE:
        require_drains(archive)
        return engine_for("collect", lambda: size_of_pending(archive))

    waiting = count_visible(urls)
    if only == _DRAIN:
        return engine_without_bodies("collect")
    return engine_for("collect", lambda: size_of_pending(archive).plus(waiting))


def _answer(
    urls: Sequence[str], drained: "Sequence[DrainSummary]", findings: Findings | None
) -> None:
    """Print the answer, and why a drain stopped early, if one did."""
    if drained or findings:
        answer = {
            "drained": drain_fields(urls, drained),
            "findings": findings and analysis_fields(findings),
        }
        print_answer(answer, lambda: print_collected(urls, drained, findings))
    print_stopped_drains(drained)


def print_stopped_drains(drained: "Sequence[DrainSummary]") -> None:
    """Print why drains stopped early."""
    for summary in drained:
        for fault in summary.stopped_by:
            print_error(
                f"the drain stopped early: {fault}; what is not archived is still in the queue, "
                "run the same command again"
            )


def _check_analysis(values: Mapping[str, Any], policy: str | None, sha256: str | None) -> None:
    """Check what needs no engine, before anybody waits for it. Raises InputError."""
    from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
    from dlq.explain.analyze import load_policy
    from dlq.explain.signature.mask import compile_masks
    from dlq.sql.allowed import check_sql

    compile_masks(values["masks"])
    check_sql(values["where"], READ_COLUMNS)
    if policy:
        load_policy(None, policy, sha256)
    if values["out"]:
        open_folder(values["out"])


def print_collected(
    urls: Sequence[str], drained: "Sequence[DrainSummary]", findings: Findings | None
) -> None:
    """Print what was drained, what was found, and the next command."""
    print_drains(urls, drained)
    if findings:
        print_analysis(findings)
        if findings.groups:
            print_line(f"next: {groups_command(findings)}")
    elif any(summary.archived for summary in drained):
        archive = drained[0].archive
        print_line(f"next: {suggested_command('collect', archive, '--only', _ANALYZE)}")


def drain_fields(urls: Sequence[str], drained: "Sequence[DrainSummary]") -> object:
    """Return the fields of the JSON answer: of one drain, or a list of them with their queues."""
    if len(urls) <= 1:
        return asdict(drained[0]) if drained else None
    fields: list[dict[str, Any]] = []
    for url, summary in zip(urls, drained, strict=False):
        fields.append({"parked_queue_url": url, **asdict(summary)})
    return fields


def print_drains(urls: Sequence[str], drained: "Sequence[DrainSummary]") -> None:
    """Print the counts of each drain; of several with the queue's name."""
    # The limit may end the work before the last queue.
    for url, summary in zip(urls, drained, strict=False):
        if len(urls) > 1:
            print_line(f"parked queue {QueueAddress.from_url(url).name}")
        print_drain(summary)


def print_drain(summary: "DrainSummary") -> None:
    """Print the counts, and what is still in the queue."""
    speed = summary.archived / summary.seconds if summary.seconds else 0
    print_table(
        ("received", "archived", "deleted", "not deleted"),
        [(summary.received, summary.archived, summary.deleted, summary.not_deleted)],
    )
    print_line(
        f"drain {summary.drain_id}: {duration(summary.seconds)}, {quantity(speed)} messages/s"
    )

    if summary.not_deleted:
        print_line(
            f"{summary.not_deleted:,} were archived but their deletion was not confirmed: they "
            "come again, and reading the archive counts them once"
        )
    if summary.unreadable:
        receives = counted(summary.unreadable, "receive")
        print_line(f"{receives} brought no readable message; left in the queue:")
        for fault in summary.faults[:10]:
            print_line(f"  {fault}")

    if summary.tests:
        were = counted(summary.tests, "test message")
        print_line(f"{were} of dlq doctor: deleted, not archived")
    if (rest := summary.rest) and rest.total:
        print_line(
            f"SQS still counts about {rest.visible:,} visible, {rest.in_flight:,} in flight and "
            f"{rest.delayed:,} delayed in the queue, as of a minute ago: run again for them"
        )


_FIELDS = (
    "plan_id",
    "archive",
    "analyzed_at",
    "messages",
    "statuses",
    "unreadable",
    "left_for_people",
    "logs",
    "clock",
)
_GROUP = ("group_id", "count", "share", "trend", "status", "queue")
_GROUPS_IN_A_LOG = 30
_GROUPS_ON_A_TERMINAL = 12
_TITLE_ON_A_TERMINAL = 100
"""Characters: two lines in a table of 100 columns. The report has the whole title."""


def analysis_fields(findings: Findings) -> dict[str, object]:
    """Return the fields of the JSON answer, without words of messages."""
    return {
        **{name: getattr(findings, name) for name in _FIELDS},
        "plan": findings.plan_path,
        "groups": [_group_fields(group) for group in findings.groups],
        "gone": [group.group_id for group in findings.gone],
    }


def _group_fields(group: GroupFinding) -> dict[str, object]:
    return {name: getattr(group, name) for name in _GROUP}


def print_analysis(findings: Findings) -> None:
    """Print the largest groups and the report's address.

    Titles and differences quote messages, so they are printed on a terminal only, and in no log.
    """
    groups = len(findings.groups)
    print_line(f"{counted(findings.messages, 'message')} pending in {counted(groups, 'group')}")
    if findings.statuses:
        print_line(f"groups: {format_statuses(findings.statuses)}")
    if findings.logs:
        print_line(findings.logs)
    if findings.clock:
        print_line(f"note: {findings.clock}")
    for path in findings.unreadable:
        print_line(f"note: {path} cannot be read; what it says of a group is left out")
    if left := findings.left_for_people:
        named = [f"{group_id} ({disposition})" for group_id, disposition in left.items()]
        more = ", …" if len(named) > _GROUPS_IN_A_LOG else ""
        print_line(
            f"left for a person, who last said otherwise than the policy: "
            f"{counted(len(left), 'group')}: {', '.join(named[:_GROUPS_IN_A_LOG])}{more}"
        )

    folder = findings.plan_path.removesuffix("/plan.yaml")
    if not findings.groups:
        print_line(f"nothing is left to decide; report: {folder}")
        return

    shown = findings.groups[:_GROUPS_IN_A_LOG]
    if sys.stdout.isatty():
        shown = findings.groups[:_GROUPS_ON_A_TERMINAL]
    _print_groups(shown, has_queue=bool(findings.queues))
    if groups > len(shown):
        rest = findings.messages - sum(group.count for group in shown)
        more = counted(groups - len(shown), "smaller group")
        print_line(f"… and {more} with {counted(rest, 'message')}; all are in the report")

    print_line(f"report: {folder}/report.html")


def groups_command(findings: Findings) -> str:
    """Format the command that lists the groups."""
    # The plan of the archive's newest report need not be named.
    is_found = findings.plan_path.startswith(f"{findings.archive}/{REPORTS}/")
    words = () if is_found else ("--plan", findings.plan_path)
    return suggested_command("groups", findings.archive, *words)


def _print_groups(groups: Iterable[GroupFinding], *, has_queue: bool) -> None:
    """Print a row for each group; on a terminal with its title and its first difference."""
    is_terminal = sys.stdout.isatty()
    headings = ["group", "count", "share", "trend"]
    if has_queue:
        headings.append("queue")
    if is_terminal:
        headings.append("what failed, and what sets it apart")

    rows: list[list[object]] = []
    for group in groups:
        row: list[object] = [group.group_id, group.count, percent(group.share), group.trend]
        if has_queue:
            row.append(group.queue or NO_QUEUE)
        if is_terminal:
            row.append(title_and_difference(group))
        rows.append(row)
    print_table(headings, rows, spare=("trend", "share"))


def title_and_difference(group: GroupFinding) -> str:
    """Format what failed, and what sets it apart most: a line for each."""
    difference = TOO_FEW if group.count < LEAST_GROUP else ""
    if group.differences:
        difference = format_difference(group.differences[0])
    return shorten(group.title, _TITLE_ON_A_TERMINAL) + (f"\n↳ {difference}" if difference else "")


VERB = Verb(_ABOUT, _add_arguments, _make_options, _run, has_engine=True)
