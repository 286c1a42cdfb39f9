"""Conditions give what Spark gives for the plain text. The rest is refused, named, with a rule."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructType

from spark_reprocess.analysis.outputs import GROUPS_SCHEMA
from spark_reprocess.archive.frames import SPARK_SCHEMA
from spark_reprocess.errors import InputError
from spark_reprocess.spark.allowed_sql import FUNCTIONS, Place, attribute_value, condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]

COLUMNS = """
i int, l bigint, x double, n decimal(5,2), s string, p string, flag boolean, t timestamp,
u timestamp, day date, words array<string>, numbers array<int>, counts map<string,int>,
one struct<a: int, `odd. name`: string, deep: struct<b: string>>, many array<struct<a: int>>,
raw binary, json string, `a.b` int, `c``d` int, `ключ` string, `select` int
"""
NOON = datetime(2026, 11, 1, 12, 30, 15, 123456, UTC)
ROWS = [
    (None,) * 21,
    (
        *(1, 2**63 - 1, 1.5, Decimal("1.50"), "it's", "it%", True, NOON, NOON, date(2026, 11, 1)),
        *(
            ["a", None, "B"],
            [3, None, -1],
            {"a": 1, "k": None},
            (1, "odd", ("b",)),
            [(1,), (None,)],
        ),
        *(b"\x00\xff", '{"a": {"b": [1, "2"]}, "x": null}', 7, 8, "значение", 9),
    ),
    (
        *(2**31 - 1, -(2**63), float("nan"), Decimal("-999.99"), "", "", False),
        *(
            datetime(1, 1, 1, tzinfo=UTC),
            NOON,
            date(9999, 12, 31),
            [],
            [],
            {},
            (None, "", None),
            [],
        ),
        *(b"", "[1, 2]", 0, 0, "", 0),
    ),
    (
        *(-(2**31), 0, float("-inf"), Decimal("0.05"), "back\\slash\n\t'\"%_👩", "back", None),
        *(NOON, None, date(2024, 2, 29), ["👩", "a,b"], [0], {"": 0}, None, None, None),
        *("{broken", 3, 4, "%", 5),
    ),
]

SAME = r"""
NULL AND flag, NULL OR flag, NOT flag, NOT NULL, flag AND NOT flag OR flag, NOT flag = flag
NOT flag AND flag, !flag OR flag, ! flag = flag, NOT NOT flag, flag IS NULL, flag IS NOT NULL
NOT i IS NULL, flag IS TRUE, flag IS NOT TRUE, flag IS FALSE, flag IS NOT FALSE, flag IS UNKNOWN
flag IS NOT UNKNOWN, i = 1, i == 1, i <> 1, i != 1, i <=> NULL, NOT i <=> NULL, s <=> p, i > l
i >= 1.5, x < 1, x = x, x > 1e300, x <= 'NaN', n = 1.5, n < 1, s = 1.0 OR TRUE, s > p
s IS DISTINCT FROM p, s IS NOT DISTINCT FROM p, NULL IS DISTINCT FROM NULL, (i = 1) IS NULL
(i = 1) = flag, flag = (s IS NULL), (i < 1) <=> (l < 1), (i = 1) IN (flag, NULL)
i IN (1, 2), i NOT IN (1, NULL), i IN (NULL), s IN ('a', 'it\'s'), i IN (1, 1.5, '2'), n IN (1.50)
i BETWEEN 0 AND 2, i NOT BETWEEN 0 AND 2, i BETWEEN NULL AND 5, s BETWEEN 'a' AND 'z' AND flag
i % 9 + 1 BETWEEN 1 AND 2 + 3, t BETWEEN u AND u, CASE WHEN i BETWEEN 1 AND 2 THEN flag END
1, 1.0, 1.50, .5, 5., 0.05, 1e3, 1E-3, 1.5e0, 2147483647, 2147483648, -2147483648, -2147483649
9223372036854775807, 9223372036854775808, -9223372036854775808, -9223372036854775809, -1.0, - 1
12345678901234567890.12, 0, -0.0, -0.0e0, 5L, 5S, 5Y, 1.5D, 1.5F, 1.5BD, TRUE, false, NULL
'', 'a', "it's", 'it\'s', 'tab\tnew\nline', 'back\\slash', '\u006e\U0001F469\101\0\Z\b\r', '\%\_\q\''
'👩', 'ключ', r'\d+\\', R"\'", 'a -- b', 'a /* b */', '%', '_', ' ', '?', ':x', 'now'
9 - i % 3 - 1, 7 * 2 % 3, i % 5 * 2 - 3 % 2, 7 - 2 * 3 + 1, -7 % 3, 7 / 2, 7 / 2.0, 1.0 / 3, -7 DIV 2, 7 DIV 2 * 2
n * n, n + 1, n / 3, x * 2, x / 3, -x, -n, - -1, i * 1.0, l / 2, 5 % -3, s || p, s || 1, 'a' || NULL
s || p || 'x', 2 - (1 - 5), (1 + 2) * 3, -(1), 1 - -1, 1 -1, l DIV 3, x % 2, words || words, 9-1
s LIKE 'it%', s LIKE p, s NOT LIKE 'it%', s LIKE 'it\'s', s LIKE '%\\%%', s LIKE '%\%%', s LIKE 'it_s'
s LIKE 'it#%' ESCAPE '#', s NOT LIKE '%#_%' ESCAPE '#', s ILIKE 'IT%', s NOT ILIKE 'IT%'
s ILIKE '%#%%' ESCAPE '#', s LIKE '', NULL LIKE s, s LIKE NULL, s LIKE '%👩', s LIKE '%\n%'
s LIKE '%\\\\%', s LIKE r'%\\%', s RLIKE '^it', s RLIKE '\\\\', s RLIKE '(?i)IT', s NOT RLIKE '\\s'
s RLIKE r'\s', s RLIKE '\\d+|s$', s RLIKE '^$', NULL RLIKE 'a', s RLIKE p, s RLIKE '👩', s RLIKE '.'
CASE WHEN flag THEN 1 END, CASE WHEN flag THEN 1 WHEN i > 1 THEN 2.5 ELSE l END
CASE i WHEN 1 THEN 'one' WHEN NULL THEN 'null' ELSE s END, CASE WHEN flag THEN NULL ELSE i END = 1
CASE s WHEN 'it\'s' THEN flag END, CASE WHEN s = p OR flag THEN s ELSE CASE WHEN flag THEN p END END
CAST(i AS STRING), CAST(s AS BINARY), CAST(flag AS INT), CAST(n AS DOUBLE), CAST(n AS DECIMAL(10,1))
CAST(n AS DECIMAL), CAST(day AS TIMESTAMP), CAST(t AS DATE), CAST(s AS VARCHAR(2)), CAST(i AS INTEGER)
CAST(t AS TIMESTAMP_NTZ), CAST(t AS TIMESTAMP_LTZ), CAST(n AS FLOAT), CAST(1 AS TINYINT)
CAST(1 AS SMALLINT), CAST(i AS BIGINT), CAST(t AS DOUBLE), TRY_CAST(s AS INT), TRY_CAST(s AS DOUBLE)
TRY_CAST(s AS DATE), TRY_CAST(x AS INT), TRY_CAST(l AS INT), TRY_CAST(json AS TIMESTAMP)
TRY_CAST(s AS BOOLEAN), TRY_CAST(i AS TINYINT), TRY_CAST(n AS DECIMAL(2,1)), CAST(i AS VARIANT)
i::string, i::string || 'a', one.a::string, -i::bigint, (-1)::string, i::bigint::string, s::binary
split(s, 't')[0], split(s, 't')[i * 0], counts['a'], counts['none'], counts[s], array(1, 2)[0] + 1, array(i, NULL)[1]
many.a, from_json('[{"a": 1}]', 'array<struct<a: int>>')[0].a, from_json('[{"a": 1}]', 'array<struct<a: int>>').a[0], one.a, ONE.A, one.deep.b, one.`odd. name`, one['a'], one.deep['b']
`a.b`, `c``d`, `ключ`, `select`, `A.B`, (one).a, (counts)['a'], I, `i`
array(1, NULL, 2)[0], array(split(s, 't'))[0][0], array(one)[0].deep.b
date '2026-11-01', DATE "2026-11-01", timestamp '2026-11-01', TIMESTAMP '2026-11-01 10:00:00Z'
timestamp '2026-11-01 10:00:00 Europe/Berlin', timestamp '2026-11-01T10:00:00.5+02:00', timestamp_ntz '2026-11-01 10:00'
timestamp_ltz '2026-11-01 10:00', t >= timestamp '2026-11-01 00:00:00Z', t > '2026-11-01', day = '2026-11-01'
t > day, day > timestamp '2026-01-01', t - u, day - day, day + 1, day - 1, t + INTERVAL 1 DAY
INTERVAL 7 DAYS, INTERVAL '1' HOUR, INTERVAL '2' MINUTES, INTERVAL 30 SECONDS
INTERVAL 1 DAY 2 HOURS, INTERVAL '1 day', INTERVAL -3 MONTHS, INTERVAL 2 YEARS, -INTERVAL 1 DAY
u - INTERVAL 90 MINUTE, t - INTERVAL 3 MONTH, day + INTERVAL 1 YEAR, t - u > INTERVAL 0 DAYS
day - day <= INTERVAL 1 DAY, INTERVAL 1 HOUR * 2, 3 * INTERVAL 1 HOUR, u - t < INTERVAL 7 DAY
t > u - INTERVAL 7 DAYS AND flag, INTERVAL 1 MONTH + INTERVAL 1 YEAR, INTERVAL 1 HOUR / 2
from_json(json, 'a struct<b: array<string>>').a.b[1], from_json('[1, 2]', 'array<int>')
from_json(s, 'array<string>'), from_json(json, 'map<string, string>')['a']
get_json_object(json, '$.a.b'), get_json_object(json, '$.a.b[0]'), get_json_object(json, '$.x')
get_json_object(json, '$[\'a\']'), json_array_length(json), json_object_keys(json)
array_contains(json_object_keys(json), 'a'), is_variant_null(try_parse_json('null'))
schema_of_variant(try_parse_json(json)), try_parse_json(json), try_variant_get(try_parse_json(json), '$.a.b[0]', 'int')
schema_of_variant(try_variant_get(try_parse_json(json), '$.a', 'variant')) LIKE 'OBJECT%'
array('a', NULL), array_contains(words, 'a'), array_contains(numbers, 3), array_max(numbers), array_min(numbers)
arrays_overlap(words, array('a')), cardinality(words), size(words), size(counts), element_at(array(1, 2), -1)
element_at(counts, 'a'), try_element_at(words, 1), try_element_at(words, 9), try_element_at(counts, 'a')
get(words, 0), get(words, -1), get(words, 1), sort_array(words), sort_array(numbers, false)
map_contains_key(counts, 'a'), map_keys(counts), map_values(counts)
exists(words, w -> w = 'a'), exists(numbers, n -> n > 5), exists(words, w -> w IS NULL), forall(numbers, n -> n > -5)
filter(words, w -> w <> p), filter(many, m -> m.a = 1), transform(words, w -> upper(w)), transform(many, m -> m.a + 1)
exists(numbers, x -> x > i AND flag), exists(many, m -> exists(words, w -> w = 'a' AND m.a = 1))
exists(words, S -> s = 'B'), exists(map_keys(counts), `k e` -> `k e` = 'a'), transform(array(i, 3), x -> x % 2)[0]
exists(words, w -> CASE WHEN w = 'a' THEN flag ELSE FALSE END), forall(words, w -> exists(numbers, w -> w = 3))
size(filter(numbers, n -> n % 2 = 1)) = 1, exists(array(one), o -> o.deep.b = 'b' AND o['a'] = 1)
btrim(s), btrim(s, 's'), char_length(s), concat(s, p, 1), concat(words, words), contains(s, 't'), endswith(s, 's')
initcap(s), instr(s, 't'), left(s, 2), length(s), length(raw), locate('t', s), locate('t', s, 2), lower(s), ltrim(s)
ltrim('i', s), md5(s), regexp_count(s, 't'), regexp_extract(s, '(i)(t)', 2), regexp_extract(s, '(i)'), regexp_like(s, 't')
regexp_replace(s, 't', 'T$0'), regexp_replace(s, '(i)', '$1\\$'), replace(s, 't'), replace(s, 't', 'T'), reverse(s)
reverse(words), right(s, 2), rtrim(s), rtrim('s', s), sha2(s, 256), split(s, 't'), split(s, '', 2), split(s, '\\\\')[0]
split_part(s, 't', 1), startswith(s, 'it'), substr(s, 2), substring(s, 0, 2), substring(s, -2, 1), substring(s, 1, 1)
substring_index(s, 't', -1), translate(s, 'it', 'x'), trim(s), unbase64('YQ=='), string(unbase64('YQ==')), upper(s)
date_add(day, i % 10), date_diff(day, date '2026-01-01'), date_format(t, 'yyyy-MM-dd HH:mm'), date_sub(day, 1)
date_trunc('hour', t), date_trunc('MONTH', day), day(t), dayofweek(day), hour(t), minute(t), month(day), second(t), year(t)
from_utc_timestamp(u, 'Europe/Berlin'), to_utc_timestamp(u, 'Asia/Kolkata'), timestamp_millis(i), timestamp_seconds(1.5)
to_date('2026-11-01'), to_date('01.11.2026', 'dd.MM.yyyy'), to_timestamp('2026-11-01 01:02:03'), to_timestamp(string(u))
to_timestamp('2026', 'yyyy'), try_to_date(s), try_to_timestamp(s), try_to_timestamp('2026-11-01', 'yyyy-MM-dd')
unix_millis(u), unix_seconds(t)
abs(n), ceil(n), ceil(1.567, 1), floor(x), floor(-1.5), greatest(i, l, NULL), least(x, i), mod(7, 3), mod(-7, 3), pmod(-7, 3)
round(n, 1), round(2.5), round(-2.5), round(x), sign(n), sqrt(abs(n)), try_add(i, 1), try_add(day, INTERVAL 1 DAY)
try_divide(i, 0), try_divide(n, 2), try_multiply(l, 2), try_subtract(i, 2147483647)
coalesce(i, 0), coalesce(s, p, 'x'), if(flag, i, 1.5), if(i > 1, s, NULL), ifnull(s, 'x'), isnotnull(s)
isnull(i), nullif(s, ''), nullif(i, 1), nvl(p, s)
bigint(i), boolean(i), date(t), double(n), int(n), string(n), string(t), string(words), timestamp(day), string(x)
i /* a comment */ = 1 -- to the end
"""  # noqa: E501 - a table
"""Of each line the texts between commas at its top level."""

FAILING = r"""
i + 1 > 0
l - 1 > 0
i * 2 = 0
CAST(s AS INT) = 1
s = 1
1 / 0 = 1
words[0] = 'a'
many.a[0] = 1
many[0].a = 1
CAST(l AS INT) = 1
element_at(words, 9) = 'a'
to_date(s) = day
abs(i) > 0
-(-2147483648) = i
""".strip().splitlines()
"""What Spark cannot evaluate on some row; with the same error condition."""

CODE = "calls Java code"
SUBQUERY = "reads other data than the message"
QUALIFIED = "has a qualified name"
TIME = "gives the current time, which is another one tomorrow"
SESSION = "depends on who runs this and where"
RANDOM = "gives another value each time"
SEVERAL = "makes several rows of one"
OTHERS = "looks at other messages"
ABSENT = "is not in the text"
UNLISTED = "is not allowed"
ORDER = "put brackets around"
UNREADABLE = "cannot be read"
NO_COLUMN = "is no column here"

REFUSED_BY_NAME = {
    ABSENT: "identifier('lower')",
    NO_COLUMN: """
