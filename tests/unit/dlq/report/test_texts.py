"""Texts, charts and commands of the report: real shells run what a reader copies."""

import json
import re
import shlex
import shutil
import subprocess
import unicodedata
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq.figures import moment, truncate, visible
from dlq.plan.json_text import indented_json
from dlq.report.views import (
    SAMPLE_CHARACTERS,
    SPARK_HEIGHT,
    difference_with_option,
    outline,
    places,
    quoted,
    shown_sample,
)
from tests.property.strategies import json_values
from tests.support.findings_builder import (
    ANALYZED_AT,
    HOSTILE_TEXTS,
    a_difference,
    a_group,
    a_sample,
    some_findings,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, é, 漢字, 🏳️\u200d🌈", "plain, é, 漢字, 🏳️\u200d🌈"),
        ("a\0b\x1b[31m\x7f", "a[U+0000]b[U+001B][31m[U+007F]"),
        ("one\r\ntwo\tthree", "one[U+000D]\ntwo\tthree"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("a\u200bb\ufeffc\u00add", "a[U+200B]b[U+FEFF]c[U+00AD]d"),
        ("a\u200db", "a[U+200D]b"),
        ("line\u2028and\u2029", "line[U+2028]and[U+2029]"),
        ("\ud800\ue000\uffff\U000e0041", "[U+D800][U+E000][U+FFFF][U+E0041]"),
        ("c1 \x85\x9b", "c1 [U+0085][U+009B]"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_what_cannot_be_seen_is_spelt(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(ANY_TEXT | st.sampled_from(HOSTILE_TEXTS))
def test_nothing_invisible_is_left_and_nothing_visible_changes(text: str) -> None:
    shown = visible(text)

    hidden = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [c for c in shown if unicodedata.category(c) in hidden and c not in "\n\t"]
    assert {c for c in shown if unicodedata.category(c) == "Cf"} <= set("\u200c\u200d")
    left = iter(shown)
    assert all(c in left for c in text if c.isprintable()), "in their order"
    shown.encode()
    assert visible(shown) == shown


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_is_no_longer_than_asked_and_says_that_it_was_cut(text: str, most: int) -> None:
    short = truncate(text, most)

    assert short == text or (len(short) == most and short.endswith("…"))
    assert text.startswith(short.removesuffix("…"))


@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_indented_json_keeps_every_character_but_white_space(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    shown = indented_json(text)

    assert shown is not None
    assert json.loads(shown) == value
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        ('{"a":1.50}', "JSON", '{\n  "a": 1.50\n}'),
        ('{"a": 1, "a": 2}', "text", '{"a": 1, "a": 2}'),
        ('{"cut": "of', "text", '{"cut": "of'),
        ("[12:30:01] ERROR down", "text", "[12:30:01] ERROR down"),
        ("17", "text", "17"),
        ("[" * 3_000, "text", "[" * 3_000),
        (" a\n{b} ", "text", " a\n{b} "),
        (" \n", "empty", " \n"),
    ],
)
def test_json_is_indented_and_other_text_stays_as_it_is(body: str, kind: str, shown: str) -> None:
    sample = shown_sample(a_sample(body=body))

    assert (sample["kind"], sample["body"], sample["is_cut"]) == (kind, shown, False)


@pytest.mark.parametrize("body", ["x" * (SAMPLE_CHARACTERS + 1), json.dumps([[1]] * 1_000)])
def test_a_long_body_is_cut_and_says_so(body: str) -> None:
    sample = shown_sample(a_sample(body=body))

    assert sample["is_cut"]
    assert len(sample["body"]) == SAMPLE_CHARACTERS
    assert sample["body"].endswith("…")


@pytest.mark.parametrize(
    ("arrivals", "path"),
    [
        ((), ""),
        ((0, 0), ""),
        ((4,), "M0 24V0h1V24z"),
        ((0, 2, 2, 4, 0), "M0 24V24h1V12h2V0h1V24h1V24z"),
        ((1, 1_000_000), "M0 24V22h1V0h1V24z"),
    ],
)
def test_an_outline_steps_over_the_counts(arrivals: tuple[int, ...], path: str) -> None:
    assert outline(arrivals) == path


@given(st.lists(st.integers(0, 10**9), max_size=80))
def test_an_outline_stays_in_its_box(arrivals: list[int]) -> None:
    path = outline(arrivals).removeprefix("M0 24").removesuffix("z")

    assert all(0 <= int(number) <= SPARK_HEIGHT for number in re.findall(r"V(\d+)", path))
    widths = [int(number) for number in re.findall(r"h(\d+)", path)]
    assert sum(widths) == (len(arrivals) if any(arrivals) else 0)


@given(st.sampled_from([1.0, 5.0, 30.0, 60.0, 3_600.0]))
def test_no_two_buckets_have_the_same_name(seconds: float) -> None:
    starts = tuple(ANALYZED_AT + timedelta(seconds=seconds * n) for n in range(60))

    assert len({moment(start, seconds) for start in starts}) == 60


SH = shutil.which("dash") or "sh"
TYPEABLE = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("'\"\\$`! ")
)
_CARRIED = [text for text in HOSTILE_TEXTS if "\0" not in text and "\ud800" not in text]


def shell_words(line: str) -> list[str]:
    script = f"printf '%s\\0' {line}"
    printed = subprocess.run([SH, "-c", script], capture_output=True, check=True).stdout
    return printed.decode().split("\0")[:-1]


@settings(max_examples=25)
@given(st.lists(TYPEABLE | st.sampled_from(_CARRIED), min_size=1, max_size=20))
def test_every_posix_shell_reads_back_what_was_quoted(texts: list[str]) -> None:
    assert shell_words(" ".join(quoted(text) for text in texts)) == texts


def test_a_condition_reads_well_in_double_quotes_unless_a_shell_would_expand_it() -> None:
    assert (
        quoted("get_json_object(body, '$.a') = 'b'") == "\"get_json_object(body, '\\$.a') = 'b'\""
    )
    assert quoted("a != 'b'") == "'a != '\"'\"'b'\"'\"''"


def test_the_commands_name_archive_and_plan_and_one_in_the_archive_by_its_id() -> None:
    elsewhere = some_findings(a_group(), archive="s3://b/my archive", plan_path="/r/plan.yaml")
    beside = some_findings(a_group(), archive="/a", plan_path="/a/reports/r-1/plan.yaml")

    assert places(elsewhere) == "--archive 's3://b/my archive' --plan /r/plan.yaml"
    assert places(beside) == f"--archive /a --plan {beside.plan_id}"


def test_the_strongest_difference_with_a_condition_narrows_the_redrive() -> None:
    differences = (
        a_difference(),
        a_difference(value="second", condition="tenant = 'a'"),
        a_difference(condition="x"),
    )

    difference, option = difference_with_option(differences)

    assert difference == differences[1]
    assert shlex.split(option) == ["--where", "tenant = 'a'"]


@pytest.mark.parametrize("condition", ["", "a = '\0'", "a = '\u202e'", "x" * 2_001])
def test_a_condition_that_no_shell_should_carry_is_left_out(condition: str) -> None:
    assert difference_with_option([a_difference(condition=condition)]) == (None, "")
