"""What to type to put a group back. Pure.

Every text in a command comes from strangers in the end (a queue's name, a lead's value), so each is
quoted for the shell, and what cannot be seen is spelt in escapes: what is copied is what was read.
"""

import re
from dataclasses import dataclass
from shlex import quote

from spark_reprocess.findings import Findings, GroupFinding, Lead
from spark_reprocess.plan.plan import Action

_PROGRAM = "python -m spark_reprocess redrive"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SPECIAL = re.compile(r'[\\$"`]')
_WITH_BACKSLASH = r"\\\g<0>"
_CONDITION_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Command:
    """A line for a shell.

    Attributes:
        before: the line, or what of it stands before the destination.
        after: what stands after the destination; None where the line names none.
    """

    before: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class PlanCommands:
    """The steps that redrive what the plan says.

    Attributes:
        dry_run: shows what would happen.
        execute: does it.
    """

    dry_run: Command
    execute: Command


@dataclass(frozen=True, slots=True)
class GroupCommands:
    """What is a group's own among the steps that redrive it.

    Attributes:
        decide: sets the group's action in the plan; None where the plan is no file on a disk, or
            the group's id is not one that a plan can have.
        lead: whose messages *where* selects; None where no lead has a condition.
        where: what to add to a command so that it acts on those messages only.
    """

    decide: Command | None
    lead: Lead | None
    where: Command | None


def plan_commands(findings: Findings) -> PlanCommands:
    """Spell the commands that act on the whole plan."""
    places = f"--archive {quoted(findings.archive)} --plan {quoted(findings.plan_path)}"
    redrive = f"{_PROGRAM} {places} --to-queue-url "
    return PlanCommands(
        dry_run=Command(redrive, ""), execute=Command(redrive, " --execute --reason 'WHY'")
    )


def group_commands(findings: Findings, group: GroupFinding) -> GroupCommands:
    """Spell the commands for *group*; those that no shell could carry are left out."""
    lead = next((one for one in group.leads if _can_be_typed(one.condition)), None)
    return GroupCommands(
        decide=_decide(findings.plan_path, group.group_id),
        lead=lead,
        where=Command(f"--where {quoted(lead.condition)}") if lead else None,
    )


def quoted(text: str) -> str:
    """Quote *text* as one shell word that shows every character it has.

    Printable text is quoted as POSIX says, in double quotes where that reads better (never with
    ``!``, which an interactive shell expands there); other text as bash, zsh and ksh read ``$'…'``,
    with its invisible characters as the bytes of their UTF-8.
    """
    if text.isprintable():
        return f'"{_SPECIAL.sub(_WITH_BACKSLASH, text)}"' if _reads_better(text) else quote(text)
    return "$'" + "".join(_escaped(one) for one in text) + "'"


def _reads_better(text: str) -> bool:
    return "'" in text and "!" not in text


def _escaped(one: str) -> str:
    if one in "\\'":
        return f"\\{one}"
    if one.isprintable():
        return one
    # Three octal digits always: one hex digit more could be the text's own.
    return "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "replace"))


def _decide(plan_path: str, group_id: str) -> Command | None:
    """From the group's line to its action's; whatever may stand around the id is no part of one."""
    if "://" in plan_path or not _ID.fullmatch(group_id):
        return None
    group = rf"^ *- id: [^A-Za-z0-9]?{group_id}([^A-Za-z0-9_-]|$)"
    action = rf"s/^( *action:) [a-z]+/\1 {Action.REDRIVE}/"
    script = f"/{group}/,/^ *action:/{action}"
    return Command(f"sed -E -i.bak {quoted(script)} {quoted(plan_path)}")


def _can_be_typed(condition: str) -> bool:
    """No shell passes on a NUL, and none should be asked to pass on a page of text."""
    return 0 < len(condition) <= _CONDITION_CHARACTERS and "\0" not in condition
