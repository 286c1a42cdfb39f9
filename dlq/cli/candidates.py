"""Prints what a shell may complete: groups of the newest report, or stacks. ``dlq completion``.

A shell calls it at each press of a key, so it imports the standard library alone, asks no other
machine, and says nothing about what it cannot read.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlq.stack.user_files import kept_stack_names, read_chosen_stack

OPTION = "--candidates"
"""The first word of the command that a completion script runs; then the kind and its words."""

STACKS = "stacks"
GROUPS = "groups"

_GROUP_ID = re.compile(r"""^[ -]*id: ["']?(.*?)["']?$""", re.MULTILINE)
"""The id of a group in a plan.yaml, which takes long to read as YAML."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
"""A shell acts on other characters."""


def main(words: Sequence[str]) -> None:
    """Print a candidate a line.

    Args:
        words: the kind of candidates, then the words of the command line that is completed.
    """
    try:
        kind, *line = words
        candidates = _CANDIDATES[kind](line, os.environ)
        text = "".join(f"{candidate}\n" for candidate in candidates if _ID.fullmatch(candidate))
        sys.stdout.write(text)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - nobody asked for a message
        return


def _groups(line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the ids of the groups of the newest report, if the archive is on this machine."""
    place = _archive(line, environment)
    if place is None or "://" in place:
        return []
    plans = (Path(place) / "reports").glob("*/plan.yaml")
    # The id of the last analysis is the greatest.
    newest = max(plans, key=str)
    return _GROUP_ID.findall(newest.read_text("utf-8"))


def _archive(line: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the archive of the command; None if it is a stack's."""
    archive = _value_of("--archive", line)
    if archive is not None:
        return archive
    if _value_of("--stack", line) or environment.get("DLQ_STACK"):
        return None
    archive = environment.get("DLQ_ARCHIVE")
    return archive or None


def _value_of(option: str, line: Sequence[str]) -> str | None:
    """Return the value of an option. Bash gives ``--archive=a`` as three words."""
    for position, argument in enumerate(line):
        name, _, value = argument.partition("=")
        rest = [following for following in line[position + 1 :] if following != "="]
        if name == option and (value or rest):
            return value or rest[0]
    return None


def _stacks(_line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the stacks that ``dlq status`` listed last, and the chosen one."""
    names = kept_stack_names(environment)
    chosen = read_chosen_stack(environment)
    if chosen is not None and chosen.stack not in names:
        names.append(chosen.stack)
    return names


_CANDIDATES = {GROUPS: _groups, STACKS: _stacks}
