"""Allow-lists for SQL conditions and expressions that operators, plans and policies contain.

Spark SQL can run code: a function can call any Java method, a subquery reads files, and both happen
while Spark analyses the text. So the text is checked against allow-lists in two steps. First the
parsed tree, before Spark analyses anything. Then the analysed tree, because a name without brackets
(``current_timestamp``) is a column in the first tree and a function in the second. Spark evaluates
the tree that was checked; the text is not parsed again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from spark_reprocess.errors import InputError
from spark_reprocess.spark.failures import SPARK_FAILURES, sentence_of, silence_query_log

_Node = Any
"""A plan or an expression of Spark, in the JVM."""

GUIDE = 'docs/analysis.md, "What a condition may contain", lists what is allowed'


class Place(StrEnum):
    """Where a piece of SQL comes from. The value is the place's name in messages."""

    WHERE = "--where"
    PLAN_WHERE = "the plan's where"
    POLICY_WHEN = "when"
    SET_ATTRIBUTES = "set_attributes"


FUNCTIONS: Mapping[str, str] = {
    "JSON": "from_json get_json_object json_array_length json_object_keys schema_of_json to_json",
    "variants": (
        "is_variant_null parse_json schema_of_variant try_parse_json try_variant_get variant_get"
    ),
    "arrays": (
        "aggregate array array_compact array_contains array_distinct array_except array_intersect "
        "array_join array_max array_min array_position array_remove array_sort array_union "
        "arrays_overlap cardinality element_at exists filter flatten forall get reduce size slice "
        "sort_array transform try_element_at"
    ),
    "maps and structs": (
        "map map_concat map_contains_key map_entries map_filter map_from_entries map_keys "
        "map_values named_struct struct transform_values"
    ),
    "text": (
        "base64 btrim char_length character_length concat concat_ws contains decode encode "
        "endswith hex ilike initcap instr lcase left len length like locate lower ltrim md5 "
        "octet_length parse_url position regexp regexp_count regexp_extract regexp_extract_all "
        "regexp_like regexp_replace regexp_substr replace reverse right rlike rtrim sha sha1 sha2 "
        "split split_part startswith substr substring substring_index translate trim "
        "try_parse_url try_url_decode ucase unbase64 unhex upper url_decode url_encode"
    ),
    "dates": (
        "add_months date_add date_diff date_format date_part date_sub date_trunc dateadd datediff "
        "day dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day "
        "minute month months_between quarter second timestamp_micros timestamp_millis "
        "timestamp_seconds to_date to_timestamp to_unix_timestamp to_utc_timestamp trunc "
        "try_to_date try_to_timestamp unix_micros unix_millis unix_seconds unix_timestamp weekday "
        "weekofyear year"
    ),
    "numbers": (
        "abs ceil ceiling floor greatest least mod pmod round sign signum sqrt try_add try_divide "
        "try_mod try_multiply try_subtract"
    ),
    "choices": (
        "between coalesce equal_null if ifnull isnan isnotnull isnull nanvl nullif nvl nvl2"
    ),
    "types": (
        "bigint binary boolean date decimal double float int smallint string timestamp tinyint"
    ),
}
"""The allowed functions, by kind. Each depends on the message alone. None makes a text or an array
whose length is given as a number: one message could fill the memory."""

_FUNCTIONS = frozenset(" ".join(FUNCTIONS.values()).split())

_OPERATORS = """
    Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Concat CreateNamedStruct Divide
    EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull
    LambdaFunction LessThan LessThanOrEqual Like LikeAll LikeAny Literal Lower Multiply Not
    NotLikeAll NotLikeAny Or RLike Remainder StringLocate StringTrim StringTrimLeft StringTrimRight
    Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive
"""
_PARSED = frozenset(
    f"""{_OPERATORS}
    Alias IsUnknown$$anon$1 SemiStructuredExtract UnresolvedNamedLambdaVariable
    analysis.UnresolvedAttribute analysis.UnresolvedExtractValue analysis.UnresolvedFunction
    """.split()
)
"""Allowed classes of the parsed tree, in Spark's package of expressions; those with ``analysis.``
are in the package ``analysis`` beside it."""

