"""Shell commands that redrive a group. No I/O.

Texts in a command come from messages or from other people (a lead's value, a queue's name), so each
is quoted for the shell, and invisible characters are escaped: you copy exactly what you read.
"""

import re
from collections.abc import Sequence
from shlex import quote

from spark_reprocess.findings import Findings, Lead
from spark_reprocess.plan.plan_file import REPORTS

_SPECIAL = re.compile(r'[\\$"`]')
_WITH_BACKSLASH = r"\\\g<0>"
_CONDITION_CHARACTERS = 2_000


def places(findings: Findings) -> str:
    """Format the options that say in which archive a plan is, and which plan."""
    is_in_archive = findings.plan_path.startswith(f"{findings.archive}/{REPORTS}/")
    plan = findings.plan_id if is_in_archive else findings.plan_path
    return f"--archive {quoted(findings.archive)} --plan {quoted(plan)}"


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
