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
functions  ``duckdb_functions.EQUAL`` lists them
refused    other functions; casts of texts that can fail; other casts; texts compared with numbers;
           arithmetic of decimals; months and years; time zones; what a regular expression of Java
           has and RE2 has not
========== =======================================================================================

A few values, such as a JSON number whose text depends on the version of Java, are refused when they
are met, see ``spark_functions``. An operation that fails on a message fails in both engines, but
DuckDB may also fail where Spark would not have evaluated it: such an error never is a result.

``duckdb_terms`` has types, literals and calls; ``duckdb_operators`` and ``duckdb_functions`` have
what is made of them. Here are the tree, columns, casts, lambdas, and how much a row can grow.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from dlq.errors import InputError, SqlError
from dlq.sql import spark_functions
from dlq.sql.allowed import (
    LAMBDAS,
    checked,
    fixed_text,
    parts_of,
    type_name,
    variable_of,
)
from dlq.sql.duckdb_functions import EQUAL, duckdb_call
from dlq.sql.duckdb_operators import (
    WHOLE_VARIANT_WORDS,
    arithmetic,
    comparison,
    concatenation,
    division,
    is_value,
    negation,
    negative,
    time_text,
    unified_terms,
    whole_division,
    with_negation,
)
from dlq.sql.duckdb_terms import (
    CAST_TYPES,
    DATE,
    DOUBLE,
    DUCKDB_NAMES,
    FLAG,
    INT,
    LONG,
    NEEDS_SPARK,
    NULL,
    NUMBER_KINDS,
    TEXT,
    TIME,
    TIME_KINDS,
    VARIANT_TYPE,
    WHOLE_BOUNDS,
    WHOLE_KINDS,
    Kind,
    Term,
    any_of,
    applied,
    as_kind,
    balanced,
    case_when,
    double_literal,
    duck_type,
    evaluated_once,
    failure_call,
    field_of_struct,
    fixed_time,
    function_call,
    has_match,
    infix,
    interval_literal,
    is_among,
    is_index,
    is_null,
    kinds_of,
    null_literal,
    number_literal,
    only_argument,
    plain_type,
    refusal,
    required_flag,
    required_kind,
    spark_name,
    sqls_of,
    text_literal,
    value_of_map,
    whole_sql,
    without_parentheses,
)
from dlq.sql.java_regex import UntranslatableError, like_to_re2, to_re2
from dlq.sql.sql_errors import WHERE, naming

_VARIANT_WORDS = "ARRAY|BIGINT|BOOLEAN|DECIMAL|DOUBLE|FLOAT|OBJECT|STRING|VOID"

_TRY = f"{NEEDS_SPARK}: a text that is no such value would fail; try_cast gives null instead"

