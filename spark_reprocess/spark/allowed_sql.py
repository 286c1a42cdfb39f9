"""SQL conditions and expressions that operators, plans and policies contain, as Spark columns.

Spark's analysis of a text has effects: it reads a file that a subquery names and loads a class that
``reflect`` names. Its parser has none. So Spark parses the text, this module refuses each part that
it does not know, and the column is made of the very tree that was checked. The only texts that
Spark parses after that are the names of types that ``from_json`` and ``try_variant_get`` take.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from spark_reprocess.errors import InputError, SqlError, without_sql
from spark_reprocess.spark.failures import SPARK_FAILURES, condition_and_sentence, silence_query_log

_WHERE = "--where"
"""Where a piece of SQL comes from, unless something else is said."""

FUNCTIONS: Mapping[str, str] = {
    "JSON": "from_json get_json_object json_array_length json_object_keys",
    "variants": "is_variant_null schema_of_variant try_parse_json try_variant_get",
    "arrays and maps": (
        "array array_contains array_max array_min arrays_overlap cardinality element_at exists "
        "filter forall get map_contains_key map_keys map_values size sort_array transform "
        "try_element_at"
    ),
    "text": (
        "btrim char_length concat contains endswith initcap instr left length locate lower ltrim "
        "md5 regexp_count regexp_extract regexp_like regexp_replace replace reverse right rtrim "
        "sha2 split split_part startswith substr substring substring_index translate trim unbase64 "
        "upper"
    ),
    "dates": (
        "date_add date_diff date_format date_sub date_trunc day dayofweek from_utc_timestamp hour "
        "minute month second timestamp_millis timestamp_seconds to_date to_timestamp "
        "to_utc_timestamp try_to_date try_to_timestamp unix_millis unix_seconds year"
    ),
    "numbers": (
        "abs ceil floor greatest least mod pmod round sign sqrt try_add try_divide try_multiply "
        "try_subtract"
    ),
    "choices": "coalesce if ifnull isnotnull isnull nullif nvl",
    "types": "bigint boolean date double int string timestamp",
}
"""The allowed functions, by kind. Each depends on the message alone. None makes a text or an array
whose length is given as a number, or a text of an array: one message could fill the memory."""

_FUNCTIONS = {"between", *" ".join(FUNCTIONS.values()).split()}
_LAMBDAS = ("exists", "filter", "forall", "transform")
_FORMS = re.compile(
    "Add|And|CaseWhen|Cast|Concat|Divide|EqualNullSafe|EqualTo|GreaterThan|GreaterThanOrEqual|ILike"
    "|In|IntegralDivide|IsNotNull|IsNull|LessThan|LessThanOrEqual|Like|Multiply|Not|Or|RLike"
    r"|Remainder|Substring|Subtract|UnaryMinus|UnresolvedExtractValue|Is(Not)?Unknown\$\$anon\$\d"
)
"""Spark's classes of what a text may contain besides names and functions."""

_TYPE = re.compile(
    r"bigint|binary|boolean|date|decimal\(\d+,\d+\)|double|float|int|smallint|string"
    r"|timestamp(_ntz)?|tinyint|variant"
)
_FIXED_TIME = re.compile(r"""\w+\s*(['"])\d[^'"\\]*\1""")

_NOT_LISTED = 'is not allowed: docs/analysis.md, "What a condition may contain", lists what is'
_NOW = "write a fixed time: 'now', 'today' and the like are another time tomorrow"


def condition(rows: DataFrame, sql: str, place: str = _WHERE) -> Column:
    """Return *sql*, which comes from *place*, as a condition over the columns of *rows*.

    Raises:
        SqlError: *sql* is not a condition over these columns, or has something that is not
            allowed. The text names *place*, *sql* and the part. Nothing was read or called.
    """
    try:
        column, _ = _analyzed(rows, sql, DataFrame.where)
    except InputError as error:
        raise SqlError(f"{place} {sql!r}: {error}", f"{place}: {without_sql(error)}") from error
    return column


