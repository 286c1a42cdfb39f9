"""SQL conditions and expressions that operators, plans and policies contain, as Spark columns.

Spark's own analysis of a text has effects: it reads a file that a subquery names and loads a class
that ``reflect`` names. So sqlglot parses the text, and this module builds the column from the nodes
and functions that it knows. It refuses everything else: what was checked is what runs. The only
texts that reach a parser of Spark are names of types: those of casts, which are checked here, and
those that ``from_json`` and ``try_variant_get`` take as arguments.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, reduce
from itertools import chain
from math import isinf
from operator import and_, or_
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import DataType
from sqlglot import ErrorLevel, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from spark_reprocess.errors import InputError, SqlError, without_sql
from spark_reprocess.spark.failures import SPARK_FAILURES, condition_and_sentence, silence_query_log
from spark_reprocess.spark.patterns import like_fault, regex_fault, replacement_fault

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

_FUNCTIONS = frozenset(" ".join(FUNCTIONS.values()).split())
_LAMBDAS = ("exists", "filter", "forall", "transform")
_WITH_REGEX = (
    "regexp_count",
    "regexp_extract",
    "regexp_like",
    "regexp_replace",
    "split",
)
"""Functions whose second argument is a regular expression."""

_REPLACING = ("regexp_replace", "replace", "translate")
"""Functions whose third argument replaces parts of the first."""

_GROWING = ("array", "concat", *_REPLACING)
"""Functions that make more of what they are given. In a lambda they would do so once for each
element, or double it with each lambda around."""
_OPERATORS = dict(
    re.findall(
        r"(\w+) (\S+)",
        """Add + Between between Div / DPipe concat EQ = GT > GTE >= ILike ilike In in IntDiv div
        Is <=> Like like LT < LTE <= Mod % Mul * Neg negative NEQ = NullSafeEQ <=> NullSafeNEQ <=>
        RegexpLike rlike Sub -""",
    )
)
"""Nodes of sqlglot, and the functions that Spark has for them."""

_NEGATED = (exp.NEQ, exp.NullSafeNEQ)
_PREDICATES = (exp.Predicate, exp.Escape, exp.Not, exp.Connector)
_NOTES = ("negate", "safe", "to", "typed")
"""Arguments of sqlglot's nodes that are no operands."""

_TYPE = re.compile(
    r"BIGINT|BINARY|BOOLEAN|DATE|DECIMAL(\(\d+(, \d+)?\))?|DOUBLE|FLOAT|INT|SMALLINT|STRING"
    r"|TIMESTAMP(_LTZ|_NTZ)?|TINYINT|VARIANT"
)
_UNIT = re.compile(r"(YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)S?")

_NOT_LISTED = 'is not allowed: docs/analysis.md, "What a condition may contain", lists what is'
_NO_LITERAL = (
    "a pattern or a replacement must be a fixed text, 'like this'; for a part of another column "
    "use contains()"
)
_BRACKETS = "Spark would read this in another order; put brackets around what belongs together"
_NOW = (
    "gives the current time, which is another one tomorrow; write a fixed time, use collect "
    "--since, or age_seconds in a policy"
)
_OTHERS = "looks at other messages, and SQL here sees one at a time"
_WHY = {
    **dict.fromkeys(("now", "current_timestamp", "current_date", "unix_timestamp"), _NOW),
    **dict.fromkeys(("Window", "count", "sum", "min", "max", "row_number"), _OTHERS),
    "Concat": r"two texts side by side; write a quote within a text as \'",
}
"""Why well-known names, and nodes of sqlglot, are refused. Others are just not on the list."""


def condition(rows: DataFrame, sql: str, place: str = _WHERE) -> Column:
    """Return *sql*, which comes from *place*, as a condition over the columns of *rows*.

    Raises:
        SqlError: *sql* is not a condition over these columns, or has something that is not
            allowed. The text names *place*, *sql* and the part. Nothing was read or called.
    """
    with _from(place, sql):
        column, _ = _analyzed(rows, sql, DataFrame.where)
    return column


