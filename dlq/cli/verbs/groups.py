"""``groups``: the groups of a report, and what is decided about each."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import open_archive
from dlq.cli.arguments import add_shared
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import (
    failed_again,
    print_answer,
    print_count_times,
    print_line,
    print_table,
)
from dlq.cli.verb import DONE, Verb
from dlq.explain.findings import NO_QUEUE, format_statuses, in_rows
from dlq.explain.grouping import common_text
from dlq.figures import counted, minute
from dlq.inspect.groups import GroupsOfReport, ListedGroup, read_groups
from dlq.plan.plan import Action

_ABOUT = """\
Lists the groups of the newest report: what failed, how many messages, what sets them apart, and
what the plan says to do with them. Counts and statuses are those of the analysis; pending, sent,
failed again, halted, and what people say are as of now. A group of which nothing is pending and
nothing failed again is not in the table. Similar groups, whose texts differ in a word or two, are
one row: its numbers are of all, and each of them is a line with + and its own decision. Where the
messages came from several source queues, each group is of one of them. Changes nothing; needs no
Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--plan", "--failure-table")
    parser.add_argument("--queue", metavar="NAME", help="only the groups of this source queue")
    parser.add_argument(
        "--sort",
        choices=("count", "queue"),
        default="count",
        help="the largest group first, or by source queue (default: %(default)s)",
    )


def _run(options: Mapping[str, Any]) -> int:
    archive = open_archive(options["archive"])
    groups = read_groups(archive, options["plan"], options["failure_table"])
    if options["queue"] is not None:
        groups = groups.of_queue(options["queue"])
    if options["sort"] == "queue":
        groups = groups.by_queue()
    print_answer(groups, lambda: _print(groups, options["archive"]))
    return DONE


def _print(report: GroupsOfReport, archive: str) -> None:
    print_line(f"plan {report.plan_id}: {counted(len(report.groups), 'group')}, {report.plan}")
    if report.statuses:
        print_line(f"groups: {format_statuses(report.statuses)}")
    if report.group_by:
        print_line(f"errors by --group-by {report.group_by!r}; '' takes it away")
    for sentence in report.open_runs:
        print_line(sentence)
    _print_groups(report, archive)
    for path in report.unreadable:
        print_line(f"note: {path} cannot be read; what it says of a group is left out")


def _sent(group: ListedGroup) -> int:
    return (group.states or {}).get(Disposition.SENT, 0)


def _description(group: ListedGroup) -> str:
    """Format what failed, and what people say about it: a line for each."""
    lines = [group.title]
    if group.halted:
        lines.append(f"halted: {group.halted}; decide again")
    if group.difference:
        lines.append(f"↳ {group.difference}")
    if group.note:
        lines.append(f"note: {group.note}")

    statements = []
    if group.resolved_at:
        statements.append(f"resolved since {minute(group.resolved_at)}")
    if group.remembered and group.remembered != group.note:
        statements.append(group.remembered)
    lines.append(" · ".join(statements))

    return "\n".join(filter(None, lines))


def _numbers(row: Sequence[ListedGroup]) -> tuple[object, ...]:
    """Return count, pending, sent and what failed again of similar groups together."""
    sent = sum(map(_sent, row))
    pending = _sum_of_known(group.pending for group in row)
    returned = _sum_of_known(group.returned for group in row)
    return (
        sum(group.count for group in row),
        "-" if pending is None else pending,
        "-" if row[0].states is None else sent,
        failed_again(sent, returned),
    )


def _sum_of_known(counts: Iterable[int | None]) -> int | None:
    """Add up the counts that are known; return None if none is."""
    total = None
    for count in counts:
        if count is not None:
            total = (total or 0) + count
    return total


def _action(group: ListedGroup) -> str:
    return f"{group.action}, edited" if group.is_edited else group.action


def _table_row(row: Sequence[ListedGroup], *, has_queue: bool) -> tuple[object, ...]:
    """Return the cells of a group, or of several similar ones, which are of the same queue."""
    queue = (row[0].queue or NO_QUEUE,) if has_queue else ()
    if len(row) == 1:
        [group] = row
        return (
            group.group_id,
            *queue,
            *_numbers(row),
            group.status,
            _action(group),
            _description(group),
        )

    common_title = common_text([group.title for group in row])
    return (
        counted(len(row), "group"),
        *queue,
        *_numbers(row),
        _common(group.status for group in row),
        _common(map(_action, row)),
        "\n".join([common_title, *map(_line_in_row, row)]),
    )


def _line_in_row(group: ListedGroup) -> str:
    """Format one of several similar groups."""
    return f"+ {group.group_id}, {group.count:,}, {_action(group)}: {_description(group)}"


def _common(texts: Iterable[str]) -> str:
    """Return the text that all have; "several" if they differ."""
    distinct = set(texts)
    return distinct.pop() if len(distinct) == 1 else "several"


def _print_groups(report: GroupsOfReport, archive: str) -> None:
    groups = report.groups
    pending = _sum_of_known(group.pending for group in groups)
    if pending is not None:
        sent = sum(map(_sent, groups))
        returned = _sum_of_known(group.returned for group in groups)
        failed_again_text = f", {returned:,} failed again" if returned else ""
        print_line(f"messages: {pending:,} pending, {sent:,} sent{failed_again_text}")
        print_count_times(group.returned_at for group in groups)

    listed = [group for group in groups if group.pending != 0 or group.returned]
    if settled := len(groups) - len(listed):
        print_line(f"not listed, because nothing of it is pending: {counted(settled, 'group')}")
    if not listed:
        return

    has_queue = bool(report.queues)
    print_table(
        (
            "group",
            *(("queue",) if has_queue else ()),
            "count",
            "pending",
            "sent",
            "failed again",
            "status",
            "action",
            "what failed, and what sets it apart",
        ),
        [_table_row(row, has_queue=has_queue) for row in in_rows(listed, report.similar)],
        spare=("count", "status", "sent", "failed again", "queue"),
    )
    for line in next_lines(listed, archive, report.stack):
        print_line(line)


def next_lines(
    groups: Sequence[ListedGroup], archive: str, report_stack: str = ""
) -> Iterator[str]:
    """Yield the next commands: of a halted group nothing is sent before somebody decides."""

    def suggested(verb: str, *words: str) -> str:
        return suggested_command(verb, archive, *words, report_stack=report_stack)

    halted = [group.group_id for group in groups if group.halted is not None]
    if halted:
        yield "next, once a halted group is fixed:"
        yield f"  {suggested('decide', halted[0], 'redrive', '--note', 'WHY')}"

    free = [group for group in groups if group.halted is None]
    if free:
        first = next((group for group in free if group.action == Action.LEAVE), free[0])
        yield "next, a dry run for one group, or a decision in the plan:"
        yield f"  {suggested('redrive', '--group', first.group_id)}"
        yield f"  {suggested('decide', first.group_id, 'discard', '--note', 'WHY')}"


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=dict,
    run=_run,
)
