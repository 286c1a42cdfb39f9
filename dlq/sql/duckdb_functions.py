"""Functions that DuckDB gives as Spark does: ``EQUAL`` lists them, ``duckdb_call`` writes them."""

import pyarrow as pa
from sqlglot import exp

from dlq.sql.duckdb_operators import (
    array_contains,
    comparison,
    concatenation,
    microseconds,
    negation,
    tried,
    unified_terms,
    whole_division,
)
from dlq.sql.duckdb_terms import (
    BYTES,
    DATE,
    DOUBLE,
    FLAG,
    INT,
    LONG,
    NUMBER_KINDS,
    TEXT,
    TIME,
    TIME_KINDS,
    Term,
    all_as_kind,
    applied,
    as_int,
    as_kind,
    case_when,
    cast_to,
    function_call,
    infix,
    is_index,
    is_null,
    is_text,
    kinds_of,
    null_literal,
    refusal,
    required_flag,
    value_of_map,
    whole_literal,
    whole_sql,
)
from dlq.sql.java_regex import (
    is_plain_text,
)

_PARTS_OF_TIME = ("year", "month", "day", "hour", "minute", "second")

_TRUNCATED_TO = (*_PARTS_OF_TIME, "week")

_EQUAL = """
    abs array_contains bigint boolean btrim cardinality char_length coalesce concat contains date
    date_add date_diff date_sub date_trunc day dayofweek double element_at endswith exists filter
    forall from_json get get_json_object greatest hour if ifnull instr int is_variant_null isnotnull
    isnull json_array_length json_object_keys least left length locate lower ltrim map_contains_key
    map_keys map_values md5 minute mod month nullif nvl regexp_like replace right rtrim
    schema_of_variant second sha2 size split split_part startswith string substr substring timestamp
    to_date transform trim try_add try_divide try_element_at try_multiply try_parse_json
    try_subtract try_variant_get unix_millis unix_seconds upper year
"""

EQUAL = frozenset(_EQUAL.split())
"""The functions that DuckDB evaluates, some for some arguments only. All others need Spark."""


def duckdb_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    """Write a call that is one expression of DuckDB; None for arguments that are not known here."""
    for write in (_choice_call, _text_call, _array_call, _number_call, _time_call):
        term = write(node, name, terms)
        if term is not None:
            return term
    return None


def _choice_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: PLR0911 - a table
    """Write a function that chooses among values, or compares them."""
    match name, terms:
        case ("coalesce", [_, *_]) | ("ifnull" | "nvl", [_, _]):
            values = unified_terms(node, terms)
            return applied("coalesce", values[0].type, *values)
        case "if", [test, _, _]:
            value, default = unified_terms(node, terms[1:])
            branches = [(required_flag(node, test).sql, value.sql)]
            return Term(case_when(branches, default.sql), value.type)
        case "nullif", [first, second]:
            same = comparison(node, exp.EQ, first, second)
            return Term(
                case_when([(same.sql, null_literal(first.type).sql)], first.sql), first.type
            )

        case "isnull", [term]:
            return Term(is_null(term.sql), FLAG)
        case "isnotnull", [term]:
            return negation(Term(is_null(term.sql), FLAG))

        case "greatest" | "least", [_, _, *_]:
            values = unified_terms(node, terms)
            if values[0].type in (*NUMBER_KINDS, TEXT, *TIME_KINDS):
                return applied(name, values[0].type, *values)
    return None


def _text_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: C901, PLR0911, PLR0912 - a table
    """Write a function of a text, which is the first term but for ``locate``."""
    match name, terms:
        case "concat", [_, *_]:
            return concatenation(node, terms)
        case "length" | "char_length", [Term(type=kind) as term] if kind == TEXT:
            return as_int(function_call("length", term.sql))
        case "length" | "char_length", [Term(type=kind) as term] if kind == BYTES:
            return as_int(function_call("octet_length", term.sql))
        case "contains" | "startswith" | "endswith", [_, _] if all(map(is_text, terms)):
            duck = {"contains": "contains", "startswith": "starts_with", "endswith": "ends_with"}
            return applied(duck[name], FLAG, *all_as_kind(terms, TEXT))
        case "locate", [Term(value=str() as part) as sought, text] if part and is_text(text):
            return _position(text, sought)

    if not terms or not is_text(terms[0]):
        return None
    match name, terms:
        case "instr", [text, Term(value=str() as part) as sought] if part:
            return _position(text, sought)

        case "left" | "right", [text, count] if is_index(count):
            return applied(name, TEXT, as_kind(text, TEXT), count)
        case "substring" | "substr", [text, start, *count] if (
            len(count) <= 1 and is_index(start) and start.value >= 1 and all(map(is_index, count))
        ):
            return applied("substring", TEXT, as_kind(text, TEXT), start, *count)
        case "trim" | "btrim" | "ltrim" | "rtrim", [text]:
            blank = exp.Literal.string(" ")
            return Term(function_call(name.removeprefix("b"), as_kind(text, TEXT).sql, blank), TEXT)

        case "replace", [_, Term(value=str() as part), Term(value=str())] if part:
            return applied("replace", TEXT, *terms)
        case "split", [_, Term(value=str() as part)] if part:
            if not is_plain_text(part):
                raise refusal(node, "split by a regular expression")
            return applied("string_split", pa.list_(TEXT), *terms)
        case "split_part", [_, Term(value=str() as part), count] if part:
            if is_index(count) and count.value >= 1:
                return applied("split_part", TEXT, *terms)

        case "md5", [text]:
            return applied("md5", TEXT, as_kind(text, TEXT))
        case "sha2", [text, Term(value=256 | 0)]:
            return applied("sha256", TEXT, as_kind(text, TEXT))
    return None


