"""Operators of Spark, written for DuckDB: comparisons, arithmetic, negation, concatenation."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from dlq.sql.allowed import (
    NEGATED,
)
from dlq.sql.duckdb_terms import (
    BYTES,
    DATE,
    DOUBLE,
    DUCKDB_NAMES,
    DURATION,
    FLAG,
    LONG,
    NULL,
    NUMBER_KINDS,
    TEXT,
    TIME,
    TIME_KINDS,
    VARIANT_TYPE,
    WHOLE_KINDS,
    Kind,
    Term,
    all_as_kind,
    any_of,
    as_kind,
    balanced,
    case_when,
    cast_to,
    double_literal,
    duck_decimal,
    duck_type,
    failure_call,
    fixed_time,
    function_call,
    infix,
    is_null,
    is_positive,
    kinds_of,
    null_literal,
    refusal,
    required_flag,
    required_kind,
    spark_name,
    sqls_of,
    time_literal,
    whole_literal,
)

_COMPARED = (FLAG, *NUMBER_KINDS, TEXT, BYTES, DATE, TIME, DURATION)

WHOLE_VARIANT_WORDS = ("BIGINT", "BOOLEAN", "DOUBLE", "FLOAT", "STRING", "VOID")


def negation(term: Term) -> Term:
    """Write NOT."""
    return Term(exp.Paren(this=exp.Not(this=exp.Paren(this=term.sql))), FLAG)


def with_negation(node: exp.Expr, term: Term) -> Term:
    """Negate a term where its operator is written with NOT."""
    return negation(term) if node.args.get("negate") or isinstance(node, NEGATED) else term


def array_contains(node: exp.Expr, array: Term, value: Term) -> Term:
    """Write ``array_contains``: NULL for NULL, and where no element is equal but one is NULL."""
    kind = array.type.value_type
    if kind not in (TEXT, *WHOLE_KINDS) or value.type != kind:
        raise refusal(node, "a value of another type than the elements")
    contains = any_of(array.sql, value.sql, result=True)
    return Term(case_when([(is_null(value.sql), exp.Null())], contains), FLAG)


def time_text(term: Term) -> Term:
    """Write a time as the text that Spark makes of it."""
    low = time_literal(datetime(1, 1, 1), TIME).sql  # noqa: DTZ001
    high = time_literal(datetime(9999, 12, 31), TIME).sql  # noqa: DTZ001
    time = as_kind(term, TIME).sql
    is_usual = infix(exp.And, infix(exp.GTE, time, low), infix(exp.LTE, time, high))
    branches = [(is_null(time), null_literal(TEXT).sql), (is_usual, as_kind(term, TEXT).sql)]
    return Term(case_when(branches, failure_call("a time outside of the years 1 to 9999")), TEXT)


def comparison(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    """Compare two terms as Spark does."""
    if VARIANT_TYPE in (first.type, second.type):
        return _compared_word(node, operator, first, second)
    terms = _alike(node, first, second)
    return Term(infix(operator, *sqls_of(terms)), FLAG)


def _compared_word(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    is_word = second.value in WHOLE_VARIANT_WORDS
    if not is_word or operator not in (exp.EQ, exp.NEQ, exp.NullSafeEQ):
        raise refusal(node, "compare schema_of_variant with one type, or by LIKE 'OBJECT%'")
    return Term(infix(operator, first.sql, second.sql), FLAG)


def _alike(node: exp.Expr, first: Term, second: Term) -> list[Term]:
    """Return two terms of one type whose comparison is Spark's."""
    terms = [first, second]
    kinds = kinds_of(terms)
    if TEXT in kinds and not kinds.isdisjoint(TIME_KINDS):
        [time_kind] = kinds - {TEXT}
        terms = [_as_time(node, term, time_kind) for term in terms]
        kinds = kinds_of(terms)

    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    if scales and DOUBLE in kinds:
        terms = _without_decimals(terms)
    elif scales and all(kind in WHOLE_KINDS or pa.types.is_decimal(kind) for kind in kinds):
        scale = max(scales)
        kind = pa.decimal128(38, scale)
        return [Term(exp.Cast(this=term.sql, to=duck_decimal(scale)), kind) for term in terms]

    unified = unified_terms(node, terms)
    if unified[0].type not in (*_COMPARED, NULL):
        raise refusal(node, f"a comparison of {spark_name(unified[0].type)}")
    return unified


def _as_time(node: exp.Expr, term: Term, kind: Kind) -> Term:
    """Write a fixed text as the time that it means; other terms stay."""
    return fixed_time(node, term.value, kind) if isinstance(term.value, str) else term


def _without_decimals(terms: Iterable[Term]) -> list[Term]:
    """Write fixed decimals as doubles; other terms stay."""
    doubles = []
    for term in terms:
        is_decimal = isinstance(term.value, Decimal)
        doubles.append(double_literal(float(term.value)) if is_decimal else term)
    return doubles


