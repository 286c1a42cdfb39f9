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
from collections.abc import Callable, Mapping, Sequence
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
    WHERE,
    checked,
    fixed_text,
    interval_of,
    naming,
    number,
    parts_of,
    shown,
    type_name,
    variable_of,
)
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
"""What the text of an error begins with that an expression raises by itself. It quotes no value."""

_VARIANT_TYPE = pa.large_string()
"""The type of what ``schema_of_variant`` names: its first word alone is known here."""

_TIME = pa.timestamp("us")
_NAMES: Mapping[Kind, str] = {
    pa.null(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    _VARIANT_TYPE: "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    _TIME: "TIMESTAMP",
    pa.duration("us"): "BIGINT",
}
"""The types that values have, and those of DuckDB. A duration is its microseconds, as in Spark."""

_WHOLE = (pa.int32(), pa.int64())
_NUMBERS = (*_WHOLE, pa.float64())
_TEXT = pa.string()
_FLAG = pa.bool_()
_DURATION = pa.duration("us")
_COMPARED = (_FLAG, *_NUMBERS, _TEXT, pa.binary(), pa.date32(), _TIME, _DURATION)
_BOUNDS = {pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1)}
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
        growth: at most so many bytes are made of each byte of a row; see ``_growth``.
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
    writer = _Writer(
        {name.lower(): (place, name) for place, name in enumerate(schema.names)}, schema
    )
    try:
        term = writer.write(tree, {})
        if term.type == _VARIANT_TYPE:
            raise _refused(tree, "compare what schema_of_variant gives with a type's name")
        if as_text:
            term = writer.cast(tree, term, "STRING")
        text = term.sql.sql(dialect="duckdb")
    except RecursionError as error:
        raise InputError("is nested too deeply") from error
    return DuckSql(text, term.type, tuple(writer.columns), writer.functions, growth)


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
            raise _refused(node, "so many texts made of one; shorten them first: left(body, n)")
    return growth


