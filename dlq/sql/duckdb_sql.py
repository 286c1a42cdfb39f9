"""Write a checked tree of Spark SQL for DuckDB, with exactly Spark's result; refuse the rest.

Both engines use one parser and one check, see ``allowed``. Each part gets the type that it has in
Spark, and is written for the combinations of types that the table of tests shows to be equal; no
cast is left to DuckDB. What could differ is refused: it "needs --engine spark".

========== =======================================================================================
equal      columns; literals; ``AND OR NOT IS IN BETWEEN CASE = <> < <= > >= <=>`` over one type,
           two kinds of numbers, or a time and a fixed text; ``+ - *``; ``/ DIV %`` by a fixed
           number above 0; ``||``; ``LIKE ILIKE RLIKE`` (most patterns); fields, keys of maps,
           intervals of days to seconds; ``TRY_CAST`` of texts to numbers and booleans; casts that
           cannot fail
functions  ``EQUAL`` lists them
refused    other functions; casts of texts that can fail; other casts; texts compared with numbers;
           arithmetic of decimals; months and years; time zones; what a regular expression of Java
           has and RE2 has not
========== =======================================================================================

A few values, such as a JSON number whose text depends on the version of Java, are refused when they
are met, see ``spark_functions``. An operation that fails on a message fails in both engines, but
DuckDB may also fail where Spark would not have evaluated it: such an error never is a result.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from dlq.errors import InputError, SqlError
from dlq.sql import spark_functions
from dlq.sql.allowed import (
    LAMBDAS,
    NEGATED,
    checked,
    fixed_text,
    interval_of,
    number,
    parts_of,
    shown,
    type_name,
    variable_of,
)
from dlq.sql.failures import WHERE, naming
from dlq.sql.java_regex import (
    UntranslatableError,
    is_plain_text,
    like_to_re2,
    to_re2,
)

Kind: TypeAlias = Any
"""A ``DataType`` of Arrow. The stubs of pyarrow know neither its parts nor which are equal."""

NEEDS_SPARK = "needs --engine spark"

FAILURE_MARK = "failure: "
"""The beginning of the text of an error that an expression raises by itself. It quotes no value."""

_NULL: Kind = pa.null()
_FLAG: Kind = pa.bool_()
_INT: Kind = pa.int32()
_LONG: Kind = pa.int64()
_DOUBLE: Kind = pa.float64()
_TEXT: Kind = pa.string()
_BYTES: Kind = pa.binary()
_DATE: Kind = pa.date32()
_TIME: Kind = pa.timestamp("us")
_DURATION: Kind = pa.duration("us")

_VARIANT_TYPE: Kind = pa.large_string()
"""The type of what ``schema_of_variant`` names: its first word alone is known here."""

_NAMES: Mapping[Kind, str] = {
    _NULL: "VARCHAR",
    _FLAG: "BOOLEAN",
    _INT: "INTEGER",
    _LONG: "BIGINT",
    _DOUBLE: "DOUBLE",
    _TEXT: "VARCHAR",
    _VARIANT_TYPE: "VARCHAR",
    _BYTES: "BLOB",
    _DATE: "DATE",
    _TIME: "TIMESTAMP",
    _DURATION: "BIGINT",
}
"""The types that values have, and those of DuckDB. A duration is its microseconds, as in Spark."""

_WHOLE = (_INT, _LONG)
_NUMBERS = (*_WHOLE, _DOUBLE)
_TIMES = (_TIME, _DATE)
_COMPARED = (_FLAG, *_NUMBERS, _TEXT, _BYTES, _DATE, _TIME, _DURATION)
_BOUNDS = {_INT: (-(2**31), 2**31 - 1), _LONG: (-(2**63), 2**63 - 1)}
_MICROSECONDS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6}
_PARTS_OF_TIME = ("year", "month", "day", "hour", "minute", "second")
_TRUNCATED_TO = (*_PARTS_OF_TIME, "week")
_MOST_SCALE = 18
_VARIANT_WORDS = "ARRAY|BIGINT|BOOLEAN|DECIMAL|DOUBLE|FLOAT|OBJECT|STRING|VOID"
_WHOLE_VARIANT_WORDS = ("BIGINT", "BOOLEAN", "DOUBLE", "FLOAT", "STRING", "VOID")
_CLOCK = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|UTC|[+-]\d\d:\d\d)?)?"
)

_TRY = f"{NEEDS_SPARK}: a text that is no such value would fail; try_cast gives null instead"
_RISKY_ELEMENT = "use get(an_array, n), which gives null where there is no such element"


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


@dataclass(frozen=True, slots=True)
class DuckSql:
    """SQL for DuckDB.

    Attributes:
        text: an expression over columns ``c0``, ``c1``, …
        type: of its result.
        columns: the names of these columns, in order.
        functions: those in Python that it calls, by name.
        growth: the most bytes that are made of each byte of a row; see ``_growth``.
    """

    text: str
    type: Kind
    columns: tuple[str, ...]
    functions: Mapping[str, "PythonFunction"]
    growth: int


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of one argument; its types as DuckDB names them."""

    call: Callable[[Any], Any]
    takes: str
    gives: str


def for_duckdb(sql: str, schema: pa.Schema, *, as_text: bool = False) -> DuckSql:
    """Write *sql*, an expression of Spark SQL over the columns of *schema*, for DuckDB.

    With *as_text* its result is cast to a text, as Spark does that.

    Raises:
        InputError: ``checked`` refuses it, or a part of it needs Spark. The text names the part,
            and neither where *sql* comes from nor *sql* as a whole.
    """
    tree = checked(sql, schema.names)
    growth = _growth(tree)
    writer = _Writer({column.name.lower(): column for column in schema})
    try:
        term = writer.write(tree, {})
        if term.type == _VARIANT_TYPE:
            raise _refused(tree, "compare what schema_of_variant gives with a type's name")
        if as_text:
            term = writer.cast(tree, term, "STRING")
        text = term.sql.sql(dialect="duckdb")
    except RecursionError as error:
        raise InputError("is nested too deeply") from error

    return DuckSql(
        text=text,
        type=term.type,
        columns=tuple(writer.columns),
        functions=writer.functions,
        growth=growth,
    )


