"""Shell commands that redrive a group. No I/O.

Texts in a command come from messages or from other people (a lead's value, a queue's name), so each
is quoted for the shell, and invisible characters are escaped: you copy exactly what you read.
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
    """A shell command.

    Attributes:
        before: the command, or its part before the destination.
        after: the part after the destination; None if the command has no destination.
    """

    before: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class PlanCommands:
    """The commands that redrive the plan.

    Attributes:
        dry_run: sends nothing.
        execute: sends.
    """

    dry_run: Command
    execute: Command


@dataclass(frozen=True, slots=True)
class GroupCommands:
    """The commands for one group.

    Attributes:
        decide: sets the group's action in the plan; None if the plan is not a local file, or the
            group's id cannot occur in a plan.
        lead: the lead whose messages *where* selects; None if no lead has a condition.
        where: option to add to a command so that it acts on those messages only.
    """

    decide: Command | None
    lead: Lead | None
    where: Command | None


def plan_commands(findings: Findings) -> PlanCommands:
    """Format the commands that act on the whole plan."""
    places = f"--archive {quoted(findings.archive)} --plan {quoted(findings.plan_path)}"
    redrive = f"{_PROGRAM} {places} --main-queue-url "
    return PlanCommands(
        dry_run=Command(redrive, ""), execute=Command(redrive, " --execute --reason 'WHY'")
    )


def group_commands(findings: Findings, group: GroupFinding) -> GroupCommands:
    """Format the commands for *group*, without those that cannot be typed into a shell."""
    lead = next((one for one in group.leads if _can_be_typed(one.condition)), None)
    return GroupCommands(
        decide=_decide(findings.plan_path, group.group_id),
        lead=lead,
        where=Command(f"--where {quoted(lead.condition)}") if lead else None,
    )


def quoted(text: str) -> str:
    """Quote *text* as one shell word in which every character is visible.

    Printable text is quoted as POSIX defines, in double quotes if that is easier to read (never
    with ``!``, which an interactive shell expands there). Other text is quoted as ``$'…'`` of bash,
    zsh and ksh, with its invisible characters as the bytes of their UTF-8.
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
    # Always three octal digits: a hex escape could absorb a digit that follows it.
    return "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "replace"))


def _decide(plan_path: str, group_id: str) -> Command | None:
    """Replace the action between the line of the group's id and the next action."""
    if "://" in plan_path or not _ID.fullmatch(group_id):
        return None
    group = rf"^ *- id: [^A-Za-z0-9]?{group_id}([^A-Za-z0-9_-]|$)"
    action = rf"s/^( *action:) [a-z]+/\1 {Action.REDRIVE}/"
    script = f"/{group}/,/^ *action:/{action}"
    return Command(f"sed -E -i.bak {quoted(script)} {quoted(plan_path)}")


def _can_be_typed(condition: str) -> bool:
    """A shell cannot pass a NUL, and a page of text is too long."""
    return 0 < len(condition) <= _CONDITION_CHARACTERS and "\0" not in condition
