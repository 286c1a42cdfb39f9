"""Parse SQL conditions and expressions of operators, plans and policies, and check them. No engine.

Spark's own analysis of a text has effects: it reads a file that a subquery names and loads a class
that ``reflect`` names. So sqlglot parses the text, this module refuses every node and function that
it does not know, and an engine works on the checked tree: what was checked is what runs.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from math import isinf
from typing import ClassVar

from sqlglot import ErrorLevel, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from dlq.errors import InputError, SqlError
from dlq.sql.patterns import like_fault, regex_fault, replacement_fault
from dlq.sql.sql_errors import WHERE, naming

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
LAMBDAS = ("exists", "filter", "forall", "transform")
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

OPERATORS = {
    "Add": "+",
    "Between": "between",
    "Div": "/",
    "DPipe": "concat",
    "EQ": "=",
    "GT": ">",
    "GTE": ">=",
    "ILike": "ilike",
    "In": "in",
    "IntDiv": "div",
    "Is": "<=>",
    "Like": "like",
    "LT": "<",
    "LTE": "<=",
    "Mod": "%",
    "Mul": "*",
    "Neg": "negative",
    "NEQ": "=",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "<=>",
    "RegexpLike": "rlike",
    "Sub": "-",
}
"""Nodes of sqlglot, and the functions that Spark has for them."""

OPERANDS = ("this", "expression", "expressions", "low", "high")
"""The parts of such a node."""

NEGATED = (exp.NEQ, exp.NullSafeNEQ)
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
NOW = (
    "gives the current time, which is another one tomorrow; write a fixed time, use collect "
    "--since, or age_seconds in a policy"
)
_OTHERS = "looks at other messages, and SQL here sees one at a time"
_WHY = {
    **dict.fromkeys(("now", "current_timestamp", "current_date", "unix_timestamp"), NOW),
    **dict.fromkeys(("Window", "count", "sum", "min", "max", "row_number"), _OTHERS),
    "Concat": r"two texts side by side; write a quote within a text as \'",
}
"""Reasons to refuse well-known names, and nodes of sqlglot. Others are just not on the list."""


def check_sql(sql: str | None, columns: Collection[str], place: str | None = WHERE) -> None:
    """Refuse *sql* if ``checked`` refuses it; None is sound.

    Raises:
        SqlError: the text names *place*, unless that is None, and the part.
    """
    if sql is None:
        return
    with nullcontext() if place is None else naming(place, sql):
        checked(sql, columns)


def checked(sql: str, columns: Collection[str]) -> exp.Expr:
    """Return the tree of *sql*: nothing but columns, values, operators and functions of the list.

    Types are not checked; an engine does that.

    Raises:
        InputError: *sql* cannot be read, names no column of *columns*, or has something that is not
            allowed. The text names the part and the rule.
    """
    try:
        tree = _parsed(sql)
        _check(tree, set(map(str.lower, columns)))
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return tree


def named_columns(sql: str, columns: Sequence[str]) -> list[str]:
    """Return those of *columns* that *sql* names, in their order; a lambda's variable may be one.

    Raises:
        InputError: as for ``checked``.
    """
    tree = checked(sql, columns)
    names = {part.name.lower() for part in tree.find_all(exp.Identifier)}
    return [column for column in columns if column.lower() in names]


class _Parser(SparkParser):
    """sqlglot's parser for Spark, which leaves here each call of a function as it is written."""

    ARRAY_CONSTRUCTORS: ClassVar = {}
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        "CAST": SparkParser.FUNCTION_PARSERS["CAST"],
        "TRY_CAST": SparkParser.FUNCTION_PARSERS["TRY_CAST"],
    }
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    STRICT_CAST: ClassVar = True
    SUBQUERY_PREDICATES: ClassVar = {}
    # Without the unary plus: to Spark it is a cast, to sqlglot nothing.
    UNARY_PARSERS: ClassVar = {
        TokenType.NOT: SparkParser.UNARY_PARSERS[TokenType.NOT],
        TokenType.DASH: SparkParser.UNARY_PARSERS[TokenType.DASH],
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
    """Return the tree of *sql*, unchecked. Raises InputError if it cannot be read."""
    try:
        sql.encode()
        tokens = Spark().tokenize(sql)
        trees = _Parser(dialect=Spark()).parse_into(exp.Condition, tokens, sql)
    except UnicodeEncodeError as error:
        raise InputError("is not valid Unicode") from error
    except TokenError as error:
        raise InputError("cannot be read: a quote is not closed") from error
    except ParseError as error:
        fault = error.errors[0]
        where = "cannot be read: line {line}, character {col}".format_map(fault)
        raise SqlError(f"{where}, at {fault['highlight']!r}", where) from error

    if len(trees) != 1 or trees[0] is None:
        raise InputError("is not one expression")
    return trees[0]


_Names = Collection[str]
"""In lower case: the columns, and the variables of the lambdas around."""


def _check(node: exp.Expr, names: _Names) -> None:  # noqa: C901, PLR0912 - a table
    """Refuse whatever of *node* is not known here."""
    match node:
        case exp.Paren() | exp.Not() | exp.Dot(expression=exp.Identifier()):
            _check(node.this, names)
        case exp.Null() | exp.Boolean() | exp.RawString() | exp.Literal(is_string=True):
            pass
        case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
            number(node)

        case exp.Identifier():
            _require_name(node.name, names)
        case exp.Column(this=exp.Identifier()):
            _require_name(node.parts[0].name, names)
        case exp.Bracket(expressions=[_]):
            _check_parts(node, names, "this", "expressions")

        case exp.Anonymous():
            _check_call(node, names)
        case exp.Cast() if not _casts_literal(node.this):
            _check_parts(node, names, "this")
            if not _TYPE.fullmatch(type_name(node)):
                raise _refused(node.to)
        case exp.Interval(this=exp.Literal(), unit=exp.Var()):
            unit = _UNIT.fullmatch(node.args["unit"].name)
            if not unit or not re.fullmatch(r"-?\d+", node.this.name):
                raise _refused(node)
        case exp.Case():
            _check_case(node, names)

        case exp.And() | exp.Or():
            # The left operand of a long chain is as deep as the chain: no recursion into it.
            for operand in node.flatten(unnest=False):
                _check(operand, names)

        case exp.Escape(this=exp.Like() | exp.ILike()):
            _check(node.expression, names)
            _check_operator(node.this, names)
            pattern = _required_text(node.this, node.this.expression)
            _refuse_if(node, like_fault(pattern, _required_text(node, node.expression)))
        case exp.Like() | exp.ILike():
            _check_operator(node, names)
            _refuse_if(node, like_fault(_required_text(node, node.expression)))
        case exp.RegexpLike():
            _check_operator(node, names)
            _refuse_if(node, regex_fault(_required_text(node, node.expression)))

        case _ if type(node).__name__ in OPERATORS:
            _check_operator(node, names)
        case _:
            raise _refused(node)


def _check_case(node: exp.Case, names: _Names) -> None:
    for branch in node.args["ifs"]:
        _check_parts(branch, names, "this", "true")
        if node.this:
            _check(node.this, names)
    if default := node.args.get("default"):
        _check(default, names)


def _check_operator(node: exp.Expr, names: _Names) -> None:
    # sqlglot and Spark give these another precedence.
    loose = (exp.Add, exp.Sub) if isinstance(node, exp.DPipe) else _PREDICATES
    operands = parts_of(node, "this", "expression", "low", "high")
    if any(isinstance(operand, loose) for operand in operands):
        raise _refused(node, _BRACKETS)
    if isinstance(node, exp.Neg) and _casts_literal(node.this):
        raise _refused(node, _BRACKETS)

    if isinstance(node, exp.In) and not node.expressions:
        raise _refused(node.args.get("query") or node)
    if isinstance(node, exp.Is) and not isinstance(node.expression, exp.Null | exp.Boolean):
        raise _refused(node)
    _check_parts(node, names, *OPERANDS)


def _check_parts(node: exp.Expr, names: _Names, *keys: str) -> None:
    """Check the parts *keys* of *node*; refuse it if it has others."""
    for key, part in node.args.items():
        if part and key not in keys and key not in _NOTES:
            raise _refused(node)
    for part in parts_of(node, *keys):
        _check(part, names)


def parts_of(node: exp.Expr, *keys: str) -> list[exp.Expr]:
    """Return the parts *keys* of *node* that it has, in their order."""
    parts: list[exp.Expr] = []
    for key in keys:
        part = node.args.get(key)
        if isinstance(part, list):
            parts += part
        elif part is not None:
            parts.append(part)
    return parts


def _require_name(name: str, names: _Names) -> None:
    if name.lower() in names:
        return
    near = get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    why = _WHY.get(name.lower(), f"is no column here{hint}")
    raise SqlError(f"{name}: {why}", f"a name: {why}")


def _require_allowed(call: exp.Expr) -> None:
    name = call.name.lower()
    if name not in _FUNCTIONS:
        why = _WHY.get(name, _NOT_LISTED)
        raise SqlError(f"{call.name}(): {why}", f"a function: {why}")


def _check_call(node: exp.Expr, names: _Names) -> None:
    _require_allowed(node)
    name = node.name.lower()
    if name in LAMBDAS:
        _check_lambda_call(node, names)
        return

    arguments = node.expressions
    for argument in arguments:
        _check(argument, names)
    if name in _WITH_REGEX and len(arguments) > 1:
        _refuse_if(node, regex_fault(_required_text(node, arguments[1])))
    if name in _REPLACING:
        _check_replacement(node)


def _check_lambda_call(node: exp.Expr, names: _Names) -> None:
    name = node.name.lower()
    values = [argument for argument in node.expressions if not isinstance(argument, exp.Lambda)]
    for value in values:
        _check(value, names)

    is_array_and_lambda = len(node.expressions) == 2 and len(values) == 1  # noqa: PLR2004
    function = node.expressions[-1] if is_array_and_lambda else None
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        raise _refused(node, f"write it as {name}(an_array, x -> x = 'a')")

    for part in function.this.find_all(exp.Anonymous, exp.DPipe):
        growing = "||" if isinstance(part, exp.DPipe) else part.name.lower()
        if growing == "||" or growing in _GROWING:
            raise _refused(part, f"{growing} is not allowed in a lambda: it could fill the memory")

    # If each element of a new array could hold the body, one message could fill the memory.
    names_around = () if name == "transform" else names
    _check(function.this, {*names_around, variable_of(function)})


def variable_of(function: exp.Expr) -> str:
    """Return the name of a checked lambda's variable, in lower case."""
    return str(function.expressions[0].name.lower())


def fixed_text(part: exp.Expr | None) -> str | None:
    """Return the text that *part* is, empty for NULL; None if it is neither."""
    while isinstance(part, exp.Paren):
        part = part.this
    match part:
        case exp.Null():
            return ""
        case exp.RawString() | exp.Literal(is_string=True):
            return str(part.name)
    return None


def _required_text(node: exp.Expr, part: exp.Expr | None) -> str:
    """Return the fixed text that *part* of *node* is; refuse it if it is none.

    Whoever sends a message must not choose what is looked for in it, or how often.
    """
    text = fixed_text(part)
    if text is None:
        raise _refused(node, _NO_LITERAL)
    return text


def _refuse_if(node: exp.Expr, fault: str) -> None:
    if fault:
        raise _refused(node, fault)


def _check_replacement(node: exp.Expr) -> None:
    """Refuse a call of ``_REPLACING`` that could make a text of any length."""
    if len(node.expressions) > 2:  # noqa: PLR2004 - text, what is replaced, replacement
        _refuse_if(node, replacement_fault(_required_text(node, node.expressions[2])))
    for argument in node.expressions:
        for call in argument.find_all(exp.Anonymous):
            if call.name.lower() in _REPLACING:
                raise _refused(node, f"{call.name}() is not allowed in another replacement")


def shown(node: exp.Expr) -> str:
    """Format *node* for an error."""
    return node.sql(Spark, unsupported_level=ErrorLevel.IGNORE, comments=False)


def _refused(node: exp.Expr, why: str = _NOT_LISTED) -> InputError:
    if isinstance(node, exp.Anonymous):
        return SqlError(f"{shown(node)}: {why}", f"{node.name.lower()}(): {why}")
    kind = type(node).__name__
    why = _WHY.get(kind, why)
    return SqlError(f"{shown(node)} ({kind}): {why}", f"{kind}: {why}")


def type_name(cast: exp.Expr) -> str:
    """Return the type that *cast* converts to, as Spark writes it: ``DECIMAL(5, 2)``."""
    return str(cast.args["to"].sql(Spark))


def interval_of(node: exp.Expr) -> tuple[int, str]:
    """Return number and unit, ``YEAR`` to ``SECOND``, of a checked interval."""
    return int(node.this.name), node.args["unit"].name.removesuffix("S")


def _casts_literal(node: exp.Expr) -> bool:
    """Return whether *node* may be that of ``-1::int``, of which sqlglot casts 1, and Spark -1.

    Likewise ``date '2026-11-01'::string``, of which sqlglot casts the text first.
    """
    first = node
    while isinstance(first, exp.Cast):
        first = first.this
    return first is not node and isinstance(first, exp.Literal)


def number(node: exp.Expr) -> int | float | Decimal:
    """Return the number that a literal, or the negation of one, is.

    The sign belongs to the number: -2147483648 is an INT.

    Raises:
        SqlError: a double cannot hold it.
    """
    text = f"-{node.this.name}" if isinstance(node, exp.Neg) else node.name
    if "e" in text.lower():
        double = float(text)
        if isinf(double):
            raise SqlError(f"{text}: is too large for a double", "a number: too large for a double")
        return double

    exact = Decimal(text)
    is_whole = "." not in text and -(2**63) <= exact < 2**63
    return int(exact) if is_whole else exact
