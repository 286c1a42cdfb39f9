"""Shell commands that redrive a group. No I/O.

Texts in a command come from messages or from other people (a lead's value, a queue's name), so each
is quoted for the shell, and invisible characters are escaped: you copy exactly what you read.
"""

import re
from collections.abc import Sequence
from shlex import quote

from spark_reprocess.findings import Findings, Lead
from spark_reprocess.plan.plan import Action

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SPECIAL = re.compile(r'[\\$"`]')
_WITH_BACKSLASH = r"\\\g<0>"
_CONDITION_CHARACTERS = 2_000


def redrive_command(findings: Findings) -> str:
    """Format the command that redrives the plan, up to the URL of the queue, which is missing."""
    places = f"--archive {quoted(findings.archive)} --plan {quoted(findings.plan_path)}"
    return f"python -m spark_reprocess redrive {places} --main-queue-url "


def action_command(plan_path: str, group_id: str) -> str | None:
    """Format the command that sets the group's action in the plan to ``redrive``.

    It replaces the action between the line of the group's id and the next action.

    Returns:
        None if the plan is not a local file, or if the id cannot occur in a plan.
    """
    if "://" in plan_path or not _ID.fullmatch(group_id):
        return None
    group = rf"^ *- id: [^A-Za-z0-9]?{group_id}([^A-Za-z0-9_-]|$)"
    action = rf"s/^( *action:) [a-z]+/\1 {Action.REDRIVE}/"
    script = f"/{group}/,/^ *action:/{action}"
    return f"sed -E -i.bak {quoted(script)} {quoted(plan_path)}"


def lead_with_option(leads: Sequence[Lead]) -> tuple[Lead | None, str]:
    """Return the strongest lead with a condition, and the option that selects its messages.

    A shell cannot pass a NUL, and a page of text is too long: such conditions are left out. Without
    any other, the result is None and an empty text.
    """
    for lead in leads:
        if 0 < len(lead.condition) <= _CONDITION_CHARACTERS and "\0" not in lead.condition:
            return lead, f"--where {quoted(lead.condition)}"
    return None, ""


def quoted(text: str) -> str:
    """Quote *text* as one shell word in which every character is visible.

    Printable text is quoted as POSIX defines, in double quotes if that is easier to read (never
    with ``!``, which an interactive shell expands there). Other text is quoted as ``$'…'`` of bash,
    zsh and ksh, with its invisible characters as the bytes of their UTF-8.
    """
    if not text.isprintable():
        return "$'" + "".join(map(_escaped, text)) + "'"
    if "'" in text and "!" not in text:
        return f'"{_SPECIAL.sub(_WITH_BACKSLASH, text)}"'
    return quote(text)


def _escaped(one: str) -> str:
    if one in "\\'":
        return f"\\{one}"
    if one.isprintable():
        return one
    # Always three octal digits: a hex escape could absorb a digit that follows it.
    return "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "replace"))