def check_names(sql: str | None, columns: Collection[str], place: str | None = _WHERE) -> None:
    """Refuse, without a session, what *sql* cannot mean whatever Spark says; None is sound.

    Finds what cannot be read, and names of no column and of no allowed function. ``condition`` and
    ``attribute_value``, which need Spark, find everything.

    Raises:
        SqlError: the text names *place*, unless that is None, and the part.
    """
    if sql is None:
        return
    with nullcontext() if place is None else _from(place, sql):
        tree = _parsed(sql)
        if tree.find(exp.Query):
            # It has names of its own, and is refused as a whole.
            return
        scope = {name.lower(): name for name in columns}
        for node in tree.dfs():
            # A variable of a lambda is none.
            if isinstance(node, exp.Column):
                _find(node.parts[0].name, scope)
            elif isinstance(node, exp.Anonymous):
                _require_allowed(node)


@contextmanager
def _from(place: str, sql: str) -> Iterator[None]:
    """Name *place* and *sql* in what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise SqlError(f"{place} {sql!r}: {error}", f"{place}: {without_sql(error)}") from error


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
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    try:
        column = _build(_parsed(sql), {name.lower(): name for name in rows.columns})
        frame = use(empty, column)
        # The optimizer replaces a cast text such as 'now' or 'today' by the current time.
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
        replaced = optimizer.ReplaceExpressions.apply(plan)
        if not replaced.fastEquals(optimizer.SpecialDatetimeValues.apply(replaced)):
            raise InputError(f"'now', 'today' and the like as a time: {_NOW}")
    except SPARK_FAILURES as error:
        # No message was read yet, so Spark's text is about the SQL alone.
        name, sentence = condition_and_sentence(error)
        raise SqlError(sentence, name or "Spark refuses it") from error
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return column, frame


class _Parser(SparkParser):
    """sqlglot's parser for Spark, which leaves here each call of a function as it is written."""

    ARRAY_CONSTRUCTORS: ClassVar = {}
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
    }
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    STRICT_CAST: ClassVar = True
    SUBQUERY_PREDICATES: ClassVar = {}
    # Without the unary plus: to Spark it is a cast, to sqlglot nothing.
    UNARY_PARSERS: ClassVar = {
        kind: SparkParser.UNARY_PARSERS[kind] for kind in (TokenType.NOT, TokenType.DASH)
    }

    def _build_predicate(
        self,
        klass: type[exp.Binary],
        this: exp.Expr | None,
        expression: exp.Expr | None,
        comments: list[str] | None = None,
        negate: bool = False,
    ) -> exp.Expr:
        """Add no brackets where the text has none: ``_operator`` looks for them."""
        predicate = self.expression(klass(this=this, expression=expression), comments=comments)
        return self.expression(exp.Not(this=predicate)) if negate else predicate


@cache
def _parsed(sql: str) -> exp.Expr:
    try:
        sql.encode()
        found = _Parser(dialect=Spark()).parse_into(exp.Condition, Spark().tokenize(sql), sql)
    except UnicodeEncodeError as error:
        raise InputError("is not valid Unicode") from error
    except TokenError as error:
        raise InputError("cannot be read: a quote is not closed") from error
    except ParseError as error:
        fault = error.errors[0]
        where = "cannot be read: line {line}, character {col}".format_map(fault)
        raise SqlError(f"{where}, at {fault['highlight']!r}", where) from error
    if len(found) != 1 or found[0] is None:
        raise InputError("is not one expression")
    return found[0]


_Scope = Mapping[str, Column | str]
"""By name in lower case: the columns, as their own names, and the variables of lambdas around."""