def _array_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    """Write a function of an array or a map, which is the first term."""
    if not terms:
        return None
    if pa.types.is_list(terms[0].type):
        return _list_call(node, name, terms)
    if pa.types.is_map(terms[0].type):
        return _map_call(node, name, terms)
    return None


def _list_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    element_type = terms[0].type.value_type
    match name, terms:
        case "size" | "cardinality", [array]:
            return as_int(function_call("len", array.sql))
        case "array_contains", [array, value]:
            return array_contains(node, array, value)
        case "get", [array, index] if is_index(index):
            position = whole_sql(index.value + 1)
            return Term(function_call("list_extract", array.sql, position), element_type)
        case "try_element_at", [array, index] if is_index(index) and index.value >= 1:
            return applied("list_extract", element_type, array, index)
    return None


def _map_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    kind = terms[0].type
    match name, terms:
        case "size" | "cardinality", [whole]:
            return as_int(function_call("cardinality", whole.sql))
        case "try_element_at" | "element_at", [whole, key]:
            return value_of_map(node, whole, key)
        case "map_contains_key", [whole, Term(value=str()) as key] if kind.key_type == TEXT:
            keys = function_call("map_keys", whole.sql)
            has_key = function_call("list_contains", keys, key.sql)
            return Term(case_when([(is_null(whole.sql), exp.Null())], has_key), FLAG)
        case "map_keys", [whole]:
            return applied("map_keys", pa.list_(kind.key_type), whole)
        case "map_values", [whole]:
            return applied("map_values", pa.list_(kind.item_type), whole)
    return None


def _number_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    """Write a function of numbers."""
    match name, terms:
        case "abs", [Term(type=kind) as term] if kind in NUMBER_KINDS:
            return applied("abs", kind, term)
        case "mod", [first, second]:
            return whole_division(node, exp.Mod, first, second)
        case "try_add" | "try_subtract" | "try_multiply", [first, second]:
            return tried(node, name, first, second)
        case "try_divide", [_, _] if kinds_of(terms) <= set(NUMBER_KINDS):
            first, second = all_as_kind(terms, DOUBLE)
            is_zero = infix(exp.EQ, second.sql, as_kind(whole_literal(0), DOUBLE).sql)
            quotient = infix(exp.Div, first.sql, second.sql)
            return Term(case_when([(is_zero, exp.Null())], quotient), DOUBLE)
    return None


def _time_call(_node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: PLR0911 - a table
    """Write a function of times or dates."""
    match name, terms:
        case _, [Term(type=kind) as time] if name in _PARTS_OF_TIME and kind in TIME_KINDS:
            return as_int(function_call(name, as_kind(time, TIME).sql))
        case "dayofweek", [Term(type=kind) as time] if kind in TIME_KINDS:
            # DuckDB counts from Sunday as 0.
            return as_int(infix(exp.Add, function_call("dayofweek", time.sql), whole_sql(1)))
        case "date_trunc", [Term(value=str() as unit), Term(type=kind) as time] if (
            unit.lower() in _TRUNCATED_TO and kind in TIME_KINDS
        ):
            unit_name = exp.Literal.string(unit.lower())
            return Term(
                cast_to(function_call("date_trunc", unit_name, as_kind(time, TIME).sql), TIME), TIME
            )

        case "date_add" | "date_sub", [Term(type=kind) as day, days] if kind in TIME_KINDS:
            if days.type == INT:
                operation = exp.Add if name == "date_add" else exp.Sub
                return Term(infix(operation, as_kind(day, DATE).sql, days.sql), DATE)
        case "date_diff", [_, _] if kinds_of(terms) <= set(TIME_KINDS):
            end, start = all_as_kind(terms, DATE)
            return as_int(infix(exp.Sub, end.sql, start.sql))
        case "unix_seconds" | "unix_millis", [Term(type=kind) as time] if kind == TIME:
            return _since_1970(time, 10**6 if name == "unix_seconds" else 10**3)
    return None


def _position(text: Term, part: Term) -> Term:
    return as_int(function_call("instr", as_kind(text, TEXT).sql, part.sql))


def _since_1970(time: Term, unit: int) -> Term:
    """Count whole units, rounded down: DuckDB rounds towards 0."""
    micros = microseconds(time)
    size = whole_sql(unit)
    rest = infix(exp.Mod, infix(exp.Add, infix(exp.Mod, micros, size), size), size)
    return Term(infix(exp.IntDiv, infix(exp.Sub, micros, rest), size), LONG)
