"""Patterns of operators' SQL: those that any body may meet are allowed, others are refused."""

import pytest

from dlq.sql.patterns import like_fault, regex_fault, replacement_fault

ALLOWED = [
    "",
    "^(BIGINT|DECIMAL|DOUBLE|FLOAT)",
    r"^\s*$",
    "https?://",
    "(?i)timeout(ed)?",
    "(?:a|b)c+?d*+e{2,}",
    "(?<year>[0-9]{4})-(?:[0-9]{2})",
    "(?>a|b)",
    "[0-9]{1,3}",
    "a{2,1000}b{5000}c{2,}",
    "[a{1,5000}]",
    r"a\{1,5000}",
    # Not the end of a group.
    r"\)*",
    r"\(a\)+",
    r"[)]*",
    r"[^(a)+]*",
    r"[a[b)]c)]*",
    r"\Q(a)*(?=b)\E+",
    r"\Q(a)*",
    r"[\Q]\E)]*",
    r"\\c[)]",
    # Not a backreference, a lookaround, a flag or an intersection.
    r"\\1",
    r"\0",
    "[?=!]",
    r"\(?=",
    "(?<x>a)",
    "(?i-s:a)",
    "a&&b",
]

REFUSED = {
    "a repeated group": [
        r'"text": "(\w| )*!"',
        "(a|b)*c",
        "(a)+",
        "(a)*?",
        "(a)++",
        "(a){2}",
        "(a){2,}",
        "(?:a)*",
        "(?<n>a)+",
        "((a)*)?",
        "(?i)(a)*",
        # What only looks like a class, a quotation or an escape.
        r"\[(a)*]",
        r"\\Q(a)*\\E",
        r"\Qx\E(a)*",
        r"[\]](a)*",
        r"[\\](a)*",
        "[[a]b](a)*",
        "](a)*",
        "[^a](a)*[b]",
    ],
    "a lookaround": ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "a(?=a*b)"],
    "a backreference": [r"(a)\1", r"(?<n>a)\k<n>", r"\\\1"],
    "without the flag x": ["(?x)(a) *", "(?ix)(a) *", "(?x:(a) *)", "(?i-x)a"],
    r"as \]": ["[]a](b)*", "[^]a](b)*", r"[\Q\E]a](b)*", "[a[]b]](c)*"],
    r"write \c as a number": [r"\c)*", r"\c\Q\1\E", r"[\c]](a)*"],
    "1,000 times at most": [
        "a{1,1001}",
        "a{1,05000}?",
        f"a{{1,{'9' * 5000}}}",
        r"\\{1,5000}",
    ],
    r"write \R as": [r"\R", r"\X*"],
    "without &&": ["[a&&[b]]", "[&&](a)*]"],
}


@pytest.mark.parametrize("pattern", ALLOWED)
def test_pattern_is_allowed(pattern: str) -> None:
    assert regex_fault(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [(pattern, fault) for fault, patterns in REFUSED.items() for pattern in patterns],
)
def test_pattern_that_a_body_can_make_endless_is_refused(pattern: str, fault: str) -> None:
    assert fault in regex_fault(pattern)


@pytest.mark.parametrize(
    ("pattern", "escape", "is_allowed"),
    [
        ("%a%b%c%", "\\", True),
        ("%a%b%c%d%", "\\", False),
        ("%%%%", "\\", True),
        ("%%%%%", "\\", False),
        (r"\%\%\%\%\%", "\\", True),
        (r"\\%\\%\\%\\%\\%", "\\", False),
        ("#%#%#%#%#%%", "#", True),
        (r"\%\%\%\%\%", "#", False),
        ("%a%b%c%d%", "", False),
        ("_" * 20, "\\", True),
    ],
)
def test_like_has_four_wildcards_at_most(pattern: str, escape: str, *, is_allowed: bool) -> None:
    assert (like_fault(pattern, escape) == "") is is_allowed


def test_replacement_is_short() -> None:
    assert replacement_fault("x" * 100) == ""
    assert "more than 100" in replacement_fault("x" * 101)