text.`/no/such/file`, _metadata.file_path, __hidden, spark_catalog.s, session.x, none
""",
    OTHERS: "count(1), max(s)",
    SEVERAL: "explode(words), stack(2, 'a', 'b')",
    RANDOM: "rand(), uuid(), monotonically_increasing_id()",
    TIME: """
current_timestamp, current_timestamp(), CURRENT_DATE, localtimestamp(), now(), unix_timestamp()
""",
    SESSION: """
current_user, current_user(), user, session_user(), current_database(), version()
input_file_name()
""",
    UNLISTED: """
raise_error(s), assert_true(flag), repeat('a', 1000000000), lpad(s, 1000000000)
sequence(1, 1000000000), aggregate(words, s, (a, w) -> concat(a, a))
reduce(words, s, (a, w) -> concat(a, a)), array_join(transform(split(s, ''), w -> s), '')
struct(s), timestampdiff(HOUR, t, u), convert(s, int), nothing(s)
""",
}
"""By rule; the sentence names the first word of the text, with brackets if it has some."""

REFUSED_ALIKE = {
    ("", UNREADABLE): """
identifier('java_' || 'method')('java.lang.System', 'gc'), NOT EXISTS (TABLE x)
exists(words, () -> flag), ~i, +s, json:a.b, extract(YEAR FROM t), trim(BOTH 'x' FROM s)
substring(s FROM 1 FOR 2), s = 'a'; DROP TABLE x, DROP TABLE x, s s
""",
    ("", UNLISTED): """
