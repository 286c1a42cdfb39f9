"""Forms of SQL that operators may write, and the columns that they are about."""

from typing import Any

import pyarrow as pa

from tests.support.golden import stored_texts

_STORED = stored_texts("allowed_sql")
SAME = _STORED["gives what Spark gives"].splitlines()
FAILING = _STORED["fails as in Spark"].splitlines()
"""Forms that Spark cannot evaluate on some row; with the same error condition."""

FORMS = [*SAME, *FAILING, *stored_texts("duckdb_sql")["forms"].splitlines()]
"""Those of Spark, and more of what DuckDB and Spark could differ in."""

_TEXTS = ("s", "p", "json", "ключ")
_WHOLE = ("i", "a.b", "c`d", "select")
_DEEP = pa.struct([("b", pa.string())])
_COLUMNS: list[Any] = [
    *((name, pa.string()) for name in _TEXTS),
    *((name, pa.int32()) for name in _WHOLE),
    ("l", pa.int64()),
    ("x", pa.float64()),
    ("n", pa.decimal128(5, 2)),
    ("flag", pa.bool_()),
    *((name, pa.timestamp("us", "UTC")) for name in ("t", "u")),
    ("day", pa.date32()),
    ("words", pa.list_(pa.string())),
    ("numbers", pa.list_(pa.int32())),
    ("counts", pa.map_(pa.string(), pa.int32())),
    ("one", pa.struct([("a", pa.int32()), ("odd. name", pa.string()), ("deep", _DEEP)])),
    ("many", pa.list_(pa.struct([("a", pa.int32())]))),
    ("raw", pa.binary()),
]
SCHEMA = pa.schema(_COLUMNS)
"""The columns of ``tests/integration/sql_rows.py``."""

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
get(differences, 0).parts[0].field = 'body.region' AND get(differences, 0).group_share > 0.9
differences[0].parts[0].value = 'ap' AND exists(differences, l -> l.score > 0.5)
reasons['too_old'] > 5 AND map_contains_key(reasons, 'too_old')
share > 0.1 AND first_parked_at > timestamp '2026-11-01' AND body_bytes.p95 < 1e6
cardinality(filter(replay_counts, r -> r.replay_count > 3)) > 0
""".strip().splitlines()
"""Conditions of the guide and of policies."""
