"""Rows of every type and many odd values, on which SQL is compared; no test by itself."""
# ruff: noqa: RUF001 - a table of values, some of which look alike

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

COLUMNS = """
i int, l bigint, x double, n decimal(5,2), s string, p string, flag boolean, t timestamp,
u timestamp, day date, words array<string>, numbers array<int>, counts map<string,int>,
one struct<a: int, `odd. name`: string, deep: struct<b: string>>, many array<struct<a: int>>,
raw binary, json string, `a.b` int, `c``d` int, `ключ` string, `select` int
"""
NOON = datetime(2026, 11, 1, 12, 30, 15, 123456, UTC)
ROWS: list[tuple[Any, ...]] = [
    (None,) * 21,
    (
        1,
        2**63 - 1,
        1.5,
        Decimal("1.50"),
        "it's",
        "it%",
        True,
        NOON,
        NOON,
        date(2026, 11, 1),
        ["a", None, "B"],
        [3, None, -1],
        {"a": 1, "k": None},
        (1, "odd", ("b",)),
        [(1,), (None,)],
        b"\x00\xff",
        '{"a": {"b": [1, "2"]}, "x": null}',
        7,
        8,
        "значение",
        9,
    ),
    (
        2**31 - 1,
        -(2**63),
        float("nan"),
        Decimal("-999.99"),
        "",
        "",
        False,
        datetime(1, 1, 1, tzinfo=UTC),
        NOON,
        date(9999, 12, 31),
        [],
        [],
        {},
        (None, "", None),
        [],
        b"",
        "[1, 2]",
        0,
        0,
        "",
        0,
    ),
    (
        -(2**31),
        0,
        float("-inf"),
        Decimal("0.05"),
        "back\\slash\n\t'\"%_👩",
        "back",
        None,
        NOON,
        None,
        date(2024, 2, 29),
        ["👩", "a,b"],
        [0],
        {"": 0},
        None,
        None,
        None,
        "{broken",
        3,
        4,
        "%",
        5,
    ),
]
"""Those of ``test_allowed_sql``: some operations fail on one of them."""

LONG = "лmö👩 %_\\'\n" * 60_000
"""About 1 MiB."""

