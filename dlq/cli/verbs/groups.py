"""``groups``: the groups of a report, and what is decided about each."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import open_archive
from dlq.cli.arguments import add_shared
from dlq.cli.terminal import (
    came_back,
    print_answer,
    print_count_times,
    print_line,
    print_table,
)
from dlq.cli.verb import DONE, Verb, suggestion
from dlq.explain.findings import format_statuses, in_rows
from dlq.explain.grouping import common_text
from dlq.figures import counted, minute
from dlq.inspect.groups import GroupsOfReport, ListedGroup, read_groups
from dlq.plan.plan import Action

_ABOUT = """\
Lists the groups of the newest report: what failed, how many messages, what sets them apart, and
what the plan says to do with them. Counts and statuses are those of the analysis; pending, sent,
came back, stopped, and what people say are as of now. A group of which nothing is pending and
nothing came back is not in the table. Similar groups, whose texts differ in a word or two, are one
row: its numbers are of all, and each of them is a line with + and its own decision. Changes
nothing; needs no Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--plan", "--failure-table")


def _run(options: Mapping[str, Any]) -> int:
    archive = open_archive(options["archive"])
    groups = read_groups(archive, options["plan"], options["failure_table"])
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
    _print_groups(report.groups, report.similar, archive)
    for path in report.unreadable:
        print_line(f"note: {path} cannot be read; what it says of a group is left out")


def _sent(one: ListedGroup) -> int:
    return (one.states or {}).get(Disposition.SENT, 0)


def _description(one: ListedGroup) -> str:
    resolved = f"resolved since {minute(one.resolved_at)}" if one.resolved_at else ""
    remembered = one.remembered if one.remembered != one.note else ""
    said = " · ".join(filter(None, (resolved, remembered)))
    stopped = one.stopped and f"stopped: {one.stopped}; decide again"
    lead, note = one.lead and f"↳ {one.lead}", one.note and f"note: {one.note}"
    return "\n".join(filter(None, (one.title, stopped, lead, note, said)))


def _numbers(row: Sequence[ListedGroup]) -> tuple[object, ...]:
    """Return count, pending, sent and what came back of similar groups together."""
    sent = sum(map(_sent, row))
    pending = [one.pending for one in row if one.pending is not None]
    returned = [one.returned for one in row if one.returned is not None]
    return (
        sum(one.count for one in row),
        sum(pending) if pending else "-",
        "-" if row[0].states is None else sent,
        came_back(sent, sum(returned) if returned else None),
    )


def _action(one: ListedGroup) -> str:
    return f"{one.action}, edited" if one.is_edited else one.action


def _table_row(row: Sequence[ListedGroup]) -> tuple[object, ...]:
    """Return the cells of a group, or of several similar ones."""
    if len(row) == 1:
        [one] = row
        return one.group_id, *_numbers(row), one.status, _action(one), _description(one)
    statuses, actions = {one.status for one in row}, {_action(one) for one in row}
    parts = [f"+ {one.group_id}, {one.count:,}, {_action(one)}: {_description(one)}" for one in row]
    return (
        counted(len(row), "group"),
        *_numbers(row),
        statuses.pop() if len(statuses) == 1 else "several",
        actions.pop() if len(actions) == 1 else "several",
        "\n".join([common_text([one.title for one in row]), *parts]),
    )


def _print_groups(groups: Sequence[ListedGroup], similar: Mapping[str, str], archive: str) -> None:
    if any(one.pending is not None for one in groups):
        pending = sum(one.pending or 0 for one in groups)
        returned = sum(one.returned or 0 for one in groups)
        print_line(
            f"messages: {pending:,} pending, {sum(map(_sent, groups)):,} sent"
            + (f", {returned:,} came back" if returned else "")
        )
        print_count_times(one.returned_at for one in groups)
    listed = [one for one in groups if one.pending != 0 or one.returned]
    if settled := len(groups) - len(listed):
        print_line(f"not listed, because nothing of it is pending: {counted(settled, 'group')}")
    if not listed:
        return
    print_table(
        (
            "group",
            "count",
            "pending",
            "sent",
            "came back",
            "status",
            "action",
            "what failed, and what sets it apart",
        ),
        [_table_row(row) for row in in_rows(listed, similar)],
        spare=("count", "status", "sent", "came back"),
    )
    for line in next_lines(listed, archive):
        print_line(line)


def next_lines(groups: Sequence[ListedGroup], archive: str) -> Iterator[str]:
    """Yield the next commands: of a stopped group nothing is sent before somebody decides."""
    stopped = [group.group_id for group in groups if group.stopped is not None]
    if stopped:
        yield "next, once a stopped group is fixed:"
        yield f"  {suggestion('decide', archive, stopped[0], 'redrive')} --note 'WHY'"
    free = [group for group in groups if group.stopped is None]
    if free:
        first = next((group for group in free if group.action == Action.LEAVE), free[0])
        yield "next, a dry run for one group, or a decision in the plan:"
        yield f"  {suggestion('redrive', archive, '--group', first.group_id)}"
        yield f"  {suggestion('decide', archive, first.group_id, 'discard')} --note 'WHY'"


VERB = Verb(_ABOUT, _add_arguments, dict, _run)
