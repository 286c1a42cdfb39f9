"""What SQL from outside may contain: the functions and the syntax of docs, leads and policies."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.types import StructType

from spark_reprocess.analysis.outputs import GROUPS_SCHEMA
from spark_reprocess.archive.frames import SPARK_SCHEMA
from spark_reprocess.errors import InputError
from spark_reprocess.spark.allowed_sql import FUNCTIONS, Place, condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]


OF_MESSAGES = """
parked_reason = 'too_old'
plan_id IS NULL
message_id > 'm-000' AND NOT message_id < 'm-002'
receive_count >= 4 OR body_bytes BETWEEN 1 AND 2
body like '%"id": 3}%' AND body NOT LIKE 'a#%' ESCAPE '#'
body ILIKE 'a%' AND body LIKE ANY ('a', 'b') AND body NOT LIKE ALL ('a', 'b')
body <> '👩‍👩‍👧 ключ' AND sent_at > timestamp '2026-11-01' AND sent_at > TIMESTAMP_LTZ "2026-11-01"
body RLIKE '^\\\\s*$'
body IN ('a', 'b') AND body <=> 'a' AND body IS DISTINCT FROM 'b'
attributes['own-text'].string_value = 'grüße'
get_json_object(body, '$.customer.region') = 'ap'
try_cast(get_json_object(body, '$.n') AS INT) > 5
exists(from_json(get_json_object(body, '$.items'), 'array<string>'), x -> x = 'A')
array_contains(json_object_keys(body), 'sku') AND json_array_length(body) > 0
schema_of_variant(try_variant_get(try_parse_json(body), '$.a', 'variant')) LIKE 'OBJECT%'
try_parse_json(body):a.b::string = 'x'
from_json(body, 'a struct<b: array<int>>').a.b[0] = 1
from_json(body, 'a array<struct<b: int>>').a.b IS NOT NULL
CASE WHEN body = 'a' THEN 1 ELSE 2 END = 1 AND CASE body WHEN 'a' THEN true END
sent_at >= timestamp '2026-11-01 00:00:00Z' AND sent_at >= '2026-11-01'
sent_at > drained_at - INTERVAL 7 DAYS AND drained_at - sent_at > INTERVAL '1' HOUR
sent_at + receive_count * INTERVAL 1 HOUR < drained_at
date(sent_at) + 1 > date '2026-11-01' AND date(sent_at) - date(drained_at) > INTERVAL 0 DAYS
extract(YEAR FROM sent_at) = 2026 AND extract(DAY FROM drained_at - sent_at) > 1
timestampdiff(HOUR, sent_at, drained_at) > 1 AND timestampadd(HOUR, 1, sent_at) < drained_at
substring(body FROM 1 FOR 2) = trim(BOTH 'x' FROM body) AND position('a' IN body) > 0
receive_count + 1 - 2 * 3 / 4 % 5 > -receive_count DIV 2 AND body || 'a' = 'b'
(body = 'a') IS TRUE AND (body = 'a') IS NOT FALSE AND (body = 'a') IS UNKNOWN
(body, receive_count) = ('a', 1) AND struct(body).body = 'a'
transform(split(body, ','), x -> upper(x))[0] = 'A'
""".strip().splitlines()

OF_GROUPS = """
title LIKE 'TimeoutError: payments%' AND trend = 'over' AND count <= 5000
exists(map_keys(sources), arn -> arn LIKE '%:invoices')
title LIKE '%legacy_shop%' AND age_seconds.least > 7 * 86400
get(leads, 0).field = 'body.region' AND get(leads, 0).group_share > 0.9
leads[0].value = 'ap' AND exists(leads, l -> l.score > 0.5)
reasons['too_old'] > 5 AND map_contains_key(reasons, 'too_old')
share > 0.1 AND first_sent_at > timestamp '2026-11-01' AND body_bytes.p95 < 1e6
cardinality(filter(replay_counts, r -> r.replay_count > 3)) > 0
""".strip().splitlines()

CALLS = """
to_json(from_json(body, 'a int')), schema_of_json('{}')
is_variant_null(parse_json(body)), variant_get(parse_json(body), '$.a', 'int')
aggregate(A, 0, (a, x) -> a + length(x)), reduce(A, '', (a, x) -> a || x), array(1, 2)
array_compact(A), array_distinct(A), array_except(A, A), array_intersect(A, A), array_join(A, ',')
array_max(A), array_min(A), array_position(A, 'a'), array_remove(A, 'a'), array_sort(A)
array_union(A, A), arrays_overlap(A, A), element_at(A, 1), element_at(M, 'a'), flatten(array(A))
forall(A, x -> x > 'a'), size(A), slice(A, 1, 2), sort_array(A), try_element_at(A, 1)
filter(A, (x, i) -> i > 1), map('a', 'b'), map_concat(M, M), map_entries(M), map_values(M)
map_filter(M, (k, v) -> k > v), map_from_entries(map_entries(M)), named_struct('a', 1)
transform_values(M, (k, v) -> upper(v))
base64(body), btrim(body), char_length(body), character_length(body), concat(body, 'a')
concat(A, A), concat_ws(',', body, 'a'), contains(body, 'a'), decode(unbase64(body), 'utf-8')
encode(body, 'utf-8'), decode(receive_count, 1, 'a'), endswith(body, 'a'), hex(body)
ilike(body, 'a'), initcap(body)
instr(body, 'a'), lcase(body), left(body, 1), len(body), like(body, 'a'), locate('a', body)
lower(body), ltrim(body), md5(body), octet_length(body), parse_url(body, 'HOST')
position('a', body), regexp(body, 'a'), regexp_count(body, 'a'), regexp_extract(body, 'a(b)', 1)
regexp_like(body, 'a'), regexp_extract_all(body, 'a(b)', 1), regexp_replace(body, 'a', 'b')
regexp_substr(body, 'a'), replace(body, 'a', 'b'), reverse(body), reverse(A), right(body, 1)
rlike(body, 'a'), rtrim(body)
sha(body), sha1(body), sha2(body, 256), split_part(body, ',', 1), startswith(body, 'a')
substr(body, 1, 2), substring(body, 1, 2), substring_index(body, 'a', 1), translate(body, 'a', 'b')
trim(body), trim(LEADING 'x' FROM body), trim(TRAILING 'x' FROM body), try_parse_url(body, 'HOST')
try_url_decode(body), ucase(body), unhex(body), url_decode(body), url_encode(body)
add_months(date(sent_at), 1), date_add(date(sent_at), 1), date_diff(date(sent_at), date(drained_at))
date_format(sent_at, 'yyyy'), date_part('hour', sent_at), date_sub(date(sent_at), 1)
date_trunc('hour', sent_at), dateadd(date(sent_at), 1), datediff(date(sent_at), date(drained_at))
day(sent_at), dayofmonth(sent_at), dayofweek(sent_at), dayofyear(sent_at), from_unixtime(1)
from_utc_timestamp(sent_at, 'CET'), hour(sent_at), last_day(date(sent_at)), minute(sent_at)
month(sent_at), months_between(sent_at, drained_at), quarter(sent_at), second(sent_at)
timestamp_micros(1), timestamp_millis(1), timestamp_seconds(1), to_date(body), to_date(body, 'yyyy')
to_timestamp(body), to_timestamp(body, 'yyyy'), to_unix_timestamp(sent_at)
trunc(date(sent_at), 'year'), to_utc_timestamp(sent_at, 'CET'), try_to_date(body)
try_to_timestamp(body, 'yyyy'), weekday(sent_at)
unix_micros(sent_at), unix_millis(sent_at), unix_seconds(sent_at), unix_timestamp(sent_at)
weekofyear(sent_at), year(sent_at)
abs(1), ceil(1.5), ceil(1.567, 1), ceiling(1.5), floor(1.5), floor(1.567, 1), greatest(1, 2)
least(1, 2), mod(5, 2), pmod(5, 2), round(1.5), sign(2), signum(2), sqrt(2), try_add(1, 2)
try_divide(1, 2), try_mod(1, 2), try_multiply(1, 2), try_subtract(1, 2)
between(1, 2, 3), coalesce(body, 'a'), equal_null(body, 'a'), if(body = 'a', 1, 2)
ifnull(body, 'a'), isnan(1D), isnotnull(body), isnull(body), nanvl(1D, 2D)
nullif(body, 'a'), nvl(body, 'a')
nvl2(body, 'a', 'b')
bigint(body), binary(body), boolean(body), decimal(body), double(body), float(body), int(body)
smallint(body), string(receive_count), timestamp(body), tinyint(body)
"""
"""A call of each function that no condition above has; A is an array, M a map."""


def columns(spark: "SparkSession", more: str = "drain_id string") -> "DataFrame":
    schema = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, {more}"))
    return spark.createDataFrame([], schema)


def calls_in(text: str) -> set[str]:
    return {name.lower() for name in re.findall(r"\b([a-z_0-9]+)\(", text)}


def test_conditions_of_docs_and_leads_are_allowed(spark: "SparkSession") -> None:
    rows = columns(spark)

    for sql in OF_MESSAGES:
        condition(rows, sql, Place.WHERE)


def test_conditions_of_policies_are_allowed(spark: "SparkSession") -> None:
    rows = spark.createDataFrame(GROUPS_SCHEMA.empty_table())

    for sql in OF_GROUPS:
        condition(rows, sql, Place.POLICY_WHEN)


def test_every_function_of_the_list_is_allowed_before_and_after_analysis(
    spark: "SparkSession",
) -> None:
    rows = columns(spark, "A array<string>, M map<string, string>")

    for line in CALLS.strip().splitlines():
        condition(rows, f"struct({line}) IS NULL", Place.WHERE)

    called = calls_in("\n".join([*OF_MESSAGES, *OF_GROUPS, CALLS]))
    assert set(" ".join(FUNCTIONS.values()).split()) <= called


def test_the_guide_lists_the_functions() -> None:
    guide = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    section = guide.partition("### What a condition may contain\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([a-z A-Z]+) \| (`.*`) \|$", section, re.MULTILINE))

    assert {kind: cell.strip("`").replace("`, `", " ") for kind, cell in rows.items()} == FUNCTIONS


@pytest.mark.parametrize(
    "sql",
    [
        "from_json(body, string(cast('x' as int))) IS NULL",
        "date(string(cast('x' as int))) IS NULL",
        "1e999999999999999 = 1",
        "timestamp '2026-13-01' = sent_at",
        f"{'(' * 1500}true{')' * 1500}",
    ],
)
def test_what_spark_cannot_evaluate_is_a_sentence(spark: "SparkSession", sql: str) -> None:
    with pytest.raises(InputError):
        condition(columns(spark), sql, Place.WHERE)


def test_a_function_that_somebody_put_in_place_of_sparks_is_refused(
    spark: "SparkSession",
) -> None:
    session = spark.newSession()
    session.udf.register("initcap", lambda text: text)

    with pytest.raises(InputError, match=r": initcap\(\).*was added to this Spark session"):
        condition(columns(session), "initcap(body) = 'a'", Place.WHERE)


def test_the_sessions_settings_are_as_before(spark: "SparkSession") -> None:
    names = ("spark.sql.runSQLOnFiles", "spark.sql.variable.substitute")
    before = [spark.conf.get(name) for name in names]

    condition(columns(spark), "body = 'a'", Place.WHERE)
    with pytest.raises(InputError):
        condition(columns(spark), "body = ", Place.WHERE)

    assert [spark.conf.get(name) for name in names] == before == ["true", "true"]
