r"""Spark's functions in Python. The values are Spark's; ``test_duckdb_sql`` compares more."""

import math
from typing import Any

import pytest

from dlq.sql.spark_functions import (
    JsonPath,
    NeedsSparkError,
    array_of_texts,
    double_text,
    get_json_object,
    json_array_length,
    json_object_keys,
    json_path,
    lower,
    to_boolean,
    to_double,
    to_integer,
    upper,
    variant_type,
)

ROOT = JsonPath(())
A = JsonPath(("a",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1} trailing', "1"),
        ('{"a":1}{"a":2}', "1"),
        ('{"a":1', None),
        ('{"a":1,}', None),
        ('{"a":true,"b":tru}', None),
        # Of a key that is there twice the first counts that holds something.
        ('{"a":1,"a":2}', "1"),
        ('{"a":null,"a":2}', "2"),
        ('{"a":null}', None),
        # Jackson reads single quotes and control characters.
        ("{'a': 'x'}", "x"),
        ('{"a":"x\\\'y"}', "x'y"),
        ('{"a":"x\ty"}', "x\ty"),
        ("{'a': 'it\\'s \"q\"'}", 'it\'s "q"'),
        ("{\"k':1}'", None),
        ("{'a", None),
        # Numbers and containers are written again.
        ('{"a":1.10}', "1.1"),
        ('{"a":1E2}', "100.0"),
        ('{"a":1e7}', "1.0E7"),
        ('{"a":-0}', "0"),
        ('{"a":-0.0}', "-0.0"),
        ('{"a":12345678901234567890}', "12345678901234567890"),
        ('{"a": [1, 2.50, "é\\/\\n\\u0001👩", {"c" : null}]}', None),
        ('{"a":"\\ud83d"}', None),
        ('{"a":["\\ud83d"]}', '["\\uD83D"]'),
        ('{"a":"\\ud83d\\udc69"}', "👩"),
        ('{"a":NaN}', None),
        ('{"a":01}', None),
        ('{"A":1}', None),
        ("[1]", None),
        ("5 apples", None),
        (None, None),
    ],
)
def test_get_json_object(text: str | None, value: str | None) -> None:
    if text is not None and "2.50" in text:
        value = '[1,2.5,"é/\\n\\u0001\\uD83D\\uDC69",{"c":null}]'
    assert get_json_object(text, A) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 apples", "5"),
        ("5,", None),
        ("05", None),
        ("truex", None),
        ('"abc" d', "abc"),
        ("null", "null"),
        ("", None),
        ("\ufeff{}", None),
        (' {"a" : 1 } ', '{"a":1}'),
    ],
)
def test_a_whole_text(text: str, value: str | None) -> None:
    assert get_json_object(text, ROOT) == value


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$", ()),
        ("$.a.b c", ("a", "b c")),
        ("$['a.b'][01].c", ("a.b", 1, "c")),
        ("$.*", None),
        ("$.a[*]", None),
        ("$. a", None),
        ("$[' a']", None),
        ("$.a ['b']", ("a ", "b")),
        ("$..a", None),
        ('$["a"]', None),
        ("a", None),
        ("", None),
        ("$.a.", None),
    ],
)
def test_json_path(text: str, steps: tuple[str | int, ...] | None) -> None:
    path = json_path(text)
    assert (path and path.steps) == steps


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("[1] x", ["1"]),
        ('[ {"a" : 1.10} , "b\\u0041", 1E2 , [ 1 , 2 ],true, null ]', None),
        ('{"a":1}', None),
        ("['it\\'s']", ["it's"]),
        ('["a\tb"]', None),
        ("[1,2", None),
        ("[]", []),
    ],
)
def test_array_of_texts(text: str, elements: list[str | None] | None) -> None:
    if "1.10" in text:
        elements = ['{"a":1.1}', "bA", "100.0", "[1,2]", "true", None]
    assert array_of_texts(text) == elements


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1", "BIGINT"),
        ("-9223372036854775808", "BIGINT"),
        ("9223372036854775808", "DECIMAL"),
        ("9" * 39, "DOUBLE"),
        ("1.0", "DECIMAL"),
        (f"0.{'0' * 38}1", "DOUBLE"),
        ("1e2", "DOUBLE"),
        ('"x"', "STRING"),
        ("null", "VOID"),
        ("false", "BOOLEAN"),
        ("[1]", "ARRAY"),
        ('{"b":1}', "OBJECT"),
        ('{"b":1,"b":2}', None),
        ("'x'", None),
        ('"x\ty"', None),
    ],
)
def test_variant_type(value: str, kind: str | None) -> None:
    assert variant_type(f'{{"a":{value}}}', A) == kind