def matching(
    rows: DataFrame, where: str | None, place: str = _WHERE, hidden: Sequence[str] = ()
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
    spark = jvm.org.apache.spark.sql
    try:
        sql.encode()
        tree = spark.catalyst.parser.CatalystSqlParser().parseExpression(sql)
        _require_allowed(tree, sql, rows.columns)
        column = Column(spark.classic.ExpressionUtils.column(tree))
        frame = use(empty, column)
        # The optimizer replaces a cast text such as 'now' or 'today' by the current time.
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
        replaced = spark.catalyst.optimizer.ReplaceExpressions.apply(plan)
        if not replaced.fastEquals(spark.catalyst.optimizer.SpecialDatetimeValues.apply(replaced)):
            raise InputError(_NOW)
    except SPARK_FAILURES as error:
        # No message was read yet, so Spark's text is about the SQL alone.
        name, sentence = condition_and_sentence(error)
        raise SqlError(sentence, name or "Spark refuses it") from error
    except UnicodeEncodeError as error:
        raise InputError("is not valid Unicode") from error
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return column, frame


def _require_allowed(node: Any, sql: str, names: Collection[str]) -> None:  # noqa: ANN401 - Spark's
    """Raise SqlError if *node*, parsed of *sql*, has a part that is not allowed.

    *names* are the columns, and the variables of the lambdas around it.
    """
    kind, parts = _kind(node), _all(node.children())
    match kind:
        case "UnresolvedAttribute" | "UnresolvedNamedLambdaVariable":
            name = node.nameParts().apply(0)
            if name.lower() not in map(str.lower, names):
                near = get_close_matches(name, names, 1)
                why = f"is no column here{f'; did you mean {near[0]}?' if near else ''}"
                raise SqlError(f"{name}: {why}", f"a name: {why}")
        case "UnresolvedFunction":
            parts = _arguments(node, sql, names)
        case "Literal":
            # The parser itself replaces timestamp 'now' by the current time.
            is_time = node.dataType().catalogString().startswith(("date", "time"))
            if is_time and not _FIXED_TIME.fullmatch(text := _text(node, sql)):
                raise SqlError(f"{text}: {_NOW}", _NOW)
        case _ if not _FORMS.fullmatch(kind):
            raise SqlError(f"{_text(node, sql)} ({kind}): {_NOT_LISTED}", f"{kind}: {_NOT_LISTED}")
        case "Cast" if not _TYPE.fullmatch(node.dataType().catalogString()):
            raise SqlError(f"{_text(node, sql)}: {_NOT_LISTED}", f"a type: {_NOT_LISTED}")
    for part in parts:
        _require_allowed(part, sql, names)


def _arguments(node: Any, sql: str, names: Collection[str]) -> list[Any]:  # noqa: ANN401 - as above
    """Return the arguments of a call that is allowed, but for a lambda, which was checked."""
    name, parts = ".".join(_all(node.nameParts())).lower(), _all(node.children())
    is_plain = node.arguments().size() == len(parts) and not node.isDistinct()
    if name not in _FUNCTIONS or not is_plain or node.ignoreNulls():
        raise SqlError(f"{name}(): {_NOT_LISTED}", f"a function: {_NOT_LISTED}")
    if name not in _LAMBDAS:
        return parts
    match parts:
        case [array, function] if _kind(function) == "LambdaFunction":
            variables = [one.nameParts().apply(0) for one in _all(function.arguments())]
            if len(variables) == 1:
                # If each element of a new array could hold the body, one message could fill the
                # memory.
                around = () if name == "transform" else names
                _require_allowed(function.function(), sql, [*around, *variables])
                return [array]
    why = f"write it as {name}(an_array, x -> x = 'a')"
    raise SqlError(f"{name}(): {why}", f"a function: {why}")


def _kind(node: Any) -> str:  # noqa: ANN401 - Spark's
    return str(node.getClass().getName()).rpartition(".")[2]


def _text(node: Any, sql: str) -> str:  # noqa: ANN401 - Spark's
    origin = node.origin()
    return sql[origin.startIndex().get() : origin.stopIndex().get() + 1]


def _all(found: Any) -> list[Any]:  # noqa: ANN401 - a Seq of Scala
    return [found.apply(n) for n in range(found.size())]