i IN (), upper(key => s), [1, 2], words[0:1], i << 1, json ->> 'a', INTERVAL i DAYS
INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1'
""",
    ("'now', 'today' and the like", TIME): r"""
timestamp 'now', timestamp '\u006eow', date 'today' = date '2026-01-01'
cast(concat('n', 'ow') AS timestamp), to_date('yesterday'), timestamp '2026-11-01' < 'now'
try_cast('tomorrow' AS date), coalesce(t, 'now')
""",
    ("", ORDER): """
s = p = flag, i < 1 = flag, flag = i < 1, flag <=> i < 1, i = 1 IS NULL, s IS NULL = flag
s = p LIKE 'a', flag = s LIKE 'a', i BETWEEN 1 AND 2 = flag, flag = i IN (1), flag = NOT flag
""",
}
"""By part and rule, as in the table below."""

REFUSED = {
    "java_method('java.lang.System', 'gc')": ("java_method()", CODE),
    "Reflect('java.lang.System', 'getenv', 'PATH')": ("Reflect()", CODE),
    "try_reflect('no.Such', 'method')": ("try_reflect()", CODE),
    "`java_method`('java.lang.System', 'gc')": ("java_method()", CODE),
    "spark_catalog.default.lower('a')": ("lower('a')", QUALIFIED),
    "system.builtin.upper('a')": ("upper('a')", QUALIFIED),
    "one.upper('a')": ("upper('a')", QUALIFIED),
    "(SELECT value FROM text.`/no/such/file`)": ("SELECT value FROM text", SUBQUERY),
    "'a' IN (SELECT value FROM text.`/no/such/file`)": ("SELECT value FROM text", SUBQUERY),
    "EXISTS (SELECT 1 FROM json.`/no/such/file`)": ("SELECT 1 FROM json", SUBQUERY),
    "upper((SELECT 'a'))": ("SELECT 'a'", SUBQUERY),
    "(VALUES (1))": ("", ""),
    "(SELECT 1 UNION SELECT 2)": ("UNION", SUBQUERY),
    "(WITH x AS (SELECT 1) SELECT * FROM x)": ("SELECT 1", SUBQUERY),
    "(FROM x)": ("", ""),
    "i IN words": ("i IN words", UNLISTED),
    "*": ("*", ""),
    "one.*": ("one.*", ""),
    "array(*)": ("*", "name them"),
    "first_value(s) OVER (ORDER BY s)": ("OVER", OTHERS),
    "upper(s) OVER ()": ("OVER", OTHERS),
    "count(*) FILTER (WHERE flag)": ("FILTER", OTHERS),
    "date(current_date())": ("current_date()", TIME),
    "transform(split(s, ''), w -> s)": ("s", NO_COLUMN),
    "transform(array(words), w -> transform(w, v -> w))": ("w", NO_COLUMN),
    "filter(words, (w, n) -> n > 0)": ("(w, n) -> n > 0", "x -> x = 'a'"),
    "exists(words)": ("EXISTS(words)", "x -> x = 'a'"),
    "exists(words, s)": ("EXISTS(words, s)", "x -> x = 'a'"),
    "upper(w -> w)": ("w -> w", "stands only in exists"),
    "w -> w": ("", "stands only in exists"),
    "exists(words, w -> w.upper() = 'A')": ("upper()", QUALIFIED),
    ":s": (":s", ABSENT),
    "?": ("?", ABSENT),
    "${s}": ("s", ABSENT),
    "@s": ("s", ABSENT),
    "wrds": ("wrds", "did you mean words?"),
    "upper(DISTINCT s)": ("DISTINCT s", UNLISTED),
    "upper(s ORDER BY s)": ("ORDER BY", UNLISTED),
    "upper(s) IGNORE NULLS": ("", ""),
    "array(s AS x)": ("s AS x", UNLISTED),
    "(s, i)": ("(s, i)", UNLISTED),
    "(s, i) IN ((1, 2))": ("(s, i)", UNLISTED),
    "{'a': 1}": ("", ""),
    "i & 1": ("i & 1", UNLISTED),
    "i | 1": ("i | 1", UNLISTED),
    "s COLLATE UTF8_LCASE": ("COLLATE", UNLISTED),
    "X'1F'": ("X'1F'", UNLISTED),
    "b'a'": ("", ""),
    "t AT TIME ZONE 'UTC'": ("AtTimeZone", UNLISTED),
    "json -> 'a'": ("", "stands only in exists"),
    "s LIKE ANY ('a', 'b')": ("ANY()", UNLISTED),
    "s LIKE ALL ('a', 'b')": ("ALL()", UNLISTED),
    "s SIMILAR TO 'a'": ("SIMILAR TO", UNLISTED),
    "s GLOB 'a'": ("GLOB", UNLISTED),
    "i BETWEEN SYMMETRIC 2 AND 1": ("Between", UNLISTED),
    "position('a' IN s)": ("", ""),
    "CAST(s AS ARRAY<INT>)": ("ARRAY<INT>", UNLISTED),
    "CAST(s AS STRUCT<a: INT>)": ("STRUCT", UNLISTED),
    "CAST(s AS INTERVAL DAY)": ("", ""),
    "CAST(s AS nothing)": ("", ""),
    "CAST(s AS DATE FORMAT 'yyyy')": ("", ""),
    "INTERVAL 1.5 DAYS": ("1.5", UNLISTED),
    "INTERVAL 3 FORTNIGHTS": ("FORTNIGHT", UNLISTED),
    "INTERVAL 1 WEEK": ("WEEK", UNLISTED),
    "s || 1 + 1": ("s || 1 + 1", ORDER),
    "-1::string": ("-CAST(1 AS STRING)", ORDER),
    "date '2026-11-01'::string": ("Cast", UNLISTED),
    "'it''s'": ("", "write a quote within a text as"),
    "'a' 'b'": ("", "write a quote within a text as"),
    "s = ": ("", UNREADABLE),
    "s = 'a": ("", UNREADABLE),
    "(s = 'a'": ("", UNREADABLE),
    "s = 'a')": ("", UNREADABLE),
    "SELECT 1": ("", ""),
    "": ("", "is not one expression"),
    "-- nothing": ("", "is not one expression"),
    "1e400": ("1e400", "too large"),
    "1" * 40: ("", ""),
    "upper(s, p)": ("", "upper"),
    "from_json(s, string(cast('x' as int)))": ("", ""),
    "date(string(cast('x' as int)))": ("", ""),
    "timestamp '2026-13-01'": ("2026-13-01", "CAST_INVALID_INPUT"),
    "CAST(5000 AS TINYINT)": ("5000", "CAST_OVERFLOW"),
    "one.nothing": ("", "nothing"),
    "s.x": ("", ""),
    "i + words": ("", "ARRAY"),
    f"{'(' * 1500}true{')' * 1500}": ("", "is nested too deeply"),
    f"{'NOT ' * 1500}true": ("", "is nested too deeply"),
    "s = '\ud800'": ("", "is not valid Unicode"),
}
"""What is refused: the part that the sentence names, and the rule or the fix."""


@pytest.fixture
def rows(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(ROWS, COLUMNS).coalesce(1).cache()


def texts_of(table: str) -> list[str]:
    """Split each line at the commas that are outside of brackets, quotes and ``CASE``."""
    found = []
    for line in table.strip().splitlines():
        start, depth = 0, 0
        for token in re.finditer(
            r"""r?'(?:\\.|[^'\\])*'|r?"(?:\\.|[^"\\])*"|`[^`]*`|[\[(]|[\])]|,""", line
        ):
            depth += (token[0] in "[(") - (token[0] in "])")
            if token[0] == "," and not depth:
                found.append(line[start : token.start()].strip())
                start = token.end()
        found.append(line[start:].strip())
    return found