def test_arrays_and_keys() -> None:
    assert json_array_length("[1, [2, 3]] x") == 2
    assert json_array_length("{}") is None
    assert json_object_keys('{"a":1,"a":{"b":2},"":3}') == ["a", "a", ""]
    assert json_object_keys("[]") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: get_json_object(f"{'[' * 400}{']' * 400}", ROOT),
        lambda: get_json_object(f"{'[' * 5000}{']' * 5000}", ROOT),
        lambda: get_json_object('{"a":2e23}', A),
        lambda: get_json_object('{"a":1e400}', A),
        lambda: get_json_object('{"a":0.12345678901234567}', A),
        lambda: get_json_object(f'{{"a":{"9" * 1001}}}', A),
        lambda: get_json_object(f'{{"{"k" * 50_001}":1}}', A),
        lambda: json_object_keys('{"\\ud83d":1}'),
        lambda: array_of_texts('["\\ud83d"]'),
        lambda: array_of_texts("[NaN]"),
        lambda: to_double("0x1p3"),
        lambda: double_text(1e-5),
        lambda: double_text(1e15),
        lambda: lower("\u0378"),
        lambda: upper("\u0378"),
        lambda: upper("a\u019b"),
        lambda: upper("\u0264"),
    ],
)
def test_what_depends_on_java_or_unicode_is_spark_s_own(call: Any) -> None:
    with pytest.raises(NeedsSparkError):
        call()


@pytest.mark.parametrize(
    ("text", "whole", "double", "flag"),
    [
        ("1", 1, 1.0, True),
        ("+1", 1, 1.0, None),
        ("\t\x001\n", 1, 1.0, True),
        ("1\x7f", 1, None, True),
        ("\u00a01", None, None, None),
        ("٣", None, None, None),
        ("1.5", None, 1.5, None),
        (".5", None, 0.5, None),
        ("1.", None, 1.0, None),
        ("1d", None, 1.0, None),
        ("1dd", None, None, None),
        ("1e400", None, math.inf, None),
        ("-Infinity", None, -math.inf, None),
        ("-nan", None, None, None),
        ("0x10", None, None, None),
        ("2147483648", None, 2147483648.0, None),
        (f"{'0' * 1000}7", 7, 7.0, None),
        ("-0", 0, -0.0, None),
        ("1_000", None, None, None),
        (" TRUE ", None, None, True),
        ("n", None, None, False),
        ("on", None, None, None),
        ("", None, None, None),
    ],
)
def test_casts(text: str, whole: int | None, double: float | None, *, flag: bool | None) -> None:
    assert to_integer(text, -(2**31), 2**31 - 1) == whole
    assert repr(to_double(text)) == repr(double)
    assert to_boolean(text) is flag


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (1234567.0, "1234567.0"),
        (12345678.5, "1.23456785E7"),
        (1e7, "1.0E7"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_double_text(number: float, text: str) -> None:
    assert double_text(number) == text


def test_case_in_other_scripts() -> None:
    assert lower("ΑΣ İ") == "ας i̇"
    assert upper("straße ŉ") == "STRASSE \u02bcN"
