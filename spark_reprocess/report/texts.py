"""Texts of messages for people: every character visible, JSON indented, quoted for a shell. No I/O.

No escaping for HTML: the template engine does that. Commands contain texts from messages or from
other people (a lead's value, a queue's name), so each is quoted for the shell, and invisible
characters are escaped: you copy exactly what you read.
"""

import re
import unicodedata
from collections.abc import Sequence
from shlex import quote

from spark_reprocess.archive.messages.message_index import REPORTS
from spark_reprocess.editing.json_text import INDENTED, JsonTextError, read_json
from spark_reprocess.findings import Findings, Lead

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_DELETE_PICTURE = "\u2421"
_JOINERS = "\u200c\u200d"
_KEPT = "\n\t"
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Replace each character that is invisible or that reorders its neighbours.

    Control characters become their pictures (``␀``). Bidirectional overrides, zero-width
    characters, line separators, surrogates, private and unassigned code points become text such as
    ``[U+202E]``. Line feeds and tabs stay, and joiners inside emoji and in scripts that need them.
    The result can be encoded as UTF-8, and applying this function again does not change it.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(_visible(one, before) for before, one in zip(f" {text}", text, strict=False))


def _visible(one: str, before: str) -> str:
    needs_joiners = before.isprintable() and not before.isascii()
    if one.isprintable() or one in _KEPT or (one in _JOINERS and needs_joiners):
        return one
    if unicodedata.category(one) not in _INVISIBLE:
        return one
    code = ord(one)
    if code < ord(" "):
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"[U+{code:04X}]"


def indented_json(text: str) -> str | None:
    """Indent a JSON object or array; numbers keep their digits.

    None for anything else, also for an object that has a key twice.
    """
    try:
        value = read_json(text)
        return INDENTED.write(value) if isinstance(value, dict | list) else None
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