def condition_for_duckdb(sql: str, schema: pa.Schema, place: str = WHERE) -> DuckSql:
    """Write *sql*, a condition that comes from *place*, for DuckDB.

    Raises:
        SqlError: as for ``for_duckdb``, and the text names *place* and *sql*; or it is no
            condition.
    """
    with naming(place, sql):
        written = for_duckdb(sql, schema)
        if written.type != _FLAG:
            raise SqlError("is no condition: it is neither true nor false", "is no condition")
    return written


# --- How much a row can grow

_MOST_GROWTH = 400
"""DuckDB holds all that it makes of a row at once, and does not count it: a row has up to 1 MiB."""

_GROWING = {
    **dict.fromkeys(("concat", "split_part", "string"), 1),
    **dict.fromkeys(("btrim", "trim", "ltrim", "rtrim", "left", "right", "substr", "substring"), 1),
    # "ΐ" has three characters in upper case, and a control character six in JSON.
    **dict.fromkeys(("lower", "upper"), 3),
    "get_json_object": 6,
    # An element of an array takes 16 bytes, and may be a single letter.
    **dict.fromkeys(("split", "from_json", "json_object_keys", "transform"), 20),
}
"""Functions that make texts and arrays, and by how much these can be larger than what they get."""


def _growth(tree: exp.Expr) -> int:
    """Return how many bytes all parts of *tree* make, at most, of each byte of a row.

    Raises:
        SqlError: they are too many; or a lambda makes one for each element of what is outside.
    """
    growth = 1
    for node in tree.dfs():
        factor = _factor(node)
        if not factor:
            continue

        if node.find_ancestor(exp.Lambda) and node.find(exp.Column):
            raise _refused(node, "a text made of a column for each element of an array")
        growth += _size(node)
        if growth > _MOST_GROWTH:
            raise _refused(node, "too many texts made of one; shorten them first: left(body, n)")
    return growth