def _factor(node: exp.Expr) -> int:
    if isinstance(node, exp.DPipe):
        return 1
    if not isinstance(node, exp.Anonymous):
        return 0
    name = node.name.lower()
    if name == "replace" and len(node.expressions) == 3:  # noqa: PLR2004
        found, replacement = (fixed_text(part) or "" for part in node.expressions[1:])
        return max(1, len(replacement.encode()) // max(1, len(found.encode())))
    return _GROWING.get(name, 0)


def _size(node: exp.Expr) -> int:
    """Return how many bytes the value of *node* has, at most, for each byte of a row."""
    if isinstance(node, exp.Column | exp.Identifier):
        return 1
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
        return 0
    parts = node.iter_expressions()
    return sum(_size(part) for part in parts) * max(1, _factor(node))


_Variables = Mapping[str, Term]


@dataclass(slots=True)
class _Writer:
    known: Mapping[str, tuple[int, str]]
    schema: pa.Schema
    columns: list[str] = field(default_factory=list)
    functions: dict[str, PythonFunction] = field(default_factory=dict)

    def write(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911, PLR0912
        match node:
            case exp.Paren():
                return self.write(node.this, variables)
            case exp.Null():
                return _null(pa.null())
            case exp.Boolean():
                return Term(exp.Boolean(this=bool(node.this)), _FLAG, value=bool(node.this))
            case exp.RawString() | exp.Literal(is_string=True):
                return _text(node, node.name)
            case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
                return _number(node)
            case exp.Identifier():
                return self._named(node.name, variables)
            case exp.Column():
                first, *names = [part.name for part in node.parts]
                term = self._named(first, variables)
                for name in names:
                    term = _field(node, term, name)
                return term
            case exp.Dot():
                return _field(node, self.write(node.this, variables), node.expression.name)
            case exp.Bracket():
                return self._element(node, variables)
            case exp.Anonymous():
                return self._call(node, variables)
            case exp.Cast():
                return self.cast(node, self.write(node.this, variables), type_name(node))
            case exp.Interval():
                count, unit = interval_of(node)
                if unit not in _MICROSECONDS:
                    raise _refused(node, "an interval here is of days, hours, minutes or seconds")
                return _whole(count * _MICROSECONDS[unit], _DURATION)
            case exp.Case():
                return self._case(node, variables)
            case exp.And() | exp.Or():
                terms = [
                    _flag(operand, self.write(operand, variables))
                    for operand in node.flatten(unnest=False)
                ]
                return Term(_balanced(type(node), [term.sql for term in terms]), _FLAG)
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

    def _named(self, name: str, variables: _Variables) -> Term:
        if name.lower() in variables:
            return variables[name.lower()]
        position, column = self.known[name.lower()]
        if column not in self.columns:
            self.columns.append(column)
        sql = exp.column(f"c{self.columns.index(column)}", quoted=True)
        return Term(sql, plain_type(self.schema.field(position).type))

    def _python(self, name: str, call: Callable[[Any], Any], term: Term, gives: Kind) -> Term:
        """Call a function in Python. Each function of one expression has a name of its own."""
        takes = _NAMES[term.type]
        result = f"{_NAMES[gives.value_type]}[]" if pa.types.is_list(gives) else _NAMES[gives]
        function = PythonFunction(call, takes, result)
        own = f"{name}_{len(self.functions)}"
        self.functions[own] = function
        return Term(_function(own, term.sql), gives)

    def _element(self, node: exp.Expr, variables: _Variables) -> Term:
        whole, key = (self.write(part, variables) for part in parts_of(node, "this", "expressions"))
        if pa.types.is_map(whole.type):
            return _of_map(node, whole, key)
        if pa.types.is_struct(whole.type) and isinstance(key.value, str):
            return _field(node, whole, key.value)
        if not pa.types.is_list(whole.type) or not _is_index(key):
            raise _refused(node, _RISKY_ELEMENT)
        index = _literal_number(key.value + 1)
        failure = _failure(f"there is no element {key.value}; {_RISKY_ELEMENT}")

        def element(array: exp.Expr) -> exp.Expr:
            is_null = _infix(exp.Is, array, exp.Null())
            has_it = _infix(exp.GT, _function("len", array), _literal_number(key.value))
            found = _function("list_extract", array, index)
            return _case([(is_null, exp.Null()), (has_it, found)], failure)

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
        values.append(self.write(default, variables) if default else _null(pa.null()))
        *branches, last = _unified(node, values)
        pairs = [(test, value.sql) for test, value in zip(tests, branches, strict=True)]
        return Term(_case(pairs, last.sql), last.type)

    def _like(self, node: exp.Expr, variables: _Variables, escape: str) -> Term:
        subject = self.write(node.this, variables)
        is_null = isinstance(_inner(node.expression), exp.Null)
        pattern = fixed_text(node.expression) or ""
        if is_null:
            return _negated(node, _null(_FLAG))
        if subject.type == _VARIANT_TYPE:
            word = re.fullmatch(f"({_VARIANT_WORDS})%?", pattern)
            if not word or type(node) is not exp.Like or escape != "\\":
                raise _refused(node, "compare schema_of_variant with the beginning of a type")
            if not pattern.endswith("%") and pattern not in _WHOLE_VARIANT_WORDS:
                raise _refused(node, f"write LIKE '{pattern}%'")
            same = _infix(exp.EQ, subject.sql, exp.Literal.string(pattern.rstrip("%")))
            return _negated(node, Term(same, _FLAG))
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
        return _negated(node, _found(subject, expression))

    def _matches(
        self, node: exp.Expr, variables: _Variables, subject_node: exp.Expr, pattern: exp.Expr
    ) -> Term:
        subject = self.write(subject_node, variables)
        text = fixed_text(pattern)
        if isinstance(_inner(pattern), exp.Null):
            return _negated(node, _null(_FLAG))
        if subject.type == _VARIANT_TYPE:
            words = re.fullmatch(
                rf"\^\(((?:{_VARIANT_WORDS})(?:\|(?:{_VARIANT_WORDS}))*)\)", text or ""
            )
            if not words:
                raise _refused(node, "compare schema_of_variant with ^(ONE_TYPE|ANOTHER)")
            names = [exp.Literal.string(word) for word in words[1].split("|")]
            return _negated(node, Term(_in(subject.sql, names), _FLAG))
        subject = _required(node, subject, _TEXT)
        try:
            expression = to_re2(text or "")
        except UntranslatableError as error:
            raise _refused(node, f"in the pattern, {error}") from error
        return _negated(node, _found(subject, expression))

    def _operation(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911
        operands = [
            self.write(part, variables)
            for part in parts_of(node, "this", "expression", "expressions", "low", "high")
        ]
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

    def cast(self, node: exp.Expr, term: Term, target: str) -> Term:  # noqa: C901, PLR0911, PLR0912
        is_try = isinstance(node, exp.TryCast)
        wanted = _CAST_TYPES.get(target)
        source = term.type
        if wanted is None or source == _VARIANT_TYPE:
            raise _refused(node, f"a cast to {target.lower()}")
        if source == pa.null():
            return _null(wanted)
        if source == wanted:
            return replace(term, value=None)
        if source == _TEXT and wanted in (pa.date32(), _TIME) and isinstance(term.value, str):
            return _fixed_time(node, term.value, wanted)
        if source == _TEXT and wanted in (*_NUMBERS, _FLAG):
            if not is_try:
                raise _refused(node, _TRY, is_whole_reason=True)
            if wanted in _WHOLE:
                least, most = _BOUNDS[wanted]
                call = partial(spark_functions.to_integer, least=least, most=most)
                return self._python("to_integer", call, term, wanted)
            if wanted == _FLAG:
                return self._python("to_boolean", spark_functions.to_boolean, term, wanted)
            # As a text: DuckDB takes a NaN of Python for NULL.
            return _as(self._python("to_double", _double_of, term, _TEXT), wanted)
        if isinstance(term.value, Decimal) and wanted in (_TEXT, pa.float64()):
            value = term.value
            return _double(float(value)) if wanted != _TEXT else _text(node, format(value, "f"))
        if wanted == _TEXT and source == pa.float64():
            return self._python("double_text", spark_functions.double_text, term, _TEXT)
        if wanted == _TEXT and source in (_TIME, pa.date32()):
            return _time_text(term)
        if wanted == pa.int32() and source == pa.int64():
            name = "TRY_CAST" if is_try else "CAST"
            kind = exp.TryCast if name == "TRY_CAST" else exp.Cast
            return Term(kind(this=term.sql, to=_duck_type(wanted)), wanted)
        if wanted == _FLAG and source in _WHOLE:
            return Term(_infix(exp.NEQ, term.sql, _literal_number(0)), _FLAG)
        if (source, wanted) in _SAFE_CASTS:
            return _as(term, wanted)
        raise _refused(node, f"a cast of {spark_name(source)} to {target.lower()}")

    def _call(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911, PLR0912
        name = node.name.lower()
        if name not in EQUAL:
            raise _refused(node)
        if name in LAMBDAS:
            return self._lambda_call(node, variables)
        nodes = node.expressions
        if name in ("schema_of_variant", "is_variant_null"):
            json, steps = self._variant(node, _only(node, nodes), variables)
            kind = self._python("variant_type", partial(_variant_type, steps), json, _TEXT)
            if name == "schema_of_variant":
                return replace(kind, type=_VARIANT_TYPE)
            # NULL is a value of the variant itself, and no variant is none.
            is_void = _infix(exp.NullSafeEQ, kind.sql, exp.Literal.string("VOID"))
            return Term(is_void, _FLAG)
        if name == "regexp_like":
            if len(nodes) != 2:  # noqa: PLR2004 - text, pattern
                raise _refused(node)
            return self._matches(node, variables, *nodes)
        terms = [self.write(argument, variables) for argument in nodes]
        if any(term.type == _VARIANT_TYPE for term in terms):
            raise _refused(node, "a function of what schema_of_variant gives")
        match name, terms:
            case "get_json_object", [text, path]:
                read = partial(_json_object, _path(node, path))
                return self._python("json", read, _required(node, text, _TEXT), _TEXT)
            case "json_array_length", [text]:
                count = spark_functions.json_array_length
                return self._python("json", count, _required(node, text, _TEXT), pa.int32())
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
        written = _simple_call(node, name, terms)
        if written is None:
            raise _refused(node)
        return written

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
        own = f"x{len(variables)}"
        element = Term(exp.column(own, quoted=True), array.type.value_type)
        body = self.write(function.this, {**variables, variable_of(function): element})
        lambda_of = exp.Lambda(
            this=body.sql if name == "transform" else _flag(node, body).sql,
            expressions=[exp.to_identifier(own, quoted=True)],
        )
        if name == "filter":
            return Term(_function("list_filter", array.sql, lambda_of), array.type)
        results = _function("list_transform", array.sql, lambda_of)
        if name == "transform":
            if body.type in (pa.null(), _VARIANT_TYPE):
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
    "BIGINT": pa.int64(),
    "BOOLEAN": _FLAG,
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "INT": pa.int32(),
    "STRING": _TEXT,
    "TIMESTAMP": _TIME,
}
_SAFE_CASTS = frozenset(
    [
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.int64(), pa.float64()),
        (_FLAG, pa.int32()),
        (_FLAG, pa.int64()),
        (pa.int32(), _TEXT),
        (pa.int64(), _TEXT),
        (_FLAG, _TEXT),
        (_TIME, pa.date32()),
        (pa.date32(), _TIME),
    ]
)


def _simple_call(node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Write a call that is one expression of DuckDB; None for arguments that are not known here."""
    texts = [term.type == _TEXT or term.type == pa.null() for term in terms]
    match name, terms:
        case "coalesce", [_, *_]:
            values = _unified(node, terms)
            return Term(_function("coalesce", *_sqls(values)), values[0].type)
        case "ifnull" | "nvl", [_, _]:
            values = _unified(node, terms)
            return Term(_function("coalesce", *_sqls(values)), values[0].type)
        case "if", [test, _, _]:
            values = _unified(node, terms[1:])
            branches = [(_flag(node, test).sql, values[0].sql)]
            return Term(_case(branches, values[1].sql), values[0].type)
        case "nullif", [first, second]:
            same = _compared(node, exp.EQ, first, second)
            return Term(_case([(same.sql, _null(first.type).sql)], first.sql), first.type)
        case "isnull" | "isnotnull", [term]:
            is_null = Term(_infix(exp.Is, term.sql, exp.Null()), _FLAG)
            return is_null if name == "isnull" else _not(is_null)
        case "concat", [_, *_]:
            return _joined(node, terms)
        case "length" | "char_length", [Term(type=kind) as term] if kind in (_TEXT, pa.binary()):
            length = "length" if kind == _TEXT else "octet_length"
            return _as(Term(_function(length, term.sql), pa.int64()), pa.int32())
        case "contains" | "startswith" | "endswith", [_, _] if all(texts):
            duck = {"contains": "contains", "startswith": "starts_with", "endswith": "ends_with"}
            return Term(_function(duck[name], *_sqls(_typed(terms, _TEXT))), _FLAG)
        case "instr", [text, Term(value=str() as part)] if part and texts[0]:
            return _position(text, terms[1])
        case "locate", [Term(value=str() as part), text] if part and texts[1]:
            return _position(text, terms[0])
        case "left" | "right", [text, count] if texts[0] and _is_index(count):
            return Term(_function(name, *_sqls([_as(text, _TEXT), count])), _TEXT)
        case "substring" | "substr", [text, start, *count] if (
            texts[0] and _is_index(start) and start.value >= 1 and all(map(_is_index, count))
        ):
            if len(count) > 1:
                return None
            arguments = [_as(text, _TEXT), start, *count]
            return Term(_function("substring", *_sqls(arguments)), _TEXT)
        case "trim" | "btrim" | "ltrim" | "rtrim", [text] if texts[0]:
            duck_name = name.removeprefix("b")
            blank = exp.Literal.string(" ")
            return Term(_function(duck_name, _as(text, _TEXT).sql, blank), _TEXT)
        case "replace", [text, Term(value=str() as part), Term(value=str())] if part and texts[0]:
            return Term(_function("replace", *_sqls(terms)), _TEXT)
        case "split", [text, Term(value=str() as part)] if part and texts[0]:
            if not is_plain_text(part):
                raise _refused(node, "split by a regular expression")
            return Term(_function("string_split", *_sqls(terms)), pa.list_(_TEXT))
        case "split_part", [text, Term(value=str() as part), count] if part and texts[0]:
            if not _is_index(count) or count.value < 1:
                return None
            return Term(_function("split_part", *_sqls(terms)), _TEXT)
        case "md5", [text] if texts[0]:
            return Term(_function("md5", _as(text, _TEXT).sql), _TEXT)
        case "sha2", [text, Term(value=256 | 0)] if texts[0]:
            return Term(_function("sha256", _as(text, _TEXT).sql), _TEXT)
        case "size" | "cardinality", [Term(type=kind) as term]:
            if not pa.types.is_list(kind) and not pa.types.is_map(kind):
                return None
            length = "len" if pa.types.is_list(kind) else "cardinality"
            return _as(Term(_function(length, term.sql), pa.int64()), pa.int32())
        case "array_contains", [Term(type=kind) as array, value] if pa.types.is_list(kind):
            return _array_contains(node, array, value)
        case "get", [Term(type=kind) as array, index] if pa.types.is_list(kind):
            if not _is_index(index):
                return None
            return Term(_at(array, _literal_number(index.value + 1)), kind.value_type)
        case "try_element_at", [Term(type=kind) as array, index] if pa.types.is_list(kind):
            if not _is_index(index) or index.value < 1:
                return None
            return Term(_at(array, index.sql), kind.value_type)
        case "try_element_at" | "element_at", [Term(type=kind) as one, key] if pa.types.is_map(
            kind
        ):
            return _of_map(node, one, key)
        case "map_contains_key", [Term(type=kind) as one, Term(value=str()) as key] if (
            pa.types.is_map(kind) and kind.key_type == _TEXT
        ):
            keys = _function("map_keys", one.sql)
            has_key = _function("list_contains", keys, key.sql)
            return Term(_case([(_infix(exp.Is, one.sql, exp.Null()), exp.Null())], has_key), _FLAG)
        case "map_keys", [Term(type=kind) as one] if pa.types.is_map(kind):
            return Term(_function("map_keys", one.sql), pa.list_(kind.key_type))
        case "map_values", [Term(type=kind) as one] if pa.types.is_map(kind):
            return Term(_function("map_values", one.sql), pa.list_(kind.item_type))
        case "greatest" | "least", [_, _, *_]:
            values = _unified(node, terms)
            if values[0].type not in (*_NUMBERS, _TEXT, _TIME, pa.date32()):
                return None
            return Term(_function(name, *_sqls(values)), values[0].type)
        case "abs", [Term(type=kind) as term] if kind in _NUMBERS:
            return Term(_function("abs", term.sql), kind)
        case "mod", [first, second]:
            return _whole_division(node, exp.Mod, first, second)
        case "try_add" | "try_subtract" | "try_multiply", [first, second]:
            return _tried(node, name, first, second)
        case "try_divide", [first, second] if {first.type, second.type} <= set(_NUMBERS):
            doubles = [_as(term, pa.float64()).sql for term in terms]
            is_zero = _infix(exp.EQ, doubles[1], _as(_whole(0), pa.float64()).sql)
            quotient = _infix(exp.Div, *doubles)
            return Term(_case([(is_zero, exp.Null())], quotient), pa.float64())
        case _, [Term(type=kind) as time] if name in _PARTS_OF_TIME and kind in (
            _TIME,
            pa.date32(),
        ):
            field_of = _function(name, _as(time, _TIME).sql)
            return _as(Term(field_of, pa.int64()), pa.int32())
        case "dayofweek", [Term(type=kind) as time] if kind in (_TIME, pa.date32()):
            from_1 = _infix(exp.Add, _function("dayofweek", time.sql), _literal_number(1))
            return _as(Term(from_1, pa.int64()), pa.int32())
        case "date_trunc", [Term(value=str() as unit), Term(type=kind) as time]:
            if unit.lower() not in _TRUNCATED_TO or kind not in (_TIME, pa.date32()):
                return None
            unit_name = exp.Literal.string(unit.lower())
            truncated = _function("date_trunc", unit_name, _as(time, _TIME).sql)
            return _as(Term(truncated, pa.null()), _TIME)
        case "date_add" | "date_sub", [Term(type=kind) as day, days] if kind in (
            pa.date32(),
            _TIME,
        ):
            if days.type != pa.int32():
                return None
            operation = exp.Add if name == "date_add" else exp.Sub
            return Term(_infix(operation, _as(day, pa.date32()).sql, days.sql), pa.date32())
        case "date_diff", [Term(type=kind), Term(type=other)]:
            if not {kind, other} <= {pa.date32(), _TIME}:
                return None
            dates = [_as(term, pa.date32()).sql for term in terms]
            return _as(Term(_infix(exp.Sub, *dates), pa.int64()), pa.int32())
        case "unix_seconds" | "unix_millis", [Term(type=kind) as time] if kind == _TIME:
            return _since_1970(time, 10**6 if name == "unix_seconds" else 10**3)
    return None


def _refused(node: exp.Expr, why: str = "", *, is_whole_reason: bool = False) -> SqlError:
    reason = f"{NEEDS_SPARK}: {why}" if why and not is_whole_reason else why or NEEDS_SPARK
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
        return pa.struct([(one.name, plain_type(one.type)) for one in kind])
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
    names = {value: name.lower() for name, value in _CAST_TYPES.items()}
    return {**names, _DURATION: "interval", pa.null(): "void"}.get(kind, str(kind))


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


def _duck_type(kind: Kind) -> exp.DataType:
    return exp.DataType.build(_NAMES[kind], dialect="duckdb")


def _as(term: Term, kind: Kind) -> Term:
    if term.type == kind:
        return term
    return Term(exp.Cast(this=term.sql, to=_duck_type(kind)), kind)


def _null(kind: Kind) -> Term:
    if kind not in _NAMES:
        return Term(exp.Null(), kind)
    return Term(exp.Cast(this=exp.Null(), to=_duck_type(kind)), kind)


def _text(node: exp.Expr, text: str) -> Term:
    if "\0" in text:
        raise _refused(node, "a text with a character of code 0")
    # Without the cast it would be a literal of any type, and DuckDB would convert it.
    literal = exp.Cast(this=exp.Literal.string(text), to=_duck_type(_TEXT))
    return Term(literal, _TEXT, value=text)


def _number(node: exp.Expr) -> Term:
    value = number(node)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return _double(value)
    scale = max(0, -int(value.as_tuple().exponent))
    if scale > _MOST_SCALE or abs(value) >= 10**18:
        raise _refused(node, "a number with so many digits")
    kind = pa.decimal128(38, scale)
    to = exp.DataType.build(f"DECIMAL(38, {scale})", dialect="duckdb")
    return Term(exp.Cast(this=exp.Literal.string(format(value, "f")), to=to), kind, value=value)


def _whole(value: int, kind: Kind | None = None) -> Term:
    least, most = _BOUNDS[pa.int32()]
    kind = kind or (pa.int32() if least <= value <= most else pa.int64())
    if not -(2**63) <= value < 2**63:
        raise InputError(f"{value}: is too large")
    literal = exp.Literal.string(str(value))
    return Term(exp.Cast(this=literal, to=_duck_type(kind)), kind, value=value)


def _double(value: float) -> Term:
    literal = exp.Literal.string(repr(value))
    return Term(exp.Cast(this=literal, to=_duck_type(pa.float64())), pa.float64(), value=value)


def _literal_number(value: int) -> exp.Expr:
    return _whole(value).sql


def _is_index(term: Term) -> bool:
    return term.type == pa.int32() and isinstance(term.value, int) and 0 <= term.value < 2**31 - 1


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _infix(kind: type[exp.Expr], first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=first, expression=second))


def _in(value: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.In(this=value, expressions=list(values)))


def _case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> exp.Expr:
    ifs = [exp.If(this=test, true=value) for test, value in branches]
    return exp.Case(ifs=ifs, default=default)


def _failure(text: str) -> exp.Expr:
    return _function("error", exp.Literal.string(f"{FAILURE_MARK}{text}"))


def _balanced(kind: type[exp.Expr], parts: list[exp.Expr]) -> exp.Expr:
    while len(parts) > 1:
        joined = []
        for place in range(0, len(parts), 2):
            pair = parts[place : place + 2]
            joined.append(_infix(kind, *pair) if len(pair) > 1 else pair[0])
        parts = joined
    return parts[0]


def _sqls(terms: Sequence[Term]) -> list[exp.Expr]:
    return [term.sql for term in terms]


def _typed(terms: Sequence[Term], kind: Kind) -> list[Term]:
    return [_as(term, kind) for term in terms]


def _required(node: exp.Expr, term: Term, kind: Kind) -> Term:
    if term.type not in (kind, pa.null()):
        raise _refused(node, f"{spark_name(term.type)} where {spark_name(kind)} is expected")
    return _as(term, kind)


def _flag(node: exp.Expr, term: Term) -> Term:
    if term.type not in (_FLAG, pa.null()):
        raise _refused(node, f"{spark_name(term.type)} where a condition is expected")
    return _as(term, _FLAG)


def _not(term: Term) -> Term:
    return Term(exp.Paren(this=exp.Not(this=exp.Paren(this=term.sql))), _FLAG)


def _negated(node: exp.Expr, term: Term) -> Term:
    return _not(term) if node.args.get("negate") or isinstance(node, NEGATED) else term


def _found(subject: Term, expression: str) -> Term:
    return Term(_function("regexp_matches", subject.sql, exp.Literal.string(expression)), _FLAG)


def _field(node: exp.Expr, term: Term, name: str) -> Term:
    if not pa.types.is_struct(term.type):
        raise _refused(node, f"{name} of what is no struct")
    same = [one for one in term.type if one.name.lower() == name.lower()]
    if len(same) != 1:
        raise SqlError(f"{shown(node)}: there is no field {name}", "a field that is not there")
    sql = _function("struct_extract", term.sql, exp.Literal.string(same[0].name))
    return Term(sql, same[0].type)


def _at(array: Term, index: exp.Expr) -> exp.Expr:
    return _function("list_extract", array.sql, index)


def _of_map(node: exp.Expr, whole: Term, key: Term) -> Term:
    if whole.type.key_type != _TEXT or key.type != _TEXT:
        raise _refused(node, "a map whose keys are no texts")
    return Term(_function("map_extract_value", whole.sql, key.sql), whole.type.item_type)


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
        return _case(
            [
                (_infix(exp.Is, values, exp.Null()), exp.Null()),
                (_function("list_contains", values, wanted), exp.Boolean(this=result)),
                (has_null, exp.Null()),
            ],
            exp.Boolean(this=not result),
        )

    return _once(flags, among)


def _array_contains(node: exp.Expr, array: Term, value: Term) -> Term:
    kind = array.type.value_type
    if kind not in (_TEXT, *_WHOLE) or value.type != kind:
        raise _refused(node, "a value of another type than the elements")
    is_null = _infix(exp.Is, value.sql, exp.Null())
    contains = _any_of(array.sql, value.sql, result=True)
    return Term(_case([(is_null, exp.Null())], contains), _FLAG)


def _fixed_time(node: exp.Expr, text: str, kind: Kind) -> Term:
    parts = _CLOCK.fullmatch(text)
    if parts is None or (kind == pa.date32() and parts[4]):
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
    value = time.date() if kind == pa.date32() else time
    return _time(value, kind)


def _time(value: date | datetime, kind: Kind) -> Term:
    literal = exp.Literal.string(value.isoformat(*[" "] if isinstance(value, datetime) else []))
    return Term(exp.Cast(this=literal, to=_duck_type(kind)), kind)


def _time_text(term: Term) -> Term:
    bounds = (_time(datetime(1, 1, 1), _TIME), _time(datetime(9999, 12, 31), _TIME))  # noqa: DTZ001
    low, high = _sqls(bounds)
    time = _as(term, _TIME).sql
    is_usual = _infix(exp.And, _infix(exp.GTE, time, low), _infix(exp.LTE, time, high))
    is_null = _infix(exp.Is, time, exp.Null())
    branches = [(is_null, _null(_TEXT).sql), (is_usual, _as(term, _TEXT).sql)]
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
    kinds = {term.type for term in terms}
    if kinds & {_TIME, pa.date32()} and _TEXT in kinds:
        [wanted] = kinds - {_TEXT}
        terms = [
            _fixed_time(node, term.value, wanted) if isinstance(term.value, str) else term
            for term in terms
        ]
        kinds = {term.type for term in terms}
    decimals = [term for term in terms if pa.types.is_decimal(term.type)]
    if decimals and kinds & {pa.float64()}:
        terms = [
            _double(float(term.value)) if isinstance(term.value, Decimal) else term
            for term in terms
        ]
    elif decimals and all(kind in _WHOLE or pa.types.is_decimal(kind) for kind in kinds):
        scale = max(term.type.scale for term in decimals)
        to = exp.DataType.build(f"DECIMAL(38, {scale})", dialect="duckdb")
        kind = pa.decimal128(38, scale)
        return [Term(exp.Cast(this=term.sql, to=to), kind) for term in terms]
    unified = _unified(node, terms)
    if unified[0].type not in (*_COMPARED, pa.null()):
        raise _refused(node, f"a comparison of {spark_name(unified[0].type)}")
    return unified


def _unified(node: exp.Expr, terms: Sequence[Term]) -> list[Term]:
    """Return *terms* in the one type that they have together."""
    kinds = {term.type for term in terms} - {pa.null()}
    if _VARIANT_TYPE in kinds or any(map(pa.types.is_decimal, kinds)):
        raise _refused(node, "values of these types together")
    if len(kinds) > 1:
        if kinds <= set(_NUMBERS):
            kinds = {pa.float64() if pa.float64() in kinds else pa.int64()}
        elif kinds == {pa.date32(), _TIME}:
            kinds = {_TIME}
        else:
            names = " and ".join(sorted(map(spark_name, kinds)))
            raise _refused(node, f"{names} together")
    kind = next(iter(kinds), pa.null())
    if kind not in _NAMES:
        if any(term.type == pa.null() for term in terms):
            return [Term(term.sql, kind) for term in terms]
        return list(terms)
    return _typed(terms, kind)


def _is(node: exp.Expr, subject: Term, value: Term) -> Term:
    if value.type == pa.null():
        return Term(_infix(exp.Is, subject.sql, exp.Null()), _FLAG)
    flags = (_flag(node, subject), value)
    return Term(_infix(exp.NullSafeEQ, *_sqls(flags)), _FLAG)


def _joined(node: exp.Expr, terms: Sequence[Term]) -> Term:
    texts = [_required(node, term, _TEXT) for term in terms]
    return Term(_balanced(exp.DPipe, _sqls(texts)), _TEXT)


def _negative(node: exp.Expr, term: Term) -> Term:
    if term.type not in (*_NUMBERS, _DURATION):
        raise _refused(node)
    if term.type == pa.float64():
        return Term(exp.Paren(this=exp.Neg(this=exp.Paren(this=term.sql))), term.type)
    # The negation of DuckDB does not fail where the type has no such number.
    return Term(_infix(exp.Sub, _whole(0, term.type).sql, term.sql), term.type)


def _arithmetic(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    kinds = (first.type, second.type)
    match kinds:
        case (time, length) if time == _TIME and length == _DURATION and operator is not exp.Mul:
            return _moved(first, operator, second)
        case (length, time) if time == _TIME and length == _DURATION and operator is exp.Add:
            return _moved(second, operator, first)
        case (one, other) if one == other == _TIME and operator is exp.Sub:
            micros = [_function("epoch_us", term.sql) for term in (first, second)]
            return Term(_infix(exp.Sub, *micros), _DURATION)
        case (one, other) if one == other == _DURATION and operator is not exp.Mul:
            return Term(_infix(operator, first.sql, second.sql), _DURATION)
        case (one, other) if {one, other} & {_DURATION} and operator is exp.Mul:
            if not {one, other} <= {_DURATION, *_WHOLE} or one == other:
                raise _refused(node)
            factors = [
                exp.Cast(this=term.sql, to=_duck_type(pa.int64())) for term in (first, second)
            ]
            return Term(_infix(exp.Mul, *factors), _DURATION)
    first, second = _numbers(node, first, second)
    return Term(_infix(operator, first.sql, second.sql), first.type)


def _numbers(node: exp.Expr, first: Term, second: Term) -> list[Term]:
    terms = [first, second]
    if pa.float64() in (first.type, second.type):
        terms = [
            _double(float(term.value)) if isinstance(term.value, Decimal) else term
            for term in terms
        ]
    if not {term.type for term in terms} <= set(_NUMBERS):
        raise _refused(node)
    return _unified(node, terms)


def _moved(time: Term, operator: type[exp.Expr], length: Term) -> Term:
    micros = _infix(operator, _function("epoch_us", time.sql), length.sql)
    return Term(_function("make_timestamp", micros), _TIME)


def _divided(node: exp.Expr, first: Term, second: Term) -> Term:
    if (
        first.type not in _NUMBERS
        or not _is_positive(second)
        or (isinstance(second.value, Decimal) and first.type != pa.float64())
    ):
        raise _refused(node, "a division by what is no fixed whole number above 0; see try_divide")
    divisor = _double(float(second.value)).sql
    return Term(_infix(exp.Div, _as(first, pa.float64()).sql, divisor), pa.float64())


def _is_positive(term: Term) -> bool:
    return isinstance(term.value, int | float | Decimal) and term.value > 0


def _whole_division(node: exp.Expr, operator: type[exp.Expr], first: Term, second: Term) -> Term:
    if first.type not in _WHOLE or second.type not in _WHOLE or not _is_positive(second):
        raise _refused(node, "a division by what is no fixed whole number above 0")
    first, second = _unified(node, [first, second])
    if operator is exp.IntDiv:
        return _as(Term(_infix(operator, first.sql, second.sql), first.type), pa.int64())
    return Term(_infix(operator, first.sql, second.sql), first.type)


def _tried(node: exp.Expr, name: str, first: Term, second: Term) -> Term:
    if first.type not in _WHOLE or second.type not in _WHOLE:
        raise _refused(node, "it is of whole numbers here")
    first, second = _unified(node, [first, second])
    operator = {"try_add": exp.Add, "try_subtract": exp.Sub, "try_multiply": exp.Mul}[name]
    wide = exp.DataType.build("HUGEINT", dialect="duckdb")
    exact = _infix(operator, *[exp.Cast(this=term.sql, to=wide) for term in (first, second)])
    fitting = exp.TryCast(this=exact, to=_duck_type(first.type))
    return Term(fitting, first.type)


def _position(text: Term, part: Term) -> Term:
    position = _function("instr", _as(text, _TEXT).sql, part.sql)
    return _as(Term(position, pa.int64()), pa.int32())


def _since_1970(time: Term, unit: int) -> Term:
    """Count whole units, rounded down: DuckDB rounds towards 0."""
    micros = _function("epoch_us", time.sql)
    size = _literal_number(unit)
    rest = _infix(exp.Mod, _infix(exp.Add, _infix(exp.Mod, micros, size), size), size)
    return Term(_infix(exp.IntDiv, _infix(exp.Sub, micros, rest), size), pa.int64())