_ANALYSED = frozenset(
    f"""{_OPERATORS}
    Abs AddMonths Alias ArrayAggregate ArrayCompact ArrayContains ArrayDistinct ArrayExcept
    ArrayExists ArrayFilter ArrayForAll ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition
    ArrayRemove ArraySort ArrayTransform ArrayUnion ArraysOverlap AttributeReference Base64 Between
    Ceil Coalesce CommonExpressionDef CommonExpressionRef ConcatWs Contains CreateArray CreateMap
    DateAdd DateAddYMInterval DateDiff DateFormatClass DateSub DatetimeSub DayOfMonth DayOfWeek
    DayOfYear Decode DivideDTInterval DivideYMInterval ElementAt Encode EndsWith EqualNull Extract
    ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes
    ExtractANSIIntervalSeconds Flatten Floor FromUTCTimestamp FromUnixTime Get
    GetArrayItem GetArrayStructFields GetJsonObject GetMapValue GetStructField Greatest Hex Hour If
    InitCap IsNaN JsonObjectKeys JsonToStructs LastDay Least Left Length LengthOfJsonArray
    MapConcat MapContainsKey MapEntries MapFilter MapFromEntries MapKeys MapValues Md5
    MicrosToTimestamp MillisToTimestamp Minute Month MonthsBetween MultiplyDTInterval
    MultiplyYMInterval NaNvl NamedLambdaVariable NullIf
    Nvl Nvl2 OctetLength ParseToDate ParseToTimestamp ParseUrl Pmod Quarter RegExpCount
    RegExpExtract RegExpExtractAll RegExpReplace RegExpSubStr Reverse Right Round RoundCeil
    RoundFloor SchemaOfJson Second SecondsToTimestamp Sha1 Sha2 Signum Size Slice SortArray
    SplitPart Sqrt StartsWith StringDecode StringInstr StringReplace StringSplit StringTranslate
    StringTrimBoth StructsToJson SubstringIndex SubtractDates SubtractTimestamps
    TimestampAddInterval TimestampAddYMInterval ToUTCTimestamp ToUnixTimestamp TransformValues
    TruncDate TruncTimestamp TryAdd TryDivide TryElementAt TryMod TryMultiply TryParseUrl
    TrySubtract TryUrlDecode TypedNullLiteral UnBase64 Unhex UnixMicros UnixMillis UnixSeconds
    UnixTimestamp Upper UrlDecode UrlEncode WeekDay WeekOfYear With Year
    variant.IsVariantNull variant.ParseJson variant.SchemaOfVariant variant.VariantGet
    """.split()
)
"""Allowed classes of the analysed tree, in Spark's package of expressions."""

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_CATALYST = "org.apache.spark.sql.catalyst."