_RISKY_ELEMENT = "use get(an_array, n), which gives null where there is no such element"


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
        if term.type == VARIANT_TYPE:
            raise refusal(tree, "compare what schema_of_variant gives with a type's name")
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
        if written.type != FLAG:
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
            raise refusal(node, "a text made of a column for each element of an array")
        growth += _size(node)
        if growth > _MOST_GROWTH:
            raise refusal(node, "too many texts made of one; shorten them first: left(body, n)")
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
                return null_literal(NULL)
            case exp.Boolean():
                return Term(exp.Boolean(this=bool(node.this)), FLAG, value=bool(node.this))
            case exp.RawString() | exp.Literal(is_string=True):
                return text_literal(node, node.name)
            case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
                return number_literal(node)

            case exp.Identifier():
                return self._named(node.name, variables)
            case exp.Column():
                return self._column(node, variables)
            case exp.Dot():
                return field_of_struct(node, self.write(node.this, variables), node.expression.name)
            case exp.Bracket():
                return self._element(node, variables)

            case exp.Anonymous():
                return self._call(node, variables)
            case exp.Cast():
                return self.cast(node, self.write(node.this, variables), type_name(node))
            case exp.Interval():
                return interval_literal(node)
            case exp.Case():
                return self._case(node, variables)

            case exp.And() | exp.Or():
                return self._connected(node, variables)
            case exp.Not():
                return negation(required_flag(node, self.write(node.this, variables)))

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
            term = field_of_struct(node, term, part.name)
        return term

    def _connected(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write AND or OR of any number of operands."""
        operands = node.flatten(unnest=False)
        flags = [self._condition(operand, variables).sql for operand in operands]
        return Term(balanced(type(node), flags), FLAG)

    def _condition(self, node: exp.Expr, variables: _Variables) -> Term:
        return required_flag(node, self.write(node, variables))

    def _python(self, name: str, call: Callable[[Any], Any], term: Term, gives: Kind) -> Term:
        """Call a function in Python. Each function of one expression has a name of its own."""
        result = (
            f"{DUCKDB_NAMES[gives.value_type]}[]"
            if pa.types.is_list(gives)
            else DUCKDB_NAMES[gives]
        )
        unique_name = f"{name}_{len(self.functions)}"
        self.functions[unique_name] = PythonFunction(
            call, takes=DUCKDB_NAMES[term.type], gives=result
        )
        return applied(unique_name, gives, term)

    def _element(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write ``whole[key]``."""
        whole, key = self._written(parts_of(node, "this", "expressions"), variables)
        if pa.types.is_map(whole.type):
            return value_of_map(node, whole, key)
        if pa.types.is_struct(whole.type) and isinstance(key.value, str):
            return field_of_struct(node, whole, key.value)
        if not pa.types.is_list(whole.type) or not is_index(key):
            raise refusal(node, _RISKY_ELEMENT)

        index = whole_sql(key.value + 1)
        failure = failure_call(f"there is no element {key.value}; {_RISKY_ELEMENT}")

        def element(array: exp.Expr) -> exp.Expr:
            has_element = infix(exp.GT, function_call("len", array), whole_sql(key.value))
            branches = [
                (is_null(array), exp.Null()),
                (has_element, function_call("list_extract", array, index)),
            ]
            return case_when(branches, failure)

        return Term(evaluated_once(whole.sql, element), whole.type.value_type)

    def _case(self, node: exp.Expr, variables: _Variables) -> Term:
        tests: list[exp.Expr] = []
        values: list[Term] = []
        for branch in node.args["ifs"]:
            test = self.write(branch.this, variables)
            if node.this:
                test = comparison(node, exp.EQ, self.write(node.this, variables), test)
            tests.append(required_flag(node, test).sql)
            values.append(self.write(branch.args["true"], variables))

        default = node.args.get("default")
        values.append(self.write(default, variables) if default else null_literal(NULL))

        *branch_values, last = unified_terms(node, values)
        branches = list(zip(tests, sqls_of(branch_values), strict=True))
        return Term(case_when(branches, last.sql), last.type)

    def _like(self, node: exp.Expr, variables: _Variables, escape: str) -> Term:
        subject = self.write(node.this, variables)
        if isinstance(without_parentheses(node.expression), exp.Null):
            return with_negation(node, null_literal(FLAG))

        pattern = fixed_text(node.expression) or ""
        if subject.type == VARIANT_TYPE:
            return with_negation(node, _variant_like(node, subject, pattern, escape))

        subject = required_kind(node, subject, TEXT)
        if isinstance(node, exp.ILike):
            if escape.isalpha():
                raise refusal(node, "a letter as the escape of ILIKE")
            subject = self._python("lower", spark_functions.lower, subject, TEXT)
            pattern = _in_python(node, spark_functions.lower, pattern)

        try:
            expression = like_to_re2(pattern, escape)
        except UntranslatableError as error:
            raise refusal(node, str(error)) from error
        return with_negation(node, has_match(subject, expression))

    def _matches(
        self, node: exp.Expr, variables: _Variables, subject_node: exp.Expr, pattern: exp.Expr
    ) -> Term:
        subject = self.write(subject_node, variables)
        if isinstance(without_parentheses(pattern), exp.Null):
            return with_negation(node, null_literal(FLAG))

        text = fixed_text(pattern) or ""
        if subject.type == VARIANT_TYPE:
            return with_negation(node, _variant_matches(node, subject, text))

        subject = required_kind(node, subject, TEXT)
        try:
            expression = to_re2(text)
        except UntranslatableError as error:
            raise refusal(node, f"in the pattern, {error}") from error
        return with_negation(node, has_match(subject, expression))

    def _operation(self, node: exp.Expr, variables: _Variables) -> Term:  # noqa: C901, PLR0911 - a table
        parts = parts_of(node, "this", "expression", "expressions", "low", "high")
        operands = self._written(parts, variables)
        match node:
            case exp.Is():
                return with_negation(node, is_value(node, *operands))
            case exp.In():
                subject, *values = operands
                tests = [comparison(node, exp.EQ, subject, value).sql for value in values]
                return with_negation(node, Term(balanced(exp.Or, tests), FLAG))
            case exp.Between():
                subject, low, high = operands
                above = comparison(node, exp.GTE, subject, low).sql
                below = comparison(node, exp.LTE, subject, high).sql
                return with_negation(node, Term(infix(exp.And, above, below), FLAG))

            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return with_negation(node, comparison(node, exp.NullSafeEQ, *operands))
            case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                return comparison(node, type(node), *operands)

            case exp.DPipe():
                return concatenation(node, operands)
            case exp.Neg():
                return negative(node, *operands)
            case exp.Add() | exp.Sub() | exp.Mul():
                return arithmetic(node, type(node), *operands)
            case exp.Div():
                return division(node, *operands)
            case exp.IntDiv() | exp.Mod():
                return whole_division(node, type(node), *operands)
        raise refusal(node)

    def cast(self, node: exp.Expr, term: Term, target: str) -> Term:  # noqa: C901, PLR0911 - a table
        """Write a cast to the type that Spark calls *target*; *node* is the cast."""
        wanted = CAST_TYPES.get(target)
        source = term.type
        if wanted is None or source == VARIANT_TYPE:
            raise refusal(node, f"a cast to {target.lower()}")
        if source == NULL:
            return null_literal(wanted)
        if source == wanted:
            return replace(term, value=None)

        if source == TEXT and wanted in TIME_KINDS and isinstance(term.value, str):
            return fixed_time(node, term.value, wanted)
        if source == TEXT and wanted in (*NUMBER_KINDS, FLAG):
            return self._cast_of_text(node, term, wanted)

        if isinstance(term.value, Decimal) and wanted == TEXT:
            return text_literal(node, format(term.value, "f"))
        if isinstance(term.value, Decimal) and wanted == DOUBLE:
            return double_literal(float(term.value))

        if wanted == TEXT and source == DOUBLE:
            return self._python("double_text", spark_functions.double_text, term, TEXT)
        if wanted == TEXT and source in TIME_KINDS:
            return time_text(term)
        if wanted == INT and source == LONG:
            cast = exp.TryCast if isinstance(node, exp.TryCast) else exp.Cast
            return Term(cast(this=term.sql, to=duck_type(INT)), INT)
        if wanted == FLAG and source in WHOLE_KINDS:
            return Term(infix(exp.NEQ, term.sql, whole_sql(0)), FLAG)
        if (source, wanted) in _SAFE_CASTS:
            return as_kind(term, wanted)
        raise refusal(node, f"a cast of {spark_name(source)} to {target.lower()}")

    def _cast_of_text(self, node: exp.Expr, term: Term, wanted: Kind) -> Term:
        """Write ``TRY_CAST`` of a text to a number or a boolean."""
        if not isinstance(node, exp.TryCast):
            raise refusal(node, _TRY, is_whole_reason=True)

        if wanted in WHOLE_KINDS:
            least, most = WHOLE_BOUNDS[wanted]
            call = partial(spark_functions.to_integer, least=least, most=most)
            return self._python("to_integer", call, term, wanted)
        if wanted == FLAG:
            return self._python("to_boolean", spark_functions.to_boolean, term, FLAG)
        # As a text: DuckDB takes a NaN of Python for NULL.
        return as_kind(self._python("to_double", _double_of, term, TEXT), DOUBLE)

    def _call(self, node: exp.Expr, variables: _Variables) -> Term:
        name = node.name.lower()
        if name not in EQUAL:
            raise refusal(node)

        if name in LAMBDAS:
            return self._lambda_call(node, variables)
        if name in ("schema_of_variant", "is_variant_null"):
            return self._variant_call(node, variables)
        if name == "regexp_like":
            if len(node.expressions) != 2:  # noqa: PLR2004 - text, pattern
                raise refusal(node)
            return self._matches(node, variables, *node.expressions)

        terms = self._written(node.expressions, variables)
        if VARIANT_TYPE in kinds_of(terms):
            raise refusal(node, "a function of what schema_of_variant gives")

        written = self._python_call(node, name, terms) or duckdb_call(node, name, terms)
        if written is None:
            raise refusal(node)
        return written

    def _python_call(self, node: exp.Expr, name: str, terms: list[Term]) -> Term | None:  # noqa: PLR0911 - a table
        """Write a call of a function in Python, or a cast written as a call; None for others."""
        match name, terms:
            case "get_json_object", [text, path]:
                read = partial(_json_object, _path(node, path))
                return self._python("json", read, required_kind(node, text, TEXT), TEXT)
            case "json_array_length", [text]:
                count = spark_functions.json_array_length
                return self._python("json", count, required_kind(node, text, TEXT), INT)
            case "json_object_keys", [text]:
                keys = spark_functions.json_object_keys
                return self._python("json", keys, required_kind(node, text, TEXT), pa.list_(TEXT))
            case "from_json", [text, Term(value=str() as schema)]:
                if not re.fullmatch(r"\s*array\s*<\s*string\s*>\s*", schema, re.IGNORECASE):
                    raise refusal(node, "from_json of another type than array<string>")
                split = spark_functions.array_of_texts
                return self._python("json", split, required_kind(node, text, TEXT), pa.list_(TEXT))

            case "lower" | "upper", [text]:
                change = spark_functions.lower if name == "lower" else spark_functions.upper
                return self._python(name, change, required_kind(node, text, TEXT), TEXT)
            case "bigint" | "boolean" | "date" | "double" | "int" | "string" | "timestamp", [term]:
                return self.cast(node, term, name.upper())
            case "to_date", [term] if term.type != TEXT or term.value is not None:
                return self.cast(node, term, "DATE")
        return None

    def _variant_call(self, node: exp.Expr, variables: _Variables) -> Term:
        """Write ``schema_of_variant`` or ``is_variant_null``."""
        json, steps = self._variant(node, only_argument(node, node.expressions), variables)
        kind = self._python("variant_type", partial(_variant_type, steps), json, TEXT)
        if node.name.lower() == "schema_of_variant":
            return replace(kind, type=VARIANT_TYPE)

        # NULL is a value of the variant itself, and no variant is none.
        is_void = infix(exp.NullSafeEQ, kind.sql, exp.Literal.string("VOID"))
        return Term(is_void, FLAG)

    def _variant(
        self, call: exp.Expr, node: exp.Expr, variables: _Variables
    ) -> tuple[Term, tuple[str | int, ...]]:
        """Return the text and the path that a variant is made of."""
        node = without_parentheses(node)
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name == "try_parse_json":
            text = self.write(only_argument(node, node.expressions), variables)
            return required_kind(node, text, TEXT), ()

        if name == "try_variant_get" and len(node.expressions) == 3:  # noqa: PLR2004
            inner, path, kind = node.expressions
            if (fixed_text(kind) or "").strip().lower() != "variant":
                raise refusal(node, "a variant as another type; use get_json_object")
            text, steps = self._variant(call, inner, variables)
            return text, (*steps, *_path(node, self.write(path, variables)))

        raise refusal(call)

    def _lambda_call(self, node: exp.Expr, variables: _Variables) -> Term:
        name = node.name.lower()
        array = self.write(node.expressions[0], variables)
        function = node.expressions[1]
        if not pa.types.is_list(array.type):
            raise refusal(node, "its first argument is no array")

        own_name = f"x{len(variables)}"
        element = Term(exp.column(own_name, quoted=True), array.type.value_type)
        body = self.write(function.this, {**variables, variable_of(function): element})
        duck_lambda = exp.Lambda(
            this=body.sql if name == "transform" else required_flag(node, body).sql,
            expressions=[exp.to_identifier(own_name, quoted=True)],
        )

        if name == "filter":
            return Term(function_call("list_filter", array.sql, duck_lambda), array.type)
        results = function_call("list_transform", array.sql, duck_lambda)
        if name == "transform":
            if body.type in (NULL, VARIANT_TYPE):
                raise refusal(node)
            return Term(results, pa.list_(body.type))
        wanted = name == "exists"
        return Term(any_of(results, exp.Boolean(this=wanted), result=wanted), FLAG)


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
        raise refusal(node, "compare schema_of_variant with the beginning of a type")
    if not pattern.endswith("%") and pattern not in WHOLE_VARIANT_WORDS:
        raise refusal(node, f"write LIKE '{pattern}%'")
    return Term(infix(exp.EQ, subject.sql, exp.Literal.string(pattern.rstrip("%"))), FLAG)


def _variant_matches(node: exp.Expr, subject: Term, pattern: str) -> Term:
    """Write ``RLIKE`` of what ``schema_of_variant`` gives."""
    words = re.fullmatch(rf"\^\(((?:{_VARIANT_WORDS})(?:\|(?:{_VARIANT_WORDS}))*)\)", pattern)
    if not words:
        raise refusal(node, "compare schema_of_variant with ^(ONE_TYPE|ANOTHER)")
    names = list(map(exp.Literal.string, words[1].split("|")))
    return Term(is_among(subject.sql, names), FLAG)


_SAFE_CASTS = frozenset(
    [
        (INT, LONG),
        (INT, DOUBLE),
        (LONG, DOUBLE),
        (FLAG, INT),
        (FLAG, LONG),
        (INT, TEXT),
        (LONG, TEXT),
        (FLAG, TEXT),
        (TIME, DATE),
        (DATE, TIME),
    ]
)


def _path(node: exp.Expr, path: Term) -> tuple[str | int, ...]:
    steps = spark_functions.json_path(path.value) if isinstance(path.value, str) else None
    if steps is None:
        raise refusal(node, "a path of JSON with wildcards, or none like $.a.b[0]['c']")
    return steps.steps


def _in_python(node: exp.Expr, call: Callable[[str], str | None], text: str) -> str:
    try:
        return call(text) or ""
    except spark_functions.NeedsSparkError as error:
        raise refusal(node, str(error)) from error
