"""Bounds of the patterns and replacements in operators' SQL. Pure, without Spark.

Whoever sends a message chooses the length and the letters of its body. Java's regular expressions
recurse for each repetition of a group, so one long body overflows the stack; repeated groups,
lookarounds, backreferences and many wildcards can take more steps than anybody waits for; and a
replacement that is long, or is repeated, fills the memory. So the SQL itself is bounded, not the
body.
"""

import re

MOST_WILDCARDS = 4
"""The most ``%`` in one ``LIKE``. Each multiplies the steps by the length of the body."""

MOST_REPETITIONS = 1000
"""The upper bound of ``a{1,1000}``: Java recurses once for each repetition where characters above
U+FFFF are among others."""

MOST_REPLACEMENT_CHARACTERS = 100
"""The length of a replacement: it may stand in for each character of a body of 1 MiB."""

_QUOTED_OR_ESCAPE = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.", re.DOTALL)

_TOKEN = re.compile(
    r"""
    (?P<backreference> \\ (?: [1-9] | k) )
    | (?P<control> \\c )
    | (?P<cluster> \\[RX] )
    | (?P<escape> \\ . )
    | (?P<class_start> \[ \^? )
    | (?P<class_end> \] )
    | (?P<intersection> && )
    | (?P<lookaround> \( \? <? [=!] )
    | (?P<comments> \( \? [A-Za-z-]* x )
    | (?P<repeated_group> \) [*+{] )
    | \{ \d* , (?P<most> \d+ ) \}
    | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)

_FAULT_OF_CONTROL = r"write \c as a number, such as \x1F"
_FAULTS = {
    "backreference": "a backreference can take more steps than anybody waits for",
    "lookaround": "a lookaround can take more steps than anybody waits for",
    "comments": "write it without the flag x",
    "cluster": r"write \R as [\r\n]+, and \X as .",
    "control": _FAULT_OF_CONTROL,
    "repeated_group": (
        "a repeated group overflows Spark's stack where a body is long; repeat a character or a "
        r"class, such as [\w ]*, or write the group out as often as you need it"
    ),
}
_FAULTS_IN_CLASS = {
    "control": _FAULT_OF_CONTROL,
    "intersection": "write the class without &&",
}
_FAULT_OF_COUNT = (
    f"repeat it {MOST_REPETITIONS:,} times at most, or without an upper bound: a{{2,}}"
)
_FAULT_OF_BRACKET = r"write a bracket that a class begins with as \]"


def regex_fault(pattern: str) -> str:
    """Return why *pattern*, a regular expression of Java, is refused; empty if it is not.

    A pattern that Java itself refuses may pass.
    """
    without_quotes = _QUOTED_OR_ESCAPE.sub(_as_letters, pattern)
    open_classes = 0
    begins_class = False
    for token in _TOKEN.finditer(without_quotes):
        kind = str(token.lastgroup)
        if begins_class and kind == "class_end":
            # Java takes it for a character, and the class goes on.
            return _FAULT_OF_BRACKET

        faults = _FAULTS_IN_CLASS if open_classes else _FAULTS
        if kind in faults:
            return faults[kind]
        if kind == "most" and not open_classes and _is_many(token["most"]):
            return _FAULT_OF_COUNT

        begins_class = kind == "class_start"
        if kind == "class_start":
            open_classes += 1
        elif kind == "class_end":
            open_classes = max(0, open_classes - 1)
    return ""


def _is_many(digits: str) -> bool:
    significant = digits.lstrip("0")
    return len(significant) > len(str(MOST_REPETITIONS)) or int(digits) > MOST_REPETITIONS


def _as_letters(part: re.Match[str]) -> str:
    r"""Replace the text between ``\Q`` and ``\E`` by letters that mean themselves."""
    quoted = part["quoted"]
    return part[0] if quoted is None else "q" * len(quoted)


def like_fault(pattern: str, escape: str = "\\") -> str:
    """Return why *pattern* of a ``LIKE`` is refused; empty if it is not.

    *escape* makes the character after it mean itself; empty for none.
    """
    if escape:
        pattern = re.sub(f"{re.escape(escape)}.", "", pattern, flags=re.DOTALL)
    wildcards = pattern.count("%")
    if wildcards <= MOST_WILDCARDS:
        return ""
    return f"has more than {MOST_WILDCARDS} %; join conditions with AND instead"


def replacement_fault(replacement: str) -> str:
    """Return why a *replacement* is refused; empty if it is not."""
    if len(replacement) <= MOST_REPLACEMENT_CHARACTERS:
        return ""
    return f"the replacement has more than {MOST_REPLACEMENT_CHARACTERS} characters"