def _build(node: exp.Expr, scope: _Scope) -> Column:  # noqa: C901, PLR0911, PLR0912 - a table
    """Build the column that *node* means; raise InputError for what is not known here."""
    match node:
        case exp.Paren():
            return _build(node.this, scope)
        case exp.Null() | exp.Boolean():
            return F.lit(node.args.get("this"))
        case exp.RawString() | exp.Literal(is_string=True):
            return F.lit(node.name)
        case exp.Literal():
            return F.lit(_number(node.name))
        case exp.Neg(this=exp.Literal(is_string=False)):
            # The sign belongs to the number: -2147483648 is an INT.
            return F.lit(_number(f"-{node.this.name}"))
        case exp.Identifier():
            return _named(node.name, scope)
        case exp.Column(this=exp.Identifier()):
            first, *fields = [part.name for part in node.parts]
            return reduce(Column.getField, fields, _named(first, scope))
        case exp.Dot(expression=exp.Identifier()):
            return _build(node.this, scope).getField(node.expression.name)
        case exp.Bracket():
            value, key = _parts(node, scope, "this", "expressions")
            return value[key]
        case exp.Anonymous():
            return _called(node, scope)
        case exp.Cast() if not _casts_literal(node.this):
            [value] = _parts(node, scope, "this")
            if not _TYPE.fullmatch(kind := node.to.sql(Spark)):
                raise _refused(node.to)
            return value.try_cast(kind) if isinstance(node, exp.TryCast) else value.cast(kind)
        case exp.Interval(this=exp.Literal(), unit=exp.Var()):
            unit = _UNIT.fullmatch(node.args["unit"].name)
            if not unit or not re.fullmatch(r"-?\d+", node.this.name):
                raise _refused(node)
            return F.lit(int(node.this.name)).cast(f"interval {unit[1]}")
        case exp.Case():
            parts: list[Column] = []
            for branch in node.args["ifs"]:
                test, value = _parts(branch, scope, "this", "true")
                parts += (_build(node.this, scope) == test if node.this else test, value)
            if default := node.args.get("default"):
                parts.append(_build(default, scope))
            return F.call_function("when", *parts)
        case exp.And() | exp.Or():
            # The left operand of a long chain is as deep as the chain: no recursion into it.
            columns = [_build(one, scope) for one in node.flatten(unnest=False)]
            join = and_ if isinstance(node, exp.And) else or_
            while len(columns) > 1:  # balanced, as Spark's own parser builds it
                columns = [reduce(join, columns[n : n + 2]) for n in range(0, len(columns), 2)]
            return columns[0]
        case exp.Not():
            return ~_build(node.this, scope)
        case exp.Escape(this=exp.Like() | exp.ILike()):
            column = _operator(node.this, scope, _build(node.expression, scope))
            pattern = _literal(node.this, node.this.expression)
            _check(node, like_fault(pattern, _literal(node, node.expression)))
            return column
        case exp.Like() | exp.ILike():
            column = _operator(node, scope)
            _check(node, like_fault(_literal(node, node.expression)))
            return column
        case exp.RegexpLike():
            column = _operator(node, scope)
            _check(node, regex_fault(_literal(node, node.expression)))
            return column
        case _ if type(node).__name__ in _OPERATORS:
            return _operator(node, scope)
    raise _refused(node)


def _operator(node: exp.Expr, scope: _Scope, *more: Column) -> Column:
    operands = [node.args.get(name) for name in ("this", "expression", "low", "high")]
    # sqlglot and Spark give these another precedence.
    loose = (exp.Add, exp.Sub) if isinstance(node, exp.DPipe) else _PREDICATES
    if any(isinstance(one, loose) for one in operands) or (
        isinstance(node, exp.Neg) and _casts_literal(node.this)
    ):
        raise _refused(node, _BRACKETS)
    if isinstance(node, exp.In) and not node.expressions:
        raise _refused(node.args.get("query") or node)
    if isinstance(node, exp.Is) and not isinstance(node.expression, exp.Null | exp.Boolean):
        raise _refused(node)
    parts = _parts(node, scope, "this", "expression", "expressions", "low", "high")
    column = F.call_function(f"`{_OPERATORS[type(node).__name__]}`", *parts, *more)
    return ~column if node.args.get("negate") or isinstance(node, _NEGATED) else column


def _parts(node: exp.Expr, scope: _Scope, *names: str) -> list[Column]:
    """Build the parts *names* of *node*; refuse it if it has others."""
    if any(part and name not in {*names, *_NOTES} for name, part in node.args.items()):
        raise _refused(node)
    parts = (node.args.get(name) for name in names)
    flat = chain.from_iterable(part if isinstance(part, list) else [part] for part in parts)
    return [_build(part, scope) for part in flat if part is not None]