_TIME = "current time"
_SUBQUERY = "a subquery reads other data than the message; compare columns with values"
_STAR = "stands for columns that are not named; name them"
_WINDOW = "looks at other messages; SQL here sees one message at a time"
_ROWS = "makes several rows of one; use exists, filter or transform"
_RANDOM = "gives another value each time; use columns and fixed values"
_SESSION = "depends on who runs this and where; use columns and fixed values"
_CODE = "calls Java code; use the functions that docs/analysis.md lists"
_PARAMETER = "stands for a name or a value that is not in the text; write it out"
_ADDED = "was added to this Spark session; use Spark's own functions"
_WHY = {
    name: why
    for why, names in {
        _TIME: "now current_timestamp current_date current_time curdate localtime localtimestamp "
        "Now CurrentTimestamp CurrentDate CurrentTime LocalTimestamp CurrentBatchTimestamp",
        _SUBQUERY: "ScalarSubquery InSubquery ListQuery Exists LateralSubquery",
        _STAR: "UnresolvedStar UnresolvedStarExcept UnresolvedStarExceptOrReplace",
        _WINDOW: "WindowExpression UnresolvedWindowExpression AggregateExpression sum count min "
        "max avg first last any_value collect_list collect_set row_number rank",
        _ROWS: "explode explode_outer posexplode posexplode_outer inline inline_outer stack "
        "json_tuple variant_explode variant_explode_outer",
        _RANDOM: "rand random randn randstr uniform uuid shuffle monotonically_increasing_id",
        _SESSION: "user current_user session_user current_catalog current_database "
        "current_schema current_timezone version spark_partition_id input_file_name "
        "input_file_block_start input_file_block_length CurrentUser SessionUser CurrentCatalog "
        "CurrentDatabase CurrentTimeZone SparkVersion InputFileName VariableReference",
        _CODE: "java_method reflect try_reflect CallMethodViaReflection TryReflect",
        _PARAMETER: "ExpressionWithUnresolvedIdentifier NamedParameter PosParameter",
        _ADDED: "ScalaUDF ScalaUDAF PythonUDF PythonUDAF HiveSimpleUDF HiveGenericUDF "
        "SQLFunctionExpression ApplyFunctionExpression",
    }.items()
    for name in names.split()
}
"""Why well-known functions and classes are refused. Others are just not on the list."""

_NOT_NOW = "gives the current time, which is another one tomorrow"
_FIXED_TIME = "write a fixed time, as in sent_at >= timestamp '2026-11-01 00:00:00Z'"
_INSTEAD_OF_NOW = {
    Place.WHERE: f"{_FIXED_TIME}, or use analyze --since 7d",
    Place.PLAN_WHERE: "analyze again with --since",
    Place.POLICY_WHEN: "use age_seconds, which says how old a group's messages are",
    Place.SET_ATTRIBUTES: "write a fixed time",
}
_TIME_TYPES = ("date", "timestamp", "timestamp_ntz", "time")
_FIXED_LITERAL = re.compile(
    r"(?is)(date|time|timestamp(_ntz|_ltz)?)\s*(?P<quote>['\"])\s*[+-]?\d[^'\"\\]*(?P=quote)"
)
"""A typed literal with a fixed time. The parser makes ``timestamp 'now'`` the current time."""

_SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",
    # Otherwise ${env:NAME} in the text becomes the value of an environment variable.
    "spark.sql.variable.substitute": "false",
}


def condition(rows: DataFrame, sql: str, place: Place) -> Column:
    """Return *sql*, which comes from *place*, as a condition over the columns of *rows*.

    Raises:
        InputError: *sql* is not a condition over these columns, or has something that is not
            allowed. The text names *place* and *sql*. Nothing was read, loaded or called.
    """
    try:
        with _strict(rows.sparkSession):
            column = _parsed(rows.sparkSession, sql, place)
            _check_analysed(_without_rows(rows).where(column), place)
    except InputError as error:
        raise InputError(f"{place} {sql!r}: {error}") from error
    return column


def matching(
    rows: DataFrame, where: str | None, place: Place = Place.WHERE, hidden: Sequence[str] = ()
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
    with _strict(rows.sparkSession):
        column = _parsed(rows.sparkSession, sql, Place.SET_ATTRIBUTES)
        frame = _without_rows(rows).select(column.alias("value"))
        _check_analysed(frame, Place.SET_ATTRIBUTES)
    return column, frame.schema["value"].dataType


@contextmanager
def _strict(spark: SparkSession) -> Iterator[None]:
    silence_query_log()
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    try:
        for name, setting in _SETTINGS.items():
            spark.conf.set(name, setting)
        yield
    except SPARK_FAILURES as error:
        # No message was read yet, so Spark's text is about the SQL alone.
        raise InputError(sentence_of(error)) from error
    finally:
        for name, former in before.items():
            spark.conf.set(name, str(former))


def _without_rows(rows: DataFrame) -> DataFrame:
    """Return a frame with these columns only: no file metadata, no columns dropped before."""
    return rows.sparkSession.createDataFrame([], rows.schema)


def _parsed(spark: SparkSession, sql: str, place: Place) -> Column:
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - no public way
    tree = parser.parseExpression(sql)
    for node in _nodes(tree):
        name = _class_name(node)
        if name not in _PARSED:
            raise InputError(_refusal(node.prettyName(), name, place))
        if name == "analysis.UnresolvedFunction":
            _check_function(node, place)
        elif name == "Literal" and _is_time(node):
            _check_literal(node, sql, place)
    jvm: Any = spark._jvm  # noqa: SLF001 - as above
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(tree))