def refused() -> dict[str, tuple[str, str]]:
    """All texts that are refused, with what the sentence has: a part, and the rule or the fix."""
    by_name = {
        sql: (match[0].replace("(", "()"), rule)
        for rule, table in REFUSED_BY_NAME.items()
        for sql in texts_of(table)
        if (match := re.match(r"\w+\(?", sql))
    }
    alike = {sql: row for row, table in REFUSED_ALIKE.items() for sql in texts_of(table)}
    return {**by_name, **alike, **REFUSED}


def test_each_form_and_function_gives_what_spark_gives_for_the_text(rows: "DataFrame") -> None:
    texts = texts_of(SAME)
    assert len(texts) > 400
    wrong = {}
    for first in range(0, len(texts), 100):
        part = texts[first : first + 100]
        plain = [F.expr(text).alias(f"c{n}") for n, text in enumerate(part)]
        built = [attribute_value(rows, text)[0].alias(f"c{n}") for n, text in enumerate(part)]
        expected, found = rows.select(*plain), rows.select(*built)
        types = [[field.dataType for field in one.schema] for one in (expected, found)]
        shown = [
            one.select(*(F.col(name).cast("string") for name in one.columns)).toArrow().to_pydict()
            for one in (expected, found)
        ]
        for n, text in enumerate(part):
            pairs = [(types[k][n], shown[k][f"c{n}"]) for k in (0, 1)]
            if pairs[0] != pairs[1]:
                wrong[text] = pairs
    assert wrong == {}