def _find(name: str, scope: _Scope) -> Column | str:
    if (found := scope.get(name.lower())) is None:
        near = get_close_matches(name, scope, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        why = _WHY.get(name.lower(), f"is no column here{hint}")
        raise SqlError(f"{name}: {why}", f"a name: {why}")
    return found


def _named(name: str, scope: _Scope) -> Column:
    found = _find(name, scope)
    if isinstance(found, Column):
        return found
    quoted = found.replace("`", "``")
    return F.col(f"`{quoted}`")


def _require_allowed(call: exp.Expr) -> None:
    name = call.name.lower()
    if name not in _FUNCTIONS:
        why = _WHY.get(name, _NOT_LISTED)
        raise SqlError(f"{call.name}(): {why}", f"a function: {why}")


def _called(node: exp.Expr, scope: _Scope) -> Column:
    _require_allowed(node)
    name, arguments = node.name.lower(), node.expressions
    if name not in _LAMBDAS:
        column = F.call_function(name, *(_build(one, scope) for one in arguments))
        if name in _WITH_REGEX and len(arguments) > 1:
            _check(node, regex_fault(_literal(node, arguments[1])))
        if name in _REPLACING:
            _check_replacement(node)
        return column
    columns = [_build(one, scope) for one in arguments if not isinstance(one, exp.Lambda)]
    function = arguments[-1] if len(arguments) == 2 and len(columns) == 1 else None  # noqa: PLR2004 - array, lambda
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        raise _refused(node, f"write it as {name}(an_array, x -> x = 'a')")
    _check_lambda(function)
    variable = function.expressions[0].name.lower()
    # If each element of a new array could hold the body, one message could fill the memory.
    around = {} if name == "transform" else scope
    apply: Callable[..., Column] = getattr(F, name)
    return apply(columns[0], lambda x: _build(function.this, {**around, variable: x}))


def _literal(node: exp.Expr, part: exp.Expr | None) -> str:
    """Return the text that *part* of *node* is, empty for NULL; refuse it if it is neither.

    Whoever sends a message must not choose what is looked for in it, or how often.
    """
    while isinstance(part, exp.Paren):
        part = part.this
    match part:
        case exp.Null():
            return ""
        case exp.RawString() | exp.Literal(is_string=True):
            return str(part.name)
    raise _refused(node, _NO_LITERAL)


def _check(node: exp.Expr, fault: str) -> None:
    if fault:
        raise _refused(node, fault)


def _check_replacement(node: exp.Expr) -> None:
    """Refuse a call of ``_REPLACING`` that could make a text of any length."""
    if len(node.expressions) > 2:  # noqa: PLR2004 - text, what is replaced, replacement
        _check(node, replacement_fault(_literal(node, node.expressions[2])))
    for argument in node.expressions:
        for call in argument.find_all(exp.Anonymous):
            if call.name.lower() in _REPLACING:
                raise _refused(node, f"{call.name}() must not stand in another replacement")


def _check_lambda(node: exp.Lambda) -> None:
    """Refuse what could make a long text or array of each element."""
    for part in node.this.find_all(exp.Anonymous, exp.DPipe):
        name = "||" if isinstance(part, exp.DPipe) else part.name.lower()
        if name == "||" or name in _GROWING:
            raise _refused(part, f"{name} must not stand in a lambda: it could fill the memory")


def _refused(node: exp.Expr, why: str = _NOT_LISTED) -> InputError:
    text = node.sql(Spark, unsupported_level=ErrorLevel.IGNORE, comments=False)
    if isinstance(node, exp.Anonymous):
        return SqlError(f"{text}: {why}", f"{node.name.lower()}(): {why}")
    kind = type(node).__name__
    why = _WHY.get(kind, why)
    return SqlError(f"{text} ({kind}): {why}", f"{kind}: {why}")


def _casts_literal(node: exp.Expr) -> bool:
    """Return whether *node* may be that of ``-1::int``, of which sqlglot casts 1, and Spark -1.

    Likewise ``date '2026-11-01'::string``, of which sqlglot casts the text first.
    """
    first = node
    while isinstance(first, exp.Cast):
        first = first.this
    return first is not node and isinstance(first, exp.Literal)


def _number(text: str) -> int | float | Decimal:
    if "e" in text.lower():
        if isinf(number := float(text)):
            raise SqlError(f"{text}: is too large for a double", "a number: too large for a double")
        return number
    exact = Decimal(text)
    return int(exact) if "." not in text and -(2**63) <= exact < 2**63 else exact
