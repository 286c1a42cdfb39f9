"""Texts of messages for people: JSON indented, quoted for a shell. No I/O.

No escaping for HTML: the template engine does that. Commands contain texts from messages or from
other people (a lead's value, a queue's name), so each is quoted for the shell.
"""

import re
from collections.abc import Sequence
from shlex import quote

from spark_reprocess.archive.messages.message_index import REPORTS
from spark_reprocess.editing.json_text import JsonTextError, read_json, write_indented
from spark_reprocess.groups.findings import Findings, Lead


def indented_json(text: str) -> str | None:
    """Indent a JSON object or array with its digits; None for anything else, or a key twice."""
    try:
        value = read_json(text)
        return write_indented(value) if isinstance(value, dict | list) else None
    except JsonTextError:
        return None


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

    Conditions that cannot be seen, or as long as a page, are left out. None and "" without any.
    """
    for lead in leads:
        if 0 < len(lead.condition) <= _CONDITION_CHARACTERS and lead.condition.isprintable():
            return lead, f"--where {quoted(lead.condition)}"
    return None, ""


def quoted(text: str) -> str:
    """Quote *text* as one shell word, in double quotes if that is easier to read.

    Never with ``!`` in double quotes, which an interactive shell expands.
    """
    if "'" in text and "!" not in text:
        return f'"{_SPECIAL.sub(_WITH_BACKSLASH, text)}"'
    return quote(text)
