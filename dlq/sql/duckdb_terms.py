"""Types of Spark, and terms of DuckDB that have them: literals, casts, calls, refusals.

A term is a part of an operator's SQL, written for DuckDB, with the type that it has in Spark.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from dlq.errors import InputError, SqlError
from dlq.sql.allowed import (
    interval_of,
    number,
    shown,
)

Kind: TypeAlias = Any
"""A ``DataType`` of Arrow. The stubs of pyarrow know neither its parts nor which are equal."""

NEEDS_SPARK = "needs --engine spark"

FAILURE_MARK = "failure: "
"""The beginning of the text of an error that an expression raises by itself. It quotes no value."""

NULL: Kind = pa.null()
FLAG: Kind = pa.bool_()
INT: Kind = pa.int32()
LONG: Kind = pa.int64()
DOUBLE: Kind = pa.float64()
TEXT: Kind = pa.string()
BYTES: Kind = pa.binary()
DATE: Kind = pa.date32()
TIME: Kind = pa.timestamp("us")
DURATION: Kind = pa.duration("us")

VARIANT_TYPE: Kind = pa.large_string()
"""The type of what ``schema_of_variant`` names: its first word alone is known here."""

DUCKDB_NAMES: Mapping[Kind, str] = {
    NULL: "VARCHAR",
    FLAG: "BOOLEAN",
    INT: "INTEGER",
    LONG: "BIGINT",
    DOUBLE: "DOUBLE",
    TEXT: "VARCHAR",
    VARIANT_TYPE: "VARCHAR",
    BYTES: "BLOB",
    DATE: "DATE",
    TIME: "TIMESTAMP",
    DURATION: "BIGINT",
}
"""The types that values have, and those of DuckDB. A duration is its microseconds, as in Spark."""

WHOLE_KINDS = (INT, LONG)

NUMBER_KINDS = (*WHOLE_KINDS, DOUBLE)

TIME_KINDS = (TIME, DATE)

WHOLE_BOUNDS = {INT: (-(2**31), 2**31 - 1), LONG: (-(2**63), 2**63 - 1)}

_MICROSECONDS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6}

_MOST_SCALE = 18

_CLOCK = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|UTC|[+-]\d\d:\d\d)?)?"
)


@dataclass(frozen=True, slots=True)
class Term:
    """A part written for DuckDB.

    Attributes:
        sql: for DuckDB.
        type: what it is in Spark; ``pa.null()`` for NULL.
        value: of a literal, else None.
    """

    sql: exp.Expr
    type: Kind
    value: Any = None


CAST_TYPES: Mapping[str, Kind] = {
    "BIGINT": LONG,
    "BOOLEAN": FLAG,
    "DATE": DATE,
    "DOUBLE": DOUBLE,
    "INT": INT,
    "STRING": TEXT,
    "TIMESTAMP": TIME,
}

_SPARK_NAMES: Mapping[Kind, str] = {
    **{kind: name.lower() for name, kind in CAST_TYPES.items()},
    DURATION: "interval",
    NULL: "void",
}


def refusal(node: exp.Expr, why: str = "", *, is_whole_reason: bool = False) -> SqlError:
    """Return the error of a part that only Spark gives.

    *why* follows the words "needs --engine spark", or is all of the reason.
    """
    if is_whole_reason:
        reason = why
    elif why:
        reason = f"{NEEDS_SPARK}: {why}"
    else:
        reason = NEEDS_SPARK

    if isinstance(node, exp.Anonymous):
        return SqlError(f"{shown(node)}: {reason}", f"{node.name.lower()}(): {NEEDS_SPARK}")
    kind = type(node).__name__
    return SqlError(f"{shown(node)} ({kind}): {reason}", f"{kind}: {NEEDS_SPARK}")


def plain_type(kind: Kind) -> Kind:
    """Return *kind* with times without a zone, and texts of one type: as columns are for DuckDB."""
    if pa.types.is_timestamp(kind):
        return TIME if kind.unit == "us" else kind
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    return kind


def spark_name(kind: Kind) -> str:
    """Return what Spark calls a type, but for the units of an interval."""
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        fields = [f"{field.name}:{spark_name(field.type)}" for field in kind]
        return f"struct<{','.join(fields)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(kind, str(kind))


def kinds_of(terms: Iterable[Term]) -> set[Kind]:
    """Return the types that occur among *terms*."""
    return {term.type for term in terms}


def is_text(term: Term) -> bool:
    """Return whether a term is a text, or NULL."""
    return term.type in (TEXT, NULL)


def is_index(term: Term) -> bool:
    """Return whether a term is a fixed position in an array."""
    return term.type == INT and isinstance(term.value, int) and 0 <= term.value < 2**31 - 1


def is_positive(term: Term) -> bool:
    """Return whether a term is a fixed number above 0."""
    return isinstance(term.value, int | float | Decimal) and term.value > 0


def without_parentheses(node: exp.Expr) -> exp.Expr:
    """Return what is in the parentheses, however many there are."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def only_argument(node: exp.Expr, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Return the one argument; refuse another number of them."""
    if len(arguments) != 1:
        raise refusal(node, "it has one argument")
    return arguments[0]


