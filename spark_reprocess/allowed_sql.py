"""SQL conditions and expressions that operators, plans and policies contain, as Spark columns.

``sql.allowed`` reads and checks the text, and this module builds the column from the nodes and
functions of the checked tree. The only texts that reach a parser of Spark are names of types: those
of casts, which are checked, and those that ``from_json`` and ``try_variant_get`` take as arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import DataType
from sqlglot import exp

from dlq.errors import InputError, SqlError
from dlq.sql.allowed import (
    LAMBDAS,
    NEGATED,
    NOW,
    OPERANDS,
    OPERATORS,
    checked,
    interval_of,
    number,
    parts_of,
    type_name,
    variable_of,
)
from dlq.sql.sql_errors import WHERE, naming
from spark_reprocess.spark_errors import SPARK_FAILURES, condition_and_sentence, silence_query_log


def condition(rows: DataFrame, sql: str, place: str = WHERE) -> Column:
    """Return *sql*, which comes from *place*, as a condition over the columns of *rows*.

    Raises:
        SqlError: *sql* is not a condition over these columns, or has something that is not
            allowed. The text names *place*, *sql* and the part. Nothing was read or called.
    """
    with naming(place, sql):
        column, _ = _analyzed(rows, sql, DataFrame.where)
    return column


def matching(
    rows: DataFrame, where: str | None, place: str = WHERE, hidden: Sequence[str] = ()
) -> DataFrame:
    """Keep the rows for which *where*, which comes from *place*, is true.

    The columns *hidden* stay in the result, and *where* cannot name them.

    Raises:
        InputError: as for ``condition``.
    """
    return rows if where is None else rows.where(condition(rows.drop(*hidden), where, place))


def attribute_value(rows: DataFrame, sql: str) -> tuple[Column, DataType]:
    """Return an expression of ``set_attributes`` as a column over *rows*, and its type.

    Raises:
        InputError: as for ``condition``, but the text names neither the place nor *sql*.
    """
    column, frame = _analyzed(rows, sql, DataFrame.select)
    return column, frame.schema[0].dataType


def _analyzed(
    rows: DataFrame, sql: str, use: Callable[[DataFrame, Column], DataFrame]
) -> tuple[Column, DataFrame]:
    silence_query_log()
    empty = rows.sparkSession.createDataFrame([], rows.schema)
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - no public way
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    tree = checked(sql, rows.columns)
    try:
        column = _build(tree, {name.lower(): name for name in rows.columns})
        frame = use(empty, column)

        # The optimizer replaces a cast text such as 'now' or 'today' by the current time.
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
        replaced = optimizer.ReplaceExpressions.apply(plan)
        if not replaced.fastEquals(optimizer.SpecialDatetimeValues.apply(replaced)):
            raise InputError(f"'now', 'today' and the like as a time: {NOW}")

    except SPARK_FAILURES as error:
        # No message was read yet, so Spark's text is about the SQL alone.
        name, sentence = condition_and_sentence(error)
        raise SqlError(sentence, name or "Spark refuses it") from error
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return column, frame


_Scope = Mapping[str, Column | str]
"""By name in lower case: the columns, as their own names, and the variables of lambdas around."""


def _build(node: exp.Expr, scope: _Scope) -> Column:  # noqa: C901, PLR0911, PLR0912 - a table
    """Build the column that *node* of a checked tree means."""
    match node:
        case exp.Paren():
            return _build(node.this, scope)
        case exp.Null() | exp.Boolean():
            return F.lit(node.args.get("this"))
        case exp.RawString() | exp.Literal(is_string=True):
            return F.lit(node.name)
        case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
            return F.lit(number(node))

        case exp.Identifier():
            return _named(node.name, scope)
        case exp.Column():
            column, *fields = node.parts
            return reduce(_field, fields, _named(column.name, scope))
        case exp.Dot():
            return _field(_build(node.this, scope), node.expression)
        case exp.Bracket():
            value, key = _built(node, scope, "this", "expressions")
            return value[key]

        case exp.Anonymous():
            return _called(node, scope)
        case exp.Cast():
            value = _build(node.this, scope)
            kind = type_name(node)
            return value.try_cast(kind) if isinstance(node, exp.TryCast) else value.cast(kind)
        case exp.Interval():
            count, unit = interval_of(node)
            return F.lit(count).cast(f"interval {unit}")
        case exp.Case():
            return _case(node, scope)

        case exp.And() | exp.Or():
            return _connected(node, scope)
        case exp.Not():
            return ~_build(node.this, scope)
        case exp.Escape():
            return _operator(node.this, scope, _build(node.expression, scope))
    return _operator(node, scope)


def _field(value: Column, name: exp.Expr) -> Column:
    return value.getField(name.name)


def _case(node: exp.Case, scope: _Scope) -> Column:
    parts: list[Column] = []
    for branch in node.args["ifs"]:
        test, value = _built(branch, scope, "this", "true")
        if node.this:
            test = _build(node.this, scope) == test
        parts += [test, value]
    parts += _built(node, scope, "default")
    return F.call_function("when", *parts)


def _connected(node: exp.And | exp.Or, scope: _Scope) -> Column:
    """Build AND or OR of any number of operands, balanced, as Spark's own parser does."""
    join = and_ if isinstance(node, exp.And) else or_
    # The left operand of a long chain is as deep as the chain: no recursion into it.
    columns = [_build(operand, scope) for operand in node.flatten(unnest=False)]
    while len(columns) > 1:
        pairs = range(0, len(columns), 2)
        columns = [reduce(join, columns[start : start + 2]) for start in pairs]
    return columns[0]


def _operator(node: exp.Expr, scope: _Scope, *more: Column) -> Column:
    operands = _built(node, scope, *OPERANDS)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        # Spark has no <=> for maps.
        return operands[0].isNotNull() if node.args.get("negate") else operands[0].isNull()
    column = F.call_function(f"`{OPERATORS[type(node).__name__]}`", *operands, *more)
    return ~column if node.args.get("negate") or isinstance(node, NEGATED) else column


def _built(node: exp.Expr, scope: _Scope, *keys: str) -> list[Column]:
    return [_build(part, scope) for part in parts_of(node, *keys)]


def _named(name: str, scope: _Scope) -> Column:
    column = scope[name.lower()]
    if isinstance(column, Column):
        return column
    quoted = column.replace("`", "``")
    return F.col(f"`{quoted}`")


def _called(node: exp.Expr, scope: _Scope) -> Column:
    name = node.name.lower()
    if name not in LAMBDAS:
        return F.call_function(name, *_built(node, scope, "expressions"))
    array, function = node.expressions
    variable = variable_of(function)

    def body(element: Column) -> Column:
        return _build(function.this, {**scope, variable: element})

    apply: Callable[..., Column] = getattr(F, name)
    return apply(_build(array, scope), body)
