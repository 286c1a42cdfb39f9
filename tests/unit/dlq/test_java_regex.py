"""A pattern of Java finds the same texts as its translation for RE2, or is refused."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dlq.sql.java_regex import UntranslatableError, like_to_re2, to_re2


def is_match(pattern: str, text: str) -> bool:
    """Ask the RE2 in Arrow, which is that of DuckDB."""
    return bool(pc.match_substring_regex(pa.array([text]), to_re2(pattern))[0].as_py())


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("a.c", ["abc", "a👩c", "a\tc"], ["a\nc", "a\rc", "a\u2028c", "a\u0085c", "ac"]),
        ("(?s)a.c", ["a\nc", "a\u2028c"], ["ac"]),
        ("^a$", ["a", "a\n", "a\r\n", "a\r", "a\u2028"], ["a\n\n", "ba", "a\n\r"]),
        ("^$", ["", "\n", "\r\n"], ["a", "\n\n"]),
        (r"^\s*$", ["", " \t\x0b\r\n", "\n\n"], ["a", "\u00a0"]),
        (r"\s+$", ["a \r\n", "a\r\n"], ["a"]),
        (r"a\sb", ["a\x0bb"], ["a\u00a0b"]),
        (r"\S", ["a"], ["\x0b", ""]),
        ("(?i)k", ["k", "K"], ["\u212a"]),
        ("(?i)[i-k]s", ["KS", "is"], ["\u212as", "k\u017f"]),
        ("(?i)é", ["é"], ["É"]),
        ("[^a]", ["b", "👩", "\n"], ["a", ""]),
        ("[👩-👫]", ["👪"], ["👦"]),
        (r"[\d.-]+x", ["1.-x"], ["x"]),
        (r"\Qa.b\E+", ["a.bb"], ["axb"]),
        (r"\x41\u0042\x{43}\t", ["ABC\t"], ["abc"]),
        ("a|", ["a", ""], []),
        ("(?<n>ab)?c{2,3}?", ["cc", "abccc"], ["abc"]),
        (r"\.\[\]\{\}\-", [".[]{}-"], ["a[]{}-"]),
        ("x}]", ["x}]"], ["x"]),
    ],
)
def test_it_finds_what_java_finds(pattern: str, matches: list[str], others: list[str]) -> None:
    assert [text for text in matches if not is_match(pattern, text)] == []
    assert [text for text in others if is_match(pattern, text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bit",
        r"\B",
        r"\A",
        r"\Z",
        r"\z",
        r"\p{L}",
        r"\h",
        r"\1",
        r"\0",
        r"\cA",
        r"\ud83d",
        "(?m)^a",
        "a(?i)b",
        "(?i:a)",
        "(?x)a",
        "(?u)a",
        "(?=a)",
        "(?>a)",
        "a++",
        "a*+",
        "a{2}+",
        "a$b",
        "(a$)",
        "$*",
        "^*",
        r"\s$",
        r"[^a]$",
        ".|a\r$",
        r"\r?$",
        "(?s).$",
        "(\\s)+$",
        "[a[b]]",
        "[a",
        "(a",
        "a)",
        "[]",
        "[z-a]",
        r"[a-\d]",
        "*a",
        "a{,2}",
        "a{3,2}",
        "a{1001}",
        "[\u0100-\uffff]",
        "[^\u0000-\U0010ffff]",
        "a**",
        "[a&&b]",
        r"\x{110000}",
        "\\",
    ],
)
def test_what_could_differ_is_refused(pattern: str) -> None:
    with pytest.raises(UntranslatableError):
        to_re2(pattern)


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "is_like"),
    [
        ("a%", "\\", "a\nb", True),
        ("a_c", "\\", "a👩c", True),
        ("a_c", "\\", "ae\u0301c", False),
        (r"a\%", "\\", "a%", True),
        (r"a\%", "\\", "ab", False),
        ("a##", "#", "a#", True),
        (r"a\b", "#", r"a\b", True),
        ("a.c", "\\", "abc", False),
        ("", "\\", "", True),
        ("", "\\", "a", False),
    ],
)
def test_like(pattern: str, escape: str, text: str, *, is_like: bool) -> None:
    expression = like_to_re2(pattern, escape)

    assert pc.match_substring_regex(pa.array([text]), expression)[0].as_py() is is_like


@pytest.mark.parametrize(("pattern", "escape"), [(r"a\b", "\\"), ("a\\", "\\"), ("#a", "#")])
def test_an_escape_of_what_needs_none_is_refused(pattern: str, escape: str) -> None:
    with pytest.raises(UntranslatableError):
        like_to_re2(pattern, escape)