# --- Expressions of DuckDB


def duck_type(kind: Kind) -> exp.DataType:
    """Return DuckDB's type of *kind*."""
    return exp.DataType.build(DUCKDB_NAMES[kind], dialect="duckdb")


def duck_decimal(scale: int) -> exp.DataType:
    """Return the widest decimal of DuckDB with so many digits after the point."""
    return exp.DataType.build(f"DECIMAL(38, {scale})", dialect="duckdb")


def cast_to(sql: exp.Expr, kind: Kind) -> exp.Expr:
    """Write a cast."""
    return exp.Cast(this=sql, to=duck_type(kind))


def function_call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Write a call of a function of DuckDB."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def infix(kind: type[exp.Expr], first: exp.Expr, second: exp.Expr) -> exp.Expr:
    """Write an operator between two expressions, in parentheses."""
    return exp.Paren(this=kind(this=first, expression=second))


def is_null(sql: exp.Expr) -> exp.Expr:
    """Write IS NULL."""
    return infix(exp.Is, sql, exp.Null())


def is_among(value: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """Write IN, in parentheses."""
    return exp.Paren(this=exp.In(this=value, expressions=list(values)))


def case_when(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> exp.Expr:
    """Write CASE of tests and their values."""
    ifs = [exp.If(this=test, true=value) for test, value in branches]
    return exp.Case(ifs=ifs, default=default)


def failure_call(text: str) -> exp.Expr:
    """Write an error that the expression raises by itself, see ``FAILURE_MARK``."""
    return function_call("error", exp.Literal.string(f"{FAILURE_MARK}{text}"))


def balanced(kind: type[exp.Expr], parts: list[exp.Expr]) -> exp.Expr:
    """Join *parts* by an operator as a tree of little depth: a long chain would be too deep."""
    while len(parts) > 1:
        joined = []
        for position in range(0, len(parts), 2):
            pair = parts[position : position + 2]
            joined.append(infix(kind, *pair) if len(pair) > 1 else pair[0])
        parts = joined
    return parts[0]


def evaluated_once(value: exp.Expr, use: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Write what *use* makes of *value*, so that DuckDB evaluates *value* once."""
    name = exp.to_identifier("v", quoted=True)
    body = exp.Lambda(this=use(exp.column("v", quoted=True)), expressions=[name])
    results = function_call("list_transform", function_call("list_value", value), body)
    return function_call("list_extract", results, whole_sql(1))


def any_of(flags: exp.Expr, wanted: exp.Expr, *, result: bool) -> exp.Expr:
    """Return *result* where *wanted* is among *flags*, else NULL where NULL is, else the other."""

    def among(values: exp.Expr) -> exp.Expr:
        has_null = infix(exp.GT, function_call("len", values), function_call("list_count", values))
        branches = [
            (is_null(values), exp.Null()),
            (function_call("list_contains", values, wanted), exp.Boolean(this=result)),
            (has_null, exp.Null()),
        ]
        return case_when(branches, exp.Boolean(this=not result))

    return evaluated_once(flags, among)


# --- Literals


def null_literal(kind: Kind) -> Term:
    """Write NULL of a type."""
    return Term(cast_to(exp.Null(), kind) if kind in DUCKDB_NAMES else exp.Null(), kind)


def text_literal(node: exp.Expr, text: str) -> Term:
    """Write a text."""
    if "\0" in text:
        raise refusal(node, "a text with a character of code 0")
    # Without the cast it would be a literal of any type, and DuckDB would convert it.
    return Term(cast_to(exp.Literal.string(text), TEXT), TEXT, value=text)


def number_literal(node: exp.Expr) -> Term:
    """Write a number with the type that it has in Spark."""
    value = number(node)
    if isinstance(value, int):
        return whole_literal(value)
    if isinstance(value, float):
        return double_literal(value)

    scale = max(0, -int(value.as_tuple().exponent))
    if scale > _MOST_SCALE or abs(value) >= 10**18:
        raise refusal(node, "a number with too many digits")
    literal = exp.Literal.string(format(value, "f"))
    sql = exp.Cast(this=literal, to=duck_decimal(scale))
    return Term(sql, pa.decimal128(38, scale), value=value)


def whole_literal(value: int, kind: Kind | None = None) -> Term:
    """Write a whole number, by default an INT, or a BIGINT if it is too large for one."""
    if kind is None:
        least, most = WHOLE_BOUNDS[INT]
        kind = INT if least <= value <= most else LONG
    if not -(2**63) <= value < 2**63:
        raise InputError(f"{value}: is too large")
    return Term(cast_to(exp.Literal.string(str(value)), kind), kind, value=value)


def double_literal(value: float) -> Term:
    """Write a DOUBLE."""
    return Term(cast_to(exp.Literal.string(repr(value)), DOUBLE), DOUBLE, value=value)


def whole_sql(value: int) -> exp.Expr:
    """Write a whole number, without its type in Spark."""
    return whole_literal(value).sql


def interval_literal(node: exp.Expr) -> Term:
    """Write an interval of days to seconds."""
    count, unit = interval_of(node)
    if unit not in _MICROSECONDS:
        raise refusal(node, "an interval here is of days, hours, minutes or seconds")
    return whole_literal(count * _MICROSECONDS[unit], DURATION)


def fixed_time(node: exp.Expr, text: str, kind: Kind) -> Term:
    """Read a fixed text as a time or a date, in UTC, and write that."""
    parts = _CLOCK.fullmatch(text)
    if parts is None or (kind == DATE and parts[4]):
        raise refusal(node, "a fixed time is written 2026-11-30 10:00:00Z")

    year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    microsecond = int((parts[7] or "").ljust(6, "0"))
    zone = parts[8] or "Z"
    try:
        offset = timedelta()
        if zone not in ("Z", "UTC"):
            size = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
            offset = -size if zone[0] == "-" else size
        there = datetime(year, month, day, hour, minute, second, microsecond, timezone(offset))
        time = there.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise refusal(node, "there is no such time") from error

    return time_literal(time.date() if kind == DATE else time, kind)


def time_literal(value: date | datetime, kind: Kind) -> Term:
    """Write a time or a date."""
    text = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return Term(cast_to(exp.Literal.string(text), kind), kind)


# --- Terms made of terms


def sqls_of(terms: Iterable[Term]) -> list[exp.Expr]:
    """Return what was written for each of *terms*."""
    return [term.sql for term in terms]


def applied(name: str, kind: Kind, *terms: Term) -> Term:
    """Call a function of DuckDB, whose result has the type *kind* in Spark."""
    return Term(function_call(name, *sqls_of(terms)), kind)


def as_kind(term: Term, kind: Kind) -> Term:
    """Cast a term, unless it has this type."""
    return term if term.type == kind else Term(cast_to(term.sql, kind), kind)


def as_int(sql: exp.Expr) -> Term:
    """Write a BIGINT of DuckDB as the INT that it is in Spark."""
    return Term(cast_to(sql, INT), INT)


def all_as_kind(terms: Iterable[Term], kind: Kind) -> list[Term]:
    """Cast each of *terms*, unless it has this type."""
    return [as_kind(term, kind) for term in terms]


def required_kind(node: exp.Expr, term: Term, kind: Kind) -> Term:
    """Return a term of this type, also for NULL; refuse another type."""
    if term.type not in (kind, NULL):
        raise refusal(node, f"{spark_name(term.type)} where {spark_name(kind)} is expected")
    return as_kind(term, kind)


def required_flag(node: exp.Expr, term: Term) -> Term:
    """Return a condition, also for NULL; refuse another type."""
    if term.type not in (FLAG, NULL):
        raise refusal(node, f"{spark_name(term.type)} where a condition is expected")
    return as_kind(term, FLAG)


def has_match(subject: Term, expression: str) -> Term:
    """Write whether a regular expression of RE2 matches a text somewhere."""
    return Term(function_call("regexp_matches", subject.sql, exp.Literal.string(expression)), FLAG)


def field_of_struct(node: exp.Expr, term: Term, name: str) -> Term:
    """Write a field of a struct, by its name in any case."""
    if not pa.types.is_struct(term.type):
        raise refusal(node, f"{name} of what is no struct")
    fields = [field for field in term.type if field.name.lower() == name.lower()]
    if len(fields) != 1:
        raise SqlError(f"{shown(node)}: there is no field {name}", "a field that is not there")
    sql = function_call("struct_extract", term.sql, exp.Literal.string(fields[0].name))
    return Term(sql, fields[0].type)


def value_of_map(node: exp.Expr, whole: Term, key: Term) -> Term:
    """Write the value of a key of a map from texts."""
    if whole.type.key_type != TEXT or key.type != TEXT:
        raise refusal(node, "a map whose keys are no texts")
    return applied("map_extract_value", whole.type.item_type, whole, key)