def _factor(node: exp.Expr) -> int:
    """Return how many times as large as its operands a node's value can be; 0 for no new text."""
    if isinstance(node, exp.DPipe):
        return 1
    if not isinstance(node, exp.Anonymous):
        return 0

    name = node.name.lower()
    if name == "replace" and len(node.expressions) == 3:  # noqa: PLR2004
        replaced = fixed_text(node.expressions[1]) or ""
        replacement = fixed_text(node.expressions[2]) or ""
        return max(1, len(replacement.encode()) // max(1, len(replaced.encode())))
    return _GROWING.get(name, 0)


def _size(node: exp.Expr) -> int:
    """Return how many bytes the value of *node* has, at most, for each byte of a row."""
    if isinstance(node, exp.Column | exp.Identifier):
        return 1
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return 0
    operands_size = sum(map(_size, node.iter_expressions()))
    return operands_size * max(1, _factor(node))


# --- The tree

_Variables = Mapping[str, Term]
"""The variables of the lambdas around, by their names in lower case."""


@dataclass(slots=True)
class _Writer:
    """Writes one tree; then ``columns`` and ``functions`` are those that its text uses.

    Attributes:
        fields: the columns that it may use, by their names in lower case.
    """

    fields: Mapping[str, "pa.Field[Any]"]
    columns: list[str] = field(default_factory=list)
    functions: dict[str, PythonFunction] = field(default_factory=dict)

    def write(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911, PLR0912 - a table
        match node:
            case exp.Paren():
                return self.write(node.this, variables)
            case exp.Null():
                return _null(_NULL)
            case exp.Boolean():
                return Term(exp.Boolean(this=bool(node.this)), _FLAG, value=bool(node.this))
            case exp.RawString() | exp.Literal(is_string=True):
                return _text(node, node.name)
            case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
                return _number(node)

            case exp.Identifier():
                return self._named(node.name, variables)
            case exp.Column():
                return self._column(node, variables)
            case exp.Dot():
                return _field(node, self.write(node.this, variables), node.expression.name)
            case exp.Bracket():
                return self._element(node, variables)

            case exp.Anonymous():
                return self._call(node, variables)
            case exp.Cast():
                return self.cast(node, self.write(node.this, variables), type_name(node))
            case exp.Interval():
                return _interval(node)
            case exp.Case():
                return self._case(node, variables)

            case exp.And() | exp.Or():
                return self._connected(node, variables)
            case exp.Not():
                return _not(_flag(node, self.write(node.this, variables)))

            case exp.Escape():
                escape = fixed_text(node.expression) or ""
                return self._like(node.this, variables, escape)
            case exp.Like() | exp.ILike():
                return self._like(node, variables, "\\")
            case exp.RegexpLike():
                return self._matches(node, variables, node.this, node.expression)
        return self._operation(node, variables)

    def _written(self, nodes: Iterable[exp.Expr], variables: _Variables) -> list[Term]:
        return [self.write(node, variables) for node in nodes]

    def _named(self, name: str, variables: _Variables) -> Term:
        if name.lower() in variables:
            return variables[name.lower()]

        column = self.fields[name.lower()]
        if column.name not in self.columns:
            self.columns.append(column.name)
        sql = exp.column(f"c{self.columns.index(column.name)}", quoted=True)
        return Term(sql, plain_type(column.type))

    def _column(self, node: exp.Column, variables: _Variables) -> Term:
        """Write a column, or a field of one: ``a.b.c``."""
        column, *field_parts = node.parts
        term = self._named(column.name, variables)
        for part in field_parts:
            term = _field(node, term, part.name)
        return term

    def _connected(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write AND or OR of any number of operands."""
        operands = node.flatten(unnest=False)
        flags = [self._condition(operand, variables).sql for operand in operands]
        return Term(_balanced(type(node), flags), _FLAG)

    def _condition(self, node: exp.Expr, variables: _Variables) -> Term:
        return _flag(node, self.write(node, variables))

    def _python(self, name: str, call: Callable[[Any], Any], term: Term, gives: Kind) -> Term:
        """Call a function in Python. Each function of one expression has a name of its own."""
        result = f"{_NAMES[gives.value_type]}[]" if pa.types.is_list(gives) else _NAMES[gives]
        unique_name = f"{name}_{len(self.functions)}"
        self.functions[unique_name] = PythonFunction(call, takes=_NAMES[term.type], gives=result)
        return _applied(unique_name, gives, term)

    def _element(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write ``whole[key]``."""
        whole, key = self._written(parts_of(node, "this", "expressions"), variables)
        if pa.types.is_map(whole.type):
            return _of_map(node, whole, key)
        if pa.types.is_struct(whole.type) and isinstance(key.value, str):
            return _field(node, whole, key.value)
        if not pa.types.is_list(whole.type) or not _is_index(key):
            raise _refused(node, _RISKY_ELEMENT)

        index = _literal_number(key.value + 1)
        failure = _failure(f"there is no element {key.value}; {_RISKY_ELEMENT}")

        def element(array: exp.Expr) -> exp.Expr:
            has_element = _infix(exp.GT, _function("len", array), _literal_number(key.value))
            branches = [
                (_is_null(array), exp.Null()),
                (has_element, _function("list_extract", array, index)),
            ]
            return _case(branches, failure)

        return Term(_once(whole.sql, element), whole.type.value_type)

    def _case(self, node: exp.Expr, variables: _Variables) -> Term:
        tests: list[exp.Expr] = []
        values: list[Term] = []
        for branch in node.args["ifs"]:
            test = self.write(branch.this, variables)
            if node.this:
                test = _compared(node, exp.EQ, self.write(node.this, variables), test)
            tests.append(_flag(node, test).sql)
            values.append(self.write(branch.args["true"], variables))

        default = node.args.get("default")
        values.append(self.write(default, variables) if default else _null(_NULL))

        *branch_values, last = _unified(node, values)
        branches = list(zip(tests, _sqls(branch_values), strict=True))
        return Term(_case(branches, last.sql), last.type)

    def _like(self, node: exp.Expr, variables: _Variables, escape: str) -> Term:
        subject = self.write(node.this, variables)
        if isinstance(_inner(node.expression), exp.Null):
            return _negated(node, _null(_FLAG))

        pattern = fixed_text(node.expression) or ""
        if subject.type == _VARIANT_TYPE:
            return _negated(node, _variant_like(node, subject, pattern, escape))

        subject = _required(node, subject, _TEXT)
        if isinstance(node, exp.ILike):
            if escape.isalpha():
                raise _refused(node, "a letter as the escape of ILIKE")
            subject = self._python("lower", spark_functions.lower, subject, _TEXT)
            pattern = _in_python(node, spark_functions.lower, pattern)

        try:
            expression = like_to_re2(pattern, escape)
        except UntranslatableError as error:
            raise _refused(node, str(error)) from error
        return _negated(node, _has_match(subject, expression))

    def _matches(
        self, node: exp.Expr, variables: _Variables, subject_node: exp.Expr, pattern: exp.Expr
    ) -> Term:
        subject = self.write(subject_node, variables)
        if isinstance(_inner(pattern), exp.Null):
            return _negated(node, _null(_FLAG))

        text = fixed_text(pattern) or ""
        if subject.type == _VARIANT_TYPE:
            return _negated(node, _variant_matches(node, subject, text))

        subject = _required(node, subject, _TEXT)
        try:
            expression = to_re2(text)
        except UntranslatableError as error:
            raise _refused(node, f"in the pattern, {error}") from error
        return _negated(node, _has_match(subject, expression))

    def _operation(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911 - a table
        parts = parts_of(node, "this", "expression", "expressions", "low", "high")
        operands = self._written(parts, variables)
        match node:
            case exp.Is():
                return _negated(node, _is(node, *operands))
            case exp.In():
                subject, *values = operands
                tests = [_compared(node, exp.EQ, subject, value).sql for value in values]
                return _negated(node, Term(_balanced(exp.Or, tests), _FLAG))
            case exp.Between():
                subject, low, high = operands
                above = _compared(node, exp.GTE, subject, low).sql
                below = _compared(node, exp.LTE, subject, high).sql
                return _negated(node, Term(_infix(exp.And, above, below), _FLAG))

            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return _negated(node, _compared(node, exp.NullSafeEQ, *operands))
            case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                return _compared(node, type(node), *operands)

            case exp.DPipe():
                return _joined(node, operands)
            case exp.Neg():
                return _negative(node, *operands)
            case exp.Add() | exp.Sub() | exp.Mul():
                return _arithmetic(node, type(node), *operands)
            case exp.Div():
                return _divided(node, *operands)
            case exp.IntDiv() | exp.Mod():
                return _whole_division(node, type(node), *operands)
        raise _refused(node)

    def cast(self, node: exp.Expr, term: Term, target: str) -> Term:  # noqa: C901, PLR0911 - a table
        """Write a cast to the type that Spark calls *target*; *node* is the cast."""
        wanted = _CAST_TYPES.get(target)
        source = term.type
        if wanted is None or source == _VARIANT_TYPE:
            raise _refused(node, f"a cast to {target.lower()}")
        if source == _NULL:
            return _null(wanted)
        if source == wanted:
            return replace(term, value=None)

        if source == _TEXT and wanted in _TIMES and isinstance(term.value, str):
            return _fixed_time(node, term.value, wanted)
        if source == _TEXT and wanted in (*_NUMBERS, _FLAG):
            return self._cast_of_text(node, term, wanted)

        if isinstance(term.value, Decimal) and wanted == _TEXT:
            return _text(node, format(term.value, "f"))
        if isinstance(term.value, Decimal) and wanted == _DOUBLE:
            return _double(float(term.value))

        if wanted == _TEXT and source == _DOUBLE:
            return self._python("double_text", spark_functions.double_text, term, _TEXT)
        if wanted == _TEXT and source in _TIMES:
            return _time_text(term)
        if wanted == _INT and source == _LONG:
            cast = exp.TryCast if isinstance(node, exp.TryCast) else exp.Cast
            return Term(cast(this=term.sql, to=_duck_type(_INT)), _INT)
        if wanted == _FLAG and source in _WHOLE:
            return Term(_infix(exp.NEQ, term.sql, _literal_number(0)), _FLAG)
        if (source, wanted) in _SAFE_CASTS:
            return _as(term, wanted)
        raise _refused(node, f"a cast of {spark_name(source)} to {target.lower()}")

    def _cast_of_text(self, node: exp.Expr, term: Term, wanted: Kind) -> Term:
        """Write ``TRY_CAST`` of a text to a number or a boolean."""
        if not isinstance(node, exp.TryCast):
            raise _refused(node, _TRY, is_whole_reason=True)

        if wanted in _WHOLE:
            least, most = _BOUNDS[wanted]
            call = partial(spark_functions.to_integer, least=least, most=most)
            return self._python("to_integer", call, term, wanted)
        if wanted == _FLAG:
            return self._python("to_boolean", spark_functions.to_boolean, term, _FLAG)
        # As a text: DuckDB takes a NaN of Python for NULL.
        return _as(self._python("to_double", _double_of, term, _TEXT), _DOUBLE)

    def _call(self, node: exp.Expr, variables: _Variables) -> Term:
        name = node.name.lower()
        if name not in EQUAL:
            raise _refused(node)

        if name in LAMBDAS:
            return self._lambda_call(node, variables)
        if name in ("schema_of_variant", "is_variant_null"):
            return self._variant_call(node, variables)
        if name == "regexp_like":
            if len(node.expressions) != 2:  # noqa: PLR2004 - text, pattern
                raise _refused(node)
            return self._matches(node, variables, *node.expressions)

        terms = self._written(node.expressions, variables)
        if _VARIANT_TYPE in _kinds(terms):
            raise _refused(node, "a function of what schema_of_variant gives")

        written = self._python_call(node, name, terms) or _duckdb_call(node, name, terms)
        if written is None:
            raise _refused(node)
        return written

    def _python_call(self, node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: PLR0911 - a table
        """Write a call of a function in Python, or a cast written as a call; None for others."""
        match name, terms:
            case "get_json_object", [text, path]:
                read = partial(_json_object, _path(node, path))
                return self._python("json", read, _required(node, text, _TEXT), _TEXT)
            case "json_array_length", [text]:
                count = spark_functions.json_array_length
                return self._python("json", count, _required(node, text, _TEXT), _INT)
            case "json_object_keys", [text]:
                keys = spark_functions.json_object_keys
                return self._python("json", keys, _required(node, text, _TEXT), pa.list_(_TEXT))
            case "from_json", [text, Term(value=str() as schema)]:
                if not re.fullmatch(r"\s*array\s*<\s*string\s*>\s*", schema, re.IGNORECASE):
                    raise _refused(node, "from_json of another type than array<string>")
                split = spark_functions.array_of_texts
                return self._python("json", split, _required(node, text, _TEXT), pa.list_(_TEXT))

            case "lower" | "upper", [text]:
                change = spark_functions.lower if name == "lower" else spark_functions.upper
                return self._python(name, change, _required(node, text, _TEXT), _TEXT)
            case "bigint" | "boolean" | "date" | "double" | "int" | "string" | "timestamp", [term]:
                return self.cast(node, term, name.upper())
            case "to_date", [term] if term.type != _TEXT or term.value is not None:
                return self.cast(node, term, "DATE")
        return None

    def _variant_call(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write ``schema_of_variant`` or ``is_variant_null``."""
        json, steps = self._variant(node, _only(node, node.expressions), variables)
        kind = self._python("variant_type", partial(_variant_type, steps), json, _TEXT)
        if node.name.lower() == "schema_of_variant":
            return replace(kind, type=_VARIANT_TYPE)

        # NULL is a value of the variant itself, and no variant is none.
        is_void = _infix(exp.NullSafeEQ, kind.sql, exp.Literal.string("VOID"))
        return Term(is_void, _FLAG)

    def _variant(
        self, call: exp.Expr, node: exp.Expr, variables: _Variables
    ) -> tuple[Term, tuple[str | int, ...]]:
        """Return the text and the path that a variant is made of."""
        node = _inner(node)
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name == "try_parse_json":
            text = self.write(_only(node, node.expressions), variables)
            return _required(node, text, _TEXT), ()

        if name == "try_variant_get" and len(node.expressions) == 3:  # noqa: PLR2004
            inner, path, kind = node.expressions
            if (fixed_text(kind) or "").strip().lower() != "variant":
                raise _refused(node, "a variant as another type; use get_json_object")
            text, steps = self._variant(call, inner, variables)
            return text, (*steps, *_path(node, self.write(path, variables)))

        raise _refused(call)

    def _lambda_call(self, node: exp.Expr, variables: _Variables) -> Term:
        name = node.name.lower()
        array = self.write(node.expressions[0], variables)
        function = node.expressions[1]
        if not pa.types.is_list(array.type):
            raise _refused(node, "its first argument is no array")

        own_name = f"x{len(variables)}"
        element = Term(exp.column(own_name, quoted=True), array.type.value_type)
        body = self.write(function.this, {**variables, variable_of(function): element})
        duck_lambda = exp.Lambda(
            this=body.sql if name == "transform" else _flag(node, body).sql,
            expressions=[exp.to_identifier(own_name, quoted=True)],
        )

        if name == "filter":
            return Term(_function("list_filter", array.sql, duck_lambda), array.type)
        results = _function("list_transform", array.sql, duck_lambda)
        if name == "transform":
            if body.type in (_NULL, _VARIANT_TYPE):
                raise _refused(node)
            return Term(results, pa.list_(body.type))
        wanted = name == "exists"
        return Term(_any_of(results, exp.Boolean(this=wanted), result=wanted), _FLAG)


def _double_of(text: str | None) -> str | None:
    number = spark_functions.to_double(text)
    return None if number is None else repr(number)


def _variant_type(path: tuple[str | int, ...], text: str | None) -> str | None:
    return spark_functions.variant_type(text, spark_functions.JsonPath(path))


def _json_object(path: tuple[str | int, ...], text: str | None) -> str | None:
    return spark_functions.get_json_object(text, spark_functions.JsonPath(path))


def _variant_like(node: exp.Expr, subject: Term, pattern: str, escape: str) -> Term:
    """Write ``LIKE`` of what ``schema_of_variant`` gives."""
    is_type = re.fullmatch(f"({_VARIANT_WORDS})%?", pattern) is not None
    if not is_type or type(node) is not exp.Like or escape != "\\":
        raise _refused(node, "compare schema_of_variant with the beginning of a type")
    if not pattern.endswith("%") and pattern not in _WHOLE_VARIANT_WORDS:
        raise _refused(node, f"write LIKE '{pattern}%'")
    return Term(_infix(exp.EQ, subject.sql, exp.Literal.string(pattern.rstrip("%"))), _FLAG)


def _variant_matches(node: exp.Expr, subject: Term, pattern: str) -> Term:
    """Write ``RLIKE`` of what ``schema_of_variant`` gives."""
    words = re.fullmatch(rf"\^\(((?:{_VARIANT_WORDS})(?:\|(?:{_VARIANT_WORDS}))*)\)", pattern)
    if not words:
        raise _refused(node, "compare schema_of_variant with ^(ONE_TYPE|ANOTHER)")
    names = list(map(exp.Literal.string, words[1].split("|")))
    return Term(_in(subject.sql, names), _FLAG)


# --- Functions and casts

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

_CAST_TYPES: Mapping[str, Kind] = {
    "BIGINT": _LONG,
    "BOOLEAN": _FLAG,
    "DATE": _DATE,
    "DOUBLE": _DOUBLE,
    "INT": _INT,
    "STRING": _TEXT,
    "TIMESTAMP": _TIME,
}
_SPARK_NAMES: Mapping[Kind, str] = {
    **{kind: name.lower() for name, kind in _CAST_TYPES.items()},
    _DURATION: "interval",
    _NULL: "void",
}
_SAFE_CASTS = frozenset(
    [
        (_INT, _LONG),
        (_INT, _DOUBLE),
        (_LONG, _DOUBLE),
        (_FLAG, _INT),
        (_FLAG, _LONG),
        (_INT, _TEXT),
        (_LONG, _TEXT),
        (_FLAG, _TEXT),
        (_TIME, _DATE),
        (_DATE, _TIME),
    ]
)


def _duckdb_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
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
            values = _unified(node, terms)
            return _applied("coalesce", values[0].type, *values)
        case "if", [test, _, _]:
            value, default = _unified(node, terms[1:])
            branches = [(_flag(node, test).sql, value.sql)]
            return Term(_case(branches, default.sql), value.type)
        case "nullif", [first, second]:
            same = _compared(node, exp.EQ, first, second)
            return Term(_case([(same.sql, _null(first.type).sql)], first.sql), first.type)

        case "isnull", [term]:
            return Term(_is_null(term.sql), _FLAG)
        case "isnotnull", [term]:
            return _not(Term(_is_null(term.sql), _FLAG))

        case "greatest" | "least", [_, _, *_]:
            values = _unified(node, terms)
            if values[0].type in (*_NUMBERS, _TEXT, *_TIMES):
                return _applied(name, values[0].type, *values)
    return None


def _text_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: C901, PLR0911, PLR0912 - a table
    """Write a function of a text, which is the first term but for ``locate``."""
    match name, terms:
        case "concat", [_, *_]:
            return _joined(node, terms)
        case "length" | "char_length", [Term(type=kind) as term] if kind == _TEXT:
            return _as_int(_function("length", term.sql))
        case "length" | "char_length", [Term(type=kind) as term] if kind == _BYTES:
            return _as_int(_function("octet_length", term.sql))
        case "contains" | "startswith" | "endswith", [_, _] if all(map(_is_text, terms)):
            duck = {"contains": "contains", "startswith": "starts_with", "endswith": "ends_with"}
            return _applied(duck[name], _FLAG, *_typed(terms, _TEXT))
        case "locate", [Term(value=str() as part) as sought, text] if part and _is_text(text):
            return _position(text, sought)

    if not terms or not _is_text(terms[0]):
        return None
    match name, terms:
        case "instr", [text, Term(value=str() as part) as sought] if part:
            return _position(text, sought)

        case "left" | "right", [text, count] if _is_index(count):
            return _applied(name, _TEXT, _as(text, _TEXT), count)
        case "substring" | "substr", [text, start, *count] if (
            len(count) <= 1 and _is_index(start) and start.value >= 1 and all(map(_is_index, count))
        ):
            return _applied("substring", _TEXT, _as(text, _TEXT), start, *count)
        case "trim" | "btrim" | "ltrim" | "rtrim", [text]:
            blank = exp.Literal.string(" ")
            return Term(_function(name.removeprefix("b"), _as(text, _TEXT).sql, blank), _TEXT)

        case "replace", [_, Term(value=str() as part), Term(value=str())] if part:
            return _applied("replace", _TEXT, *terms)
        case "split", [_, Term(value=str() as part)] if part:
            if not is_plain_text(part):
                raise _refused(node, "split by a regular expression")
            return _applied("string_split", pa.list_(_TEXT), *terms)
        case "split_part", [_, Term(value=str() as part), count] if part:
            if _is_index(count) and count.value >= 1:
                return _applied("split_part", _TEXT, *terms)

        case "md5", [text]:
            return _applied("md5", _TEXT, _as(text, _TEXT))
        case "sha2", [text, Term(value=256 | 0)]:
            return _applied("sha256", _TEXT, _as(text, _TEXT))
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
            return _as_int(_function("len", array.sql))
        case "array_contains", [array, value]:
            return _array_contains(node, array, value)
        case "get", [array, index] if _is_index(index):
            position = _literal_number(index.value + 1)
            return Term(_function("list_extract", array.sql, position), element_type)
        case "try_element_at", [array, index] if _is_index(index) and index.value >= 1:
            return _applied("list_extract", element_type, array, index)
    return None


def _map_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    kind = terms[0].type
    match name, terms:
        case "size" | "cardinality", [whole]:
            return _as_int(_function("cardinality", whole.sql))
        case "try_element_at" | "element_at", [whole, key]:
            return _of_map(node, whole, key)
        case "map_contains_key", [whole, Term(value=str()) as key] if kind.key_type == _TEXT:
            keys = _function("map_keys", whole.sql)
            has_key = _function("list_contains", keys, key.sql)
            return Term(_case([(_is_null(whole.sql), exp.Null())], has_key), _FLAG)
        case "map_keys", [whole]:
            return _applied("map_keys", pa.list_(kind.key_type), whole)
        case "map_values", [whole]:
            return _applied("map_values", pa.list_(kind.item_type), whole)
    return None


def _number_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:
    """Write a function of numbers."""
    match name, terms:
        case "abs", [Term(type=kind) as term] if kind in _NUMBERS:
            return _applied("abs", kind, term)
        case "mod", [first, second]:
            return _whole_division(node, exp.Mod, first, second)
        case "try_add" | "try_subtract" | "try_multiply", [first, second]:
            return _tried(node, name, first, second)
        case "try_divide", [_, _] if _kinds(terms) <= set(_NUMBERS):
            first, second = _typed(terms, _DOUBLE)
            is_zero = _infix(exp.EQ, second.sql, _as(_whole(0), _DOUBLE).sql)
            quotient = _infix(exp.Div, first.sql, second.sql)
            return Term(_case([(is_zero, exp.Null())], quotient), _DOUBLE)
    return None


def _time_call(_node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: PLR0911 - a table
    """Write a function of times or dates."""
    match name, terms:
        case _, [Term(type=kind) as time] if name in _PARTS_OF_TIME and kind in _TIMES:
            return _as_int(_function(name, _as(time, _TIME).sql))
        case "dayofweek", [Term(type=kind) as time] if kind in _TIMES:
            # DuckDB counts from Sunday as 0.
            return _as_int(_infix(exp.Add, _function("dayofweek", time.sql), _literal_number(1)))
        case "date_trunc", [Term(value=str() as unit), Term(type=kind) as time] if (
            unit.lower() in _TRUNCATED_TO and kind in _TIMES
        ):
            unit_name = exp.Literal.string(unit.lower())
            return Term(
                _cast(_function("date_trunc", unit_name, _as(time, _TIME).sql), _TIME), _TIME
            )

        case "date_add" | "date_sub", [Term(type=kind) as day, days] if kind in _TIMES:
            if days.type == _INT:
                operation = exp.Add if name == "date_add" else exp.Sub
                return Term(_infix(operation, _as(day, _DATE).sql, days.sql), _DATE)
        case "date_diff", [_, _] if _kinds(terms) <= set(_TIMES):
            end, start = _typed(terms, _DATE)
            return _as_int(_infix(exp.Sub, end.sql, start.sql))
        case "unix_seconds" | "unix_millis", [Term(type=kind) as time] if kind == _TIME:
            return _since_1970(time, 10**6 if name == "unix_seconds" else 10**3)
    return None


# --- Errors and types


def _refused(node: exp.Expr, why: str = "", *, is_whole_reason: bool = False) -> SqlError:
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
        return _TIME if kind.unit == "us" else kind
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


def _kinds(terms: Iterable[Term]) -> set[Kind]:
    return {term.type for term in terms}


def _is_text(term: Term) -> bool:
    return term.type in (_TEXT, _NULL)


def _is_index(term: Term) -> bool:
    return term.type == _INT and isinstance(term.value, int) and 0 <= term.value < 2**31 - 1


def _is_positive(term: Term) -> bool:
    return isinstance(term.value, int | float | Decimal) and term.value > 0


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _only(node: exp.Expr, arguments: Sequence[exp.Expr]) -> exp.Expr:
    if len(arguments) != 1:
        raise _refused(node, "it has one argument")
    return arguments[0]


def _path(node: exp.Expr, path: Term) -> tuple[str | int, ...]:
    steps = spark_functions.json_path(path.value) if isinstance(path.value, str) else None
    if steps is None:
        raise _refused(node, "a path of JSON with wildcards, or none like $.a.b[0]['c']")
    return steps.steps


def _in_python(node: exp.Expr, call: Callable[[str], str | None], text: str) -> str:
    try:
        return call(text) or ""
    except spark_functions.NeedsSparkError as error:
        raise _refused(node, str(error)) from error


# --- Expressions of DuckDB


def _duck_type(kind: Kind) -> exp.DataType:
    return exp.DataType.build(_NAMES[kind], dialect="duckdb")


def _duck_decimal(scale: int) -> exp.DataType:
    return exp.DataType.build(f"DECIMAL(38, {scale})", dialect="duckdb")


def _cast(sql: exp.Expr, kind: Kind) -> exp.Expr:
    return exp.Cast(this=sql, to=_duck_type(kind))


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _infix(kind: type[exp.Expr], first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=first, expression=second))


def _is_null(sql: exp.Expr) -> exp.Expr:
    return _infix(exp.Is, sql, exp.Null())


def _in(value: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.In(this=value, expressions=list(values)))


def _case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> exp.Expr:
    ifs = [exp.If(this=test, true=value) for test, value in branches]
    return exp.Case(ifs=ifs, default=default)


def _failure(text: str) -> exp.Expr:
    return _function("error", exp.Literal.string(f"{FAILURE_MARK}{text}"))


def _balanced(kind: type[exp.Expr], parts: list[exp.Expr]) -> exp.Expr:
    """Join *parts* by an operator as a tree of little depth: a long chain would be too deep."""
    while len(parts) > 1:
        joined = []
        for position in range(0, len(parts), 2):
            pair = parts[position : position + 2]
            joined.append(_infix(kind, *pair) if len(pair) > 1 else pair[0])
        parts = joined
    return parts[0]


def _once(value: exp.Expr, use: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Write what *use* makes of *value*, so that DuckDB evaluates *value* once."""
    name = exp.to_identifier("v", quoted=True)
    body = exp.Lambda(this=use(exp.column("v", quoted=True)), expressions=[name])
    results = _function("list_transform", _function("list_value", value), body)
    return _function("list_extract", results, _literal_number(1))


def _any_of(flags: exp.Expr, wanted: exp.Expr, *, result: bool) -> exp.Expr:
    """Return *result* where *wanted* is among *flags*, else NULL where NULL is, else the other."""

    def among(values: exp.Expr) -> exp.Expr:
        has_null = _infix(exp.GT, _function("len", values), _function("list_count", values))
        branches = [
            (_is_null(values), exp.Null()),
            (_function("list_contains", values, wanted), exp.Boolean(this=result)),
            (has_null, exp.Null()),
        ]
        return _case(branches, exp.Boolean(this=not result))

    return _once(flags, among)


# --- Literals


def _null(kind: Kind) -> Term:
    return Term(_cast(exp.Null(), kind) if kind in _NAMES else exp.Null(), kind)


def _text(node: exp.Expr, text: str) -> Term:
    if "\0" in text:
        raise _refused(node, "a text with a character of code 0")
    # Without the cast it would be a literal of any type, and DuckDB would convert it.
    return Term(_cast(exp.Literal.string(text), _TEXT), _TEXT, value=text)


def _number(node: exp.Expr) -> Term:
    value = number(node)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return _double(value)

    scale = max(0, -int(value.as_tuple().exponent))
    if scale > _MOST_SCALE or abs(value) >= 10**18:
        raise _refused(node, "a number with too many digits")
    literal = exp.Literal.string(format(value, "f"))
    sql = exp.Cast(this=literal, to=_duck_decimal(scale))
    return Term(sql, pa.decimal128(38, scale), value=value)


def _whole(value: int, kind: Kind | None = None) -> Term:
    if kind is None:
        least, most = _BOUNDS[_INT]
        kind = _INT if least <= value <= most else _LONG
    if not -(2**63) <= value < 2**63:
        raise InputError(f"{value}: is too large")
    return Term(_cast(exp.Literal.string(str(value)), kind), kind, value=value)


def _double(value: float) -> Term:
    return Term(_cast(exp.Literal.string(repr(value)), _DOUBLE), _DOUBLE, value=value)


def _literal_number(value: int) -> exp.Expr:
    return _whole(value).sql


def _interval(node: exp.Expr) -> Term:
    count, unit = interval_of(node)
    if unit not in _MICROSECONDS:
        raise _refused(node, "an interval here is of days, hours, minutes or seconds")
    return _whole(count * _MICROSECONDS[unit], _DURATION)


def _fixed_time(node: exp.Expr, text: str, kind: Kind) -> Term:
    parts = _CLOCK.fullmatch(text)
    if parts is None or (kind == _DATE and parts[4]):
        raise _refused(node, "a fixed time is written 2026-11-30 10:00:00Z")

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
        raise _refused(node, "there is no such time") from error

    return _time(time.date() if kind == _DATE else time, kind)


def _time(value: date | datetime, kind: Kind) -> Term:
    text = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return Term(_cast(exp.Literal.string(text), kind), kind)


# --- Terms made of terms


def _sqls(terms: Iterable[Term]) -> list[exp.Expr]:
    return [term.sql for term in terms]


def _applied(name: str, kind: Kind, *terms: Term) -> Term:
    """Call a function of DuckDB, whose result has the type *kind* in Spark."""
    return Term(_function(name, *_sqls(terms)), kind)


def _as(term: Term, kind: Kind) -> Term:
    return term if term.type == kind else Term(_cast(term.sql, kind), kind)


def _as_int(sql: exp.Expr) -> Term:
    """Write a BIGINT of DuckDB as the INT that it is in Spark."""
    return Term(_cast(sql, _INT), _INT)


def _typed(terms: Iterable[Term], kind: Kind) -> list[Term]:
    return [_as(term, kind) for term in terms]


def _required(node: exp.Expr, term: Term, kind: Kind) -> Term:
    if term.type not in (kind, _NULL):
        raise _refused(node, f"{spark_name(term.type)} where {spark_name(kind)} is expected")
    return _as(term, kind)


def _flag(node: exp.Expr, term: Term) -> Term:
    if term.type not in (_FLAG, _NULL):
        raise _refused(node, f"{spark_name(term.type)} where a condition is expected")
    return _as(term, _FLAG)


def _not(term: Term) -> Term:
    return Term(exp.Paren(this=exp.Not(this=exp.Paren(this=term.sql))), _FLAG)


def _negated(node: exp.Expr, term: Term) -> Term:
    return _not(term) if node.args.get("negate") or isinstance(node, NEGATED) else term


def _has_match(subject: Term, expression: str) -> Term:
    return Term(_function("regexp_matches", subject.sql, exp.Literal.string(expression)), _FLAG)


def _field(node: exp.Expr, term: Term, name: str) -> Term:
    if not pa.types.is_struct(term.type):
        raise _refused(node, f"{name} of what is no struct")
    fields = [field for field in term.type if field.name.lower() == name.lower()]
    if len(fields) != 1:
        raise SqlError(f"{shown(node)}: there is no field {name}", "a field that is not there")
    sql = _function("struct_extract", term.sql, exp.Literal.string(fields[0].name))
    return Term(sql, fields[0].type)


def _of_map(node: exp.Expr, whole: Term, key: Term) -> Term:
    if whole.type.key_type != _TEXT or key.type != _TEXT:
        raise _refused(node, "a map whose keys are no texts")
    return _applied("map_extract_value", whole.type.item_type, whole, key)


def _array_contains(node: exp.Expr, array: Term, value: Term) -> Term:
    kind = array.type.value_type
    if kind not in (_TEXT, *_WHOLE) or value.type != kind:
        raise _refused(node, "a value of another type than the elements")
    contains = _any_of(array.sql, value.sql, result=True)
    return Term(_case([(_is_null(value.sql), exp.Null())], contains), _FLAG)


def _time_text(term: Term) -> Term:
    low = _time(datetime(1, 1, 1), _TIME).sql  # noqa: DTZ001
    high = _time(datetime(9999, 12, 31), _TIME).sql  # noqa: DTZ001
    time = _as(term, _TIME).sql
    is_usual = _infix(exp.And, _infix(exp.GTE, time, low), _infix(exp.LTE, time, high))
    branches = [(_is_null(time), _null(_TEXT).sql), (is_usual, _as(term, _TEXT).sql)]
    return Term(_case(branches, _failure("a time outside of the years 1 to 9999")), _TEXT)


def _compared(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    if _VARIANT_TYPE in (first.type, second.type):
        return _compared_word(node, operator, first, second)
    terms = _alike(node, first, second)
    return Term(_infix(operator, *_sqls(terms)), _FLAG)


def _compared_word(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    is_word = second.value in _WHOLE_VARIANT_WORDS
    if not is_word or operator not in (exp.EQ, exp.NEQ, exp.NullSafeEQ):
        raise _refused(node, "compare schema_of_variant with one type, or by LIKE 'OBJECT%'")
    return Term(_infix(operator, first.sql, second.sql), _FLAG)


def _alike(node: exp.Expr, first: Term, second: Term) -> list[Term]:
    """Return two terms of one type whose comparison is Spark's."""
    terms = [first, second]
    kinds = _kinds(terms)
    if _TEXT in kinds and not kinds.isdisjoint(_TIMES):
        [time_kind] = kinds - {_TEXT}
        terms = [_as_time(node, term, time_kind) for term in terms]
        kinds = _kinds(terms)

    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    if scales and _DOUBLE in kinds:
        terms = _without_decimals(terms)
    elif scales and all(kind in _WHOLE or pa.types.is_decimal(kind) for kind in kinds):
        scale = max(scales)
        kind = pa.decimal128(38, scale)
        return [Term(exp.Cast(this=term.sql, to=_duck_decimal(scale)), kind) for term in terms]

    unified = _unified(node, terms)
    if unified[0].type not in (*_COMPARED, _NULL):
        raise _refused(node, f"a comparison of {spark_name(unified[0].type)}")
    return unified


def _as_time(node: exp.Expr, term: Term, kind: Kind) -> Term:
    """Write a fixed text as the time that it means; other terms stay."""
    return _fixed_time(node, term.value, kind) if isinstance(term.value, str) else term


def _without_decimals(terms: Iterable[Term]) -> list[Term]:
    """Write fixed decimals as doubles; other terms stay."""
    doubles = []
    for term in terms:
        is_decimal = isinstance(term.value, Decimal)
        doubles.append(_double(float(term.value)) if is_decimal else term)
    return doubles


def _unified(node: exp.Expr, terms: Sequence[Term]) -> list[Term]:
    """Return *terms* in the one type that they have together."""
    kinds = _kinds(terms) - {_NULL}
    if _VARIANT_TYPE in kinds or any(map(pa.types.is_decimal, kinds)):
        raise _refused(node, "values of these types together")

    if len(kinds) <= 1:
        kind = next(iter(kinds), _NULL)
    elif kinds <= set(_NUMBERS):
        kind = _DOUBLE if _DOUBLE in kinds else _LONG
    elif kinds == set(_TIMES):
        kind = _TIME
    else:
        names = " and ".join(sorted(map(spark_name, kinds)))
        raise _refused(node, f"{names} together")

    if kind in _NAMES:
        return _typed(terms, kind)
    # DuckDB's NULL without a type suits any.
    if _NULL in _kinds(terms):
        return [Term(term.sql, kind) for term in terms]
    return list(terms)


def _is(node: exp.Expr, subject: Term, value: Term) -> Term:
    if value.type == _NULL:
        return Term(_is_null(subject.sql), _FLAG)
    return Term(_infix(exp.NullSafeEQ, _flag(node, subject).sql, value.sql), _FLAG)


def _joined(node: exp.Expr, terms: Sequence[Term]) -> Term:
    texts = [_required(node, term, _TEXT).sql for term in terms]
    return Term(_balanced(exp.DPipe, texts), _TEXT)


def _negative(node: exp.Expr, term: Term) -> Term:
    if term.type not in (*_NUMBERS, _DURATION):
        raise _refused(node)
    if term.type == _DOUBLE:
        return Term(exp.Paren(this=exp.Neg(this=exp.Paren(this=term.sql))), _DOUBLE)
    # The negation of DuckDB does not fail where the type has no such number.
    return Term(_infix(exp.Sub, _whole(0, term.type).sql, term.sql), term.type)


def _arithmetic(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    """Write ``+``, ``-`` or ``*``."""
    kinds = (first.type, second.type)
    if operator is exp.Mul and _DURATION in kinds:
        return _multiplied_duration(node, first, second)
    if kinds == (_TIME, _DURATION):
        return _moved(first, operator, second)
    if kinds == (_DURATION, _TIME) and operator is exp.Add:
        return _moved(second, operator, first)
    if kinds == (_TIME, _TIME) and operator is exp.Sub:
        return Term(_infix(exp.Sub, _microseconds(first), _microseconds(second)), _DURATION)
    if kinds == (_DURATION, _DURATION):
        return Term(_infix(operator, first.sql, second.sql), _DURATION)

    first, second = _numbers(node, first, second)
    return Term(_infix(operator, first.sql, second.sql), first.type)


def _multiplied_duration(node: exp.Expr, first: Term, second: Term) -> Term:
    if first.type not in (_DURATION, *_WHOLE) or second.type not in (_DURATION, *_WHOLE):
        raise _refused(node)
    if first.type == second.type:
        raise _refused(node)
    return Term(_infix(exp.Mul, _cast(first.sql, _LONG), _cast(second.sql, _LONG)), _DURATION)


def _numbers(node: exp.Expr, first: Term, second: Term) -> list[Term]:
    terms = [first, second]
    if _DOUBLE in _kinds(terms):
        terms = _without_decimals(terms)
    if not _kinds(terms) <= set(_NUMBERS):
        raise _refused(node)
    return _unified(node, terms)


def _microseconds(time: Term) -> exp.Expr:
    return _function("epoch_us", time.sql)


def _moved(time: Term, operator: type[exp.Expr], length: Term) -> Term:
    moved = _infix(operator, _microseconds(time), length.sql)
    return Term(_function("make_timestamp", moved), _TIME)


def _divided(node: exp.Expr, first: Term, second: Term) -> Term:
    is_decimal_of_whole = isinstance(second.value, Decimal) and first.type != _DOUBLE
    if first.type not in _NUMBERS or not _is_positive(second) or is_decimal_of_whole:
        raise _refused(node, "a division by what is no fixed whole number above 0; see try_divide")
    divisor = _double(float(second.value)).sql
    return Term(_infix(exp.Div, _as(first, _DOUBLE).sql, divisor), _DOUBLE)


def _whole_division(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    if first.type not in _WHOLE or second.type not in _WHOLE or not _is_positive(second):
        raise _refused(node, "a division by what is no fixed whole number above 0")
    first, second = _unified(node, [first, second])
    result = Term(_infix(operator, first.sql, second.sql), first.type)
    return _as(result, _LONG) if operator is exp.IntDiv else result


def _tried(node: exp.Expr, name: str, first: Term, second: Term) -> Term:
    """Write ``try_add`` and its like: exact in a wider type, and NULL where that does not fit."""
    if first.type not in _WHOLE or second.type not in _WHOLE:
        raise _refused(node, "it is of whole numbers here")
    first, second = _unified(node, [first, second])

    operator = {"try_add": exp.Add, "try_subtract": exp.Sub, "try_multiply": exp.Mul}[name]
    wide = exp.DataType.build("HUGEINT", dialect="duckdb")
    exact = _infix(operator, exp.Cast(this=first.sql, to=wide), exp.Cast(this=second.sql, to=wide))
    return Term(exp.TryCast(this=exact, to=_duck_type(first.type)), first.type)


def _position(text: Term, part: Term) -> Term:
    return _as_int(_function("instr", _as(text, _TEXT).sql, part.sql))


def _since_1970(time: Term, unit: int) -> Term:
    """Count whole units, rounded down: DuckDB rounds towards 0."""
    micros = _microseconds(time)
    size = _literal_number(unit)
    rest = _infix(exp.Mod, _infix(exp.Add, _infix(exp.Mod, micros, size), size), size)
    return Term(_infix(exp.IntDiv, _infix(exp.Sub, micros, rest), size), _LONG)