def _check_function(node: _Node, place: Place) -> None:
    parts = node.nameParts()
    name = ".".join(str(parts.apply(number)) for number in range(parts.size()))
    if parts.size() > 1:
        raise InputError(
            f"{name}(): functions with a qualified name are not allowed; write one of Spark's own "
            f"without it: {GUIDE}"
        )
    if name.lower() not in _FUNCTIONS:
        raise InputError(_refusal(f"{name}()", name.lower(), place))


def _is_time(literal: _Node) -> bool:
    return str(literal.dataType().typeName()).partition("(")[0] in _TIME_TYPES


def _check_literal(node: _Node, sql: str, place: Place) -> None:
    start, stop = node.origin().startIndex(), node.origin().stopIndex()
    text = sql[start.get() : stop.get() + 1] if start.isDefined() and stop.isDefined() else ""
    if not _FIXED_LITERAL.fullmatch(text):
        raise InputError(
            f"{text or 'a time'}: {_NOT_NOW}, so a time must begin with a digit; "
            f"{_INSTEAD_OF_NOW[place]}"
        )


def _check_analysed(frame: DataFrame, place: Place) -> None:
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
    for node in chain.from_iterable(map(_nodes, _expressions(plan))):
        name = _class_name(node)
        if name not in _ANALYSED:
            is_added = _WHY.get(name.rpartition(".")[2]) == _ADDED
            what = f"{node.name()}()" if is_added else str(node.prettyName())
            raise InputError(_refusal(what, name, place))
    # The optimizer replaces a cast text such as 'now' or 'today' by the current time.
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - as above
    rules = jvm.org.apache.spark.sql.catalyst.optimizer
    replaced = rules.ReplaceExpressions.apply(plan)
    if not replaced.fastEquals(rules.SpecialDatetimeValues.apply(replaced)):
        raise InputError(
            f"'now', 'today' and the like as a time: {_NOT_NOW}; {_INSTEAD_OF_NOW[place]}"
        )


def _expressions(plan: _Node) -> Iterator[_Node]:
    """Yield the expressions of a plan without joins, except those of its source."""
    while plan.children().size():
        found = plan.expressions()
        yield from (found.apply(number) for number in range(found.size()))
        plan = plan.children().apply(0)


def _nodes(tree: _Node) -> Iterator[_Node]:
    left = [tree]
    while left:
        node = left.pop()
        yield node
        children = node.children()
        left.extend(children.apply(number) for number in range(children.size()))


def _class_name(node: _Node) -> str:
    name = str(node.getClass().getName())
    if name.startswith(_EXPRESSIONS):
        return name.removeprefix(_EXPRESSIONS)
    return name.removeprefix(_CATALYST)


def _refusal(what: str, name: str, place: Place) -> str:
    short = name.rpartition(".")[2]
    why = _WHY.get(short)
    named = what if what.endswith("()") else f"{what} ({short})"
    if why is None:
        return f"{named}: is not allowed here: {GUIDE}"
    if why == _TIME:
        why = f"{_NOT_NOW}; {_INSTEAD_OF_NOW[place]}"
    return f"{named}: {why}"