TEXTS: tuple[str | None, ...] = (
    None,
    "",
    " ",
    "a",
    "it's",
    "It%",
    "back\\slash\n\t'\"%_👩",
    "  padded  ",
    "\u00a0a\u2003",
    "e\u0301 é",
    "שלום עולם",
    "مرحبا",
    "👩‍👩‍👧 🇩🇪",
    "ẞß ŒÆ İıſK ΣΑΣ σας",
    "ﬁ ǆ Ǆ",
    "a\x00b",
    "\x7f",
    "line\r\n",
    "line\r",
    "line\u2028",
    "line\u0085",
    "\r\n",
    "x\x0by",
    "null",
    "true",
    "NaN",
    "1",
    " 12 ",
    "-7",
    "1.5",
    "1e3",
    "0x1F",
    "٣",
    "9223372036854775808",
    "-0",
    "1d",
    ".5",
    "+1",
    "2026-11-01",
    "2026-11-01 10:00:00",
    "aXbXc",
    "XX",
    "a.b.c",
    "t",
    "f",
    "yes",
    "1\x7f",
)
JSON: tuple[str | None, ...] = (
    '{"a":1} trailing',
    '{"a":1',
    '{"a":1,"a":2}',
    '{"a":null,"a":2}',
    "5 apples",
    "05",
    '{"a":{"b":1},"a":{"b":2}}',
    "{'a': 'x'}",
    '{"a":"x\\\'y"}',
    '{"a":"x\ty"}',
    '{"a":1.10}',
    '{"a":1E2}',
    '{"a":12345678901234567890}',
    '{"a":-0}',
    '{"a":-0.0}',
    '{"a":1e7}',
    "'",
    "{'",
    '{"a":0.001}',
    '{"a":12345678.5}',
    '{"a":[null, "u", 5, {"b":["c"]}]}',
    '[1, [2], {"a":3}]',
    '{"a":{"b":[1, 2.50, "x\\u00e9\\/\\n\\u0001\\u007f\\u2028👩", {"c" : null}]}}',
    '{"a":"\\ud83d"}',
    '{"a":"\\ud83d\\udc69"}',
    '{"a":["\\ud83d"]}',
    '{"a":"\\u0000"}',
    "[1]",
    '"abc" d',
    '"abc',
    "nul",
    "",
    "  ",
    "\ufeff{}",
    '{"a":NaN}',
    '{"a":01}',
    '{"a":.5}',
    "{a:1}",
    '{"a":1,}',
    '{"a":"\\x"}',
    '{"":1}',
    '{"a b":{"c.d":3}}',
    '{"a":true}',
    '{"a":false}',
    '{"a":"true"}',
    '{"a":"5"}',
    "null",
    "{'a': 'it\\'s \"q\"'}",
    "{\"k':1}'",
    '{"a":\x0b1}',
    '{"A":1}',
    '{"a":' + "9" * 60 + "}",
    '{"a":0.1234567890123456789e0}',
    '{"a":[]}',
    '{"a":{}}',
    "[]",
    "{}",
    "true",
    "-",
    "1.",
    None,
    *(json.dumps({"a": {"b": text}, "items": [{"sku": text}]}) for text in ("it's", "ключ👩", "5")),
    json.dumps({"a": {"b": "x" * 1000}, "items": [{"sku": f"s{n}"} for n in range(10)]}),
)
_TIMES: tuple[Any, ...] = (
    None,
    NOON,
    datetime(2026, 1, 31, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
)
_TIMES += (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
_LONGS = (None, 0, 1, -1, 7, 2**40, -(2**40), 1_700_000_000_000)
_INTS = (None, 0, 1, -1, 5, 2**20, -(2**20))
_DOUBLES = (None, 0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 0.1, 1e300, 1e7)
_ARRAYS: tuple[Any, ...] = (None, [], ["a"], ["a", None], [None], ["B", "it's", "👩", "a"])
_NUMBERS: tuple[Any, ...] = (None, [], [3], [None, 3], [0, -1, 5])
_MAPS: tuple[Any, ...] = (None, {}, {"a": 1}, {"a": None, "k": 2}, {"": 0, "it's": 5, "ключ": 6})
_STRUCTS: tuple[Any, ...] = (None, (None, "", None), (1, "odd", ("b",)), (2, "it's", (None,)))
_LISTS: tuple[Any, ...] = (None, [], [(1,), (None,)], [None], [(5,)])


def odd_rows() -> list[tuple[Any, ...]]:
    """Return rows with all these values; no operation that is equal fails on any."""

    return [_odd_row(number) for number in range(max(len(TEXTS), len(JSON)))]


def _odd_row(number: int) -> tuple[Any, ...]:
    def of(values: Any, position: int = number) -> Any:
        return values[position % len(values)]

    day = None
    if number % 5:
        day = date(2020 + number % 9, 1 + number % 12, 1 + number % 28)

    return (
        of(_INTS),
        of(_LONGS),
        of(_DOUBLES),
        Decimal(number) / 4,
        of(TEXTS),
        of(TEXTS, number * 7),
        of((True, False, None)),
        of(_TIMES),
        of(_TIMES, number // 2),
        day,
        of(_ARRAYS),
        of(_NUMBERS),
        of(_MAPS),
        of(_STRUCTS),
        of(_LISTS),
        of((None, b"", b"\x00\xff")),
        of(JSON),
        number,
        None,
        of(TEXTS),
        0,
    )


def long_rows() -> list[tuple[Any, ...]]:
    """Return rows with a text and a JSON of about 1 MiB."""
    items = [{"sku": f"s{n}", "text": LONG[:50]} for n in range(8000)]
    long_json = json.dumps({"a": {"b": LONG}, "items": items})
    row = list(ROWS[1])
    row[4] = LONG
    row[16] = long_json
    return [tuple(row)]


def comparable(array: Any) -> list[Any]:
    """Return the values of one column, so that equal ones are those that are the same."""
    return [_comparable(value) for value in array.cast(_numbers(array.type)).to_pylist()]


def _numbers(kind: Any) -> Any:
    """Return *kind* with times as numbers: Python has none before the year 1."""
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)  # NaN, and the two zeros
    if isinstance(value, list | tuple):
        return [_comparable(element) for element in value]
    if isinstance(value, dict):
        return {key: _comparable(element) for key, element in value.items()}
    return value