@pytest.mark.parametrize("sql", FAILING)
def test_what_fails_in_spark_fails_alike(rows: "DataFrame", sql: str) -> None:
    def fault(where: str, *, is_built: bool) -> str | None:
        with pytest.raises(PySparkException) as raised:
            rows.where(condition(rows, where, Place.WHERE) if is_built else F.expr(where)).collect()
        return raised.value.getCondition()

    assert fault(sql, is_built=True) == fault(sql, is_built=False)


def test_every_function_of_the_list_is_in_the_table() -> None:
    called = {name.lower() for name in re.findall(r"\b([a-z_0-9]+)\(", SAME)}

    assert set(" ".join(FUNCTIONS.values()).split()) <= called


def test_whatever_is_not_known_is_refused_with_the_part_and_the_rule(rows: "DataFrame") -> None:
    wrong = {}
    for sql, (part, rule) in refused().items():
        try:
            attribute_value(rows, sql)
        except InputError as error:
            if part not in str(error) or rule not in str(error):
                wrong[sql] = str(error)
        else:
            wrong[sql] = "is allowed"
    assert wrong == {}


OF_MESSAGES = """
parked_reason = 'too_old' AND plan_id IS NULL AND receive_count >= 4 OR body_bytes BETWEEN 1 AND 2
body LIKE '%"id": 3}%' AND body NOT LIKE 'a#%' ESCAPE '#' AND body RLIKE '^\\\\s*$'
attributes['own-text'].string_value = 'grüße'
get_json_object(body, '$.customer.region') = 'ap'
try_cast(get_json_object(body, '$.n') AS INT) > 5
exists(from_json(get_json_object(body, '$.items'), 'array<string>'), x -> x = 'A')
array_contains(json_object_keys(body), 'sku') AND json_array_length(body) > 0
schema_of_variant(try_variant_get(try_parse_json(body), '$.a', 'variant')) LIKE 'OBJECT%'
sent_at >= timestamp '2026-11-01 00:00:00Z' AND sent_at > drained_at - INTERVAL 7 DAYS
sent_at + receive_count * INTERVAL 1 HOUR < drained_at AND drain_id <> 'd'
""".strip().splitlines()
OF_GROUPS = """
title LIKE 'TimeoutError: payments%' AND trend = 'ended' AND count <= 5000
exists(map_keys(sources), arn -> arn LIKE '%:invoices')
title LIKE '%legacy_shop%' AND age_seconds.least > 7 * 86400
get(leads, 0).parts[0].field = 'body.region' AND get(leads, 0).group_share > 0.9
leads[0].parts[0].value = 'ap' AND exists(leads, l -> l.score > 0.5)
reasons['too_old'] > 5 AND map_contains_key(reasons, 'too_old')
share > 0.1 AND first_sent_at > timestamp '2026-11-01' AND body_bytes.p95 < 1e6
cardinality(filter(replay_counts, r -> r.replay_count > 3)) > 0
""".strip().splitlines()