def unified_terms(node: exp.Expr, terms: Sequence[Term]) -> list[Term]:
    """Return *terms* in the one type that they have together."""
    kinds = kinds_of(terms) - {NULL}
    if VARIANT_TYPE in kinds or any(map(pa.types.is_decimal, kinds)):
        raise refusal(node, "values of these types together")

    if len(kinds) <= 1:
        kind = next(iter(kinds), NULL)
    elif kinds <= set(NUMBER_KINDS):
        kind = DOUBLE if DOUBLE in kinds else LONG
    elif kinds == set(TIME_KINDS):
        kind = TIME
    else:
        names = " and ".join(sorted(map(spark_name, kinds)))
        raise refusal(node, f"{names} together")

    if kind in DUCKDB_NAMES:
        return all_as_kind(terms, kind)
    # DuckDB's NULL without a type suits any.
    if NULL in kinds_of(terms):
        return [Term(term.sql, kind) for term in terms]
    return list(terms)


def is_value(node: exp.Expr, subject: Term, value: Term) -> Term:
    """Write IS, with NULL, TRUE or FALSE."""
    if value.type == NULL:
        return Term(is_null(subject.sql), FLAG)
    return Term(infix(exp.NullSafeEQ, required_flag(node, subject).sql, value.sql), FLAG)


def concatenation(node: exp.Expr, terms: Sequence[Term]) -> Term:
    """Write ``||`` of texts."""
    texts = [required_kind(node, term, TEXT).sql for term in terms]
    return Term(balanced(exp.DPipe, texts), TEXT)


def negative(node: exp.Expr, term: Term) -> Term:
    """Write the negative of a number or a duration."""
    if term.type not in (*NUMBER_KINDS, DURATION):
        raise refusal(node)
    if term.type == DOUBLE:
        return Term(exp.Paren(this=exp.Neg(this=exp.Paren(this=term.sql))), DOUBLE)
    # The negation of DuckDB does not fail where the type has no such number.
    return Term(infix(exp.Sub, whole_literal(0, term.type).sql, term.sql), term.type)


def arithmetic(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    """Write ``+``, ``-`` or ``*``."""
    kinds = (first.type, second.type)
    if operator is exp.Mul and DURATION in kinds:
        return _multiplied_duration(node, first, second)
    if kinds == (TIME, DURATION):
        return _moved(first, operator, second)
    if kinds == (DURATION, TIME) and operator is exp.Add:
        return _moved(second, operator, first)
    if kinds == (TIME, TIME) and operator is exp.Sub:
        return Term(infix(exp.Sub, microseconds(first), microseconds(second)), DURATION)
    if kinds == (DURATION, DURATION):
        return Term(infix(operator, first.sql, second.sql), DURATION)

    first, second = _numbers(node, first, second)
    return Term(infix(operator, first.sql, second.sql), first.type)


def _multiplied_duration(node: exp.Expr, first: Term, second: Term) -> Term:
    if first.type not in (DURATION, *WHOLE_KINDS) or second.type not in (DURATION, *WHOLE_KINDS):
        raise refusal(node)
    if first.type == second.type:
        raise refusal(node)
    return Term(infix(exp.Mul, cast_to(first.sql, LONG), cast_to(second.sql, LONG)), DURATION)


def _numbers(node: exp.Expr, first: Term, second: Term) -> list[Term]:
    terms = [first, second]
    if DOUBLE in kinds_of(terms):
        terms = _without_decimals(terms)
    if not kinds_of(terms) <= set(NUMBER_KINDS):
        raise refusal(node)
    return unified_terms(node, terms)


def microseconds(time: Term) -> exp.Expr:
    """Write the microseconds of a time since 1970."""
    return function_call("epoch_us", time.sql)


def _moved(time: Term, operator: type[exp.Expr], length: Term) -> Term:
    moved = infix(operator, microseconds(time), length.sql)
    return Term(function_call("make_timestamp", moved), TIME)


def division(node: exp.Expr, first: Term, second: Term) -> Term:
    """Write ``/`` by a fixed number above 0."""
    is_decimal_of_whole = isinstance(second.value, Decimal) and first.type != DOUBLE
    if first.type not in NUMBER_KINDS or not is_positive(second) or is_decimal_of_whole:
        raise refusal(node, "a division by what is no fixed whole number above 0; see try_divide")
    divisor = double_literal(float(second.value)).sql
    return Term(infix(exp.Div, as_kind(first, DOUBLE).sql, divisor), DOUBLE)


def whole_division(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    """Write ``DIV`` or ``%`` by a fixed whole number above 0."""
    if first.type not in WHOLE_KINDS or second.type not in WHOLE_KINDS or not is_positive(second):
        raise refusal(node, "a division by what is no fixed whole number above 0")
    first, second = unified_terms(node, [first, second])
    result = Term(infix(operator, first.sql, second.sql), first.type)
    return as_kind(result, LONG) if operator is exp.IntDiv else result


def tried(node: exp.Expr, name: str, first: Term, second: Term) -> Term:
    """Write ``try_add`` and its like: exact in a wider type, and NULL where that does not fit."""
    if first.type not in WHOLE_KINDS or second.type not in WHOLE_KINDS:
        raise refusal(node, "it is of whole numbers here")
    first, second = unified_terms(node, [first, second])

    operator = {"try_add": exp.Add, "try_subtract": exp.Sub, "try_multiply": exp.Mul}[name]
    wide = exp.DataType.build("HUGEINT", dialect="duckdb")
    exact = infix(operator, exp.Cast(this=first.sql, to=wide), exp.Cast(this=second.sql, to=wide))
    return Term(exp.TryCast(this=exact, to=duck_type(first.type)), first.type)
