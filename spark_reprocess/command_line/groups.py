"""``groups``: the groups of a report, and what is decided about each."""

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any

from spark_reprocess.archive.files import open_archive
from spark_reprocess.command_line.arguments import add_plan
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE, Verb, suggestion
from spark_reprocess.figures import counted
from spark_reprocess.findings import LEAST_GROUP, TOO_FEW, Synonym, format_predicate
from spark_reprocess.plan.plan import Action, Plan
from spark_reprocess.plan.plan_file import PlanFile, find_plan
from spark_reprocess.plan.reading import read_plan

_ABOUT = """\
Lists the groups of the newest report: what failed, how many messages, what sets them apart, and
what the plan says to do with them. Counts are those of the analysis: status counts what is left.
Changes nothing; needs no Spark."""


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """Which plan's groups to list; see ``plan_file.find_plan``."""

    archive: str
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of a plan, with what the analysis found.

    Attributes:
        title: what failed, masked.
        lead: what sets the group apart, masked; empty where nothing does.
        is_edited: whether the plan changes its messages before it sends them.
    """

    group_id: str
    count: int
    action: str
    title: str
    lead: str
    note: str
    is_edited: bool


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plan(parser)


def _run(options: GroupsOptions) -> int:
    file = find_plan(open_archive(options.archive), options.plan)
    plan = read_plan(file.read())
    groups = list_groups(plan, _leads(file))
    answer = {
        "plan_id": plan.plan_id,
        "plan": file.path,
        "groups": [asdict(one) for one in groups],
    }
    print_answer(answer, lambda: _print(options.archive, file, plan, groups))
    return DONE


def list_groups(plan: Plan, leads: dict[str, str]) -> list[ListedGroup]:
    """Combine the groups of a plan with their *leads*, by group id."""
    return [
        ListedGroup(
            group_id=group.group_id,
            count=group.count,
            action=group.action.value,
            title=group.title,
            lead=leads.get(group.group_id) or (TOO_FEW if group.count < LEAST_GROUP else ""),
            note=group.note,
            is_edited=group.edit is not None,
        )
        for group in plan.groups
    ]


def _leads(file: PlanFile) -> dict[str, str]:
    """Return each group's first lead from the report beside the plan; none without a report."""
    summary: Any = json.loads(file.summary() or b'{"groups": []}')
    return {
        group["group_id"]: format_predicate(Synonym(lead["field"], lead["value"]))
        for group in summary["groups"]
        for lead in group["leads"][:1]
    }


def _print(archive: str, file: PlanFile, plan: Plan, groups: list[ListedGroup]) -> None:
    print_line(f"plan {plan.plan_id}: {counted(len(groups), 'group')}, {file.path}")
    if not groups:
        return
    print_table(
        ("group", "count", "action", "what failed, and what sets it apart"),
        [
            (
                one.group_id,
                one.count,
                f"{one.action}, edited" if one.is_edited else one.action,
                "\n".join(
                    filter(
                        None,
                        (
                            one.title,
                            one.lead and f"↳ {one.lead}",
                            one.note and f"note: {one.note}",
                        ),
                    )
                ),
            )
            for one in groups
        ],
    )
    undecided = next((one for one in groups if one.action == Action.LEAVE), groups[0])
    print_line("next, a dry run for one group, or a decision in the plan:")
    print_line(f"  {suggestion('redrive', archive, '--group', undecided.group_id)}")
    print_line(f"  {suggestion('decide', archive, undecided.group_id, 'discard')} --note 'WHY'")


VERB = Verb(_ABOUT, _add_arguments, GroupsOptions, _run)