def test_conditions_of_docs_and_policies_are_allowed(spark: "SparkSession") -> None:
    schema = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, drain_id string"))
    messages = spark.createDataFrame([], schema)
    groups = spark.createDataFrame(GROUPS_SCHEMA.empty_table())

    for rows, conditions in ((messages, OF_MESSAGES), (groups, OF_GROUPS)):
        for sql in conditions:
            condition(rows, sql, Place.WHERE)


def test_a_condition_of_a_thousand_parts_can_be_read(rows: "DataFrame") -> None:
    sql = " OR ".join(f"i = {number}" for number in range(1000))

    assert rows.where(condition(rows, sql, Place.WHERE)).count() == 1


def test_the_guide_lists_the_functions() -> None:
    guide = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    section = guide.partition("### What a condition may contain\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| ([a-z A-Z]+) \| (`.*`) \|$", section, re.MULTILINE))

    assert {
        kind: cell.strip("`").replace("`, `", " ") for kind, cell in listed.items()
    } == FUNCTIONS


def test_a_function_that_somebody_put_in_place_of_sparks_is_refused(spark: "SparkSession") -> None:
    session = spark.newSession()
    session.udf.register("initcap", lambda text: text)
    rows = session.createDataFrame([], "s string")

    with pytest.raises(InputError, match="a function that was added to this session"):
        condition(rows, "initcap(s) = 'a'", Place.WHERE)
