"""Evaluate operators' SQL over a table of Arrow by DuckDB, in this process and without a JVM.

``duckdb_sql`` checks the SQL and writes it for DuckDB. What reaches DuckDB is one ``SELECT`` of
that expression over one table. The connection is a second wall: it has no file, no network, no
extension that must be loaded, no name of Python's, and no setting that can be changed.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import FunctionNullHandling

from dlq.sql.duckdb_sql import DuckSql, condition_for_duckdb, for_duckdb
from dlq.sql.duckdb_terms import FAILURE_MARK, NEEDS_SPARK, plain_type
from dlq.sql.spark_functions import NeedsSparkError, forget_values
from dlq.sql.sql_errors import LIMIT_SECONDS, SMALLER, WHERE, sql_error, too_slow

T = TypeVar("T")

MEMORY_LIMIT = "1GiB"
"""The memory that DuckDB itself may take; it never writes to disk instead. It does not count the
texts that it makes: ``_BUDGET_BYTES`` bounds those."""

_BUDGET_BYTES = 512 * 2**20
"""The most that all parts of an expression may make of the rows that DuckDB works on at a time. The
local engine is for 256 MiB of bodies at most, which are in memory already."""

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": MEMORY_LIMIT,
    # Functions in Python run one at a time, and a batch is too small to share.
    "threads": "1",
}
_LATER_SETTINGS = (
    "SET temp_directory = ''",
    "SET python_enable_replacements = false",
    "SET python_scan_all_frames = false",
    # It may evaluate what Spark does not, and the reverse: a part that fails must fail in both.
    "SET enable_optimizer = false",
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_TABLE = "messages"
_BATCH_ROWS = 1000

_LOOK_SECONDS = 0.5
"""The interval at which the caller's thread wakes up, so that Ctrl-C is noticed."""

_END_SECONDS = 10.0
"""The wait for a query that was interrupted: DuckDB looks after each part of a batch."""


def matching(
    condition: str,
    table: pa.Table,
    place: str = WHERE,
    *,
    hidden: Sequence[str] = (),
    row: str = "message",
    limit_seconds: float = LIMIT_SECONDS,
) -> "pa.Array[Any]":
    """Return for each row of *table* whether *condition* is true; NULL counts as false.

    Args:
        condition: a condition of Spark SQL over the columns of *table* but for *hidden*.
        table: as the archive's schema is, or that of the groups.
        place: where the condition comes from.
        hidden: columns that it cannot name.
        row: the name of a row in errors.
        limit_seconds: the longest time that it may take; then it is stopped.

    Raises:
        SqlError: *condition* is refused, fails on a row, takes too long, or needs too much memory.
            The text names *place* and *condition*, and quotes no row.
        KeyboardInterrupt: Ctrl-C. DuckDB has stopped.
    """
    seen = table.drop_columns(list(hidden)) if hidden else table
    written = condition_for_duckdb(condition, seen.schema, place)
    source = f"{place} {condition!r}"
    results = _evaluated(written, seen, source, row, limit_seconds)
    return results.cast(pa.bool_()).fill_null(False)  # noqa: FBT003 - a value


def values(
    sql: str,
    table: pa.Table,
    source: str,
    *,
    as_text: bool = False,
    row: str = "message",
    limit_seconds: float = LIMIT_SECONDS,
) -> "pa.Array[Any]":
    """Return for each row of *table* what *sql*, an expression of Spark SQL, gives.

    With *as_text* that is cast to a text, as Spark does it.

    Raises:
        InputError: *sql* is refused; the text names neither where it comes from nor all of it.
        SqlError: as for ``matching``; the text names *source*.
    """
    written = for_duckdb(sql, table.schema, as_text=as_text)
    return _evaluated(written, table, source, row, limit_seconds)


def _evaluated(
    written: DuckSql, table: pa.Table, source: str, row: str, limit_seconds: float
) -> "pa.Array[Any]":
    """Evaluate SQL over a table. Raises SqlError, and forgets the bodies that it has read."""
    query = _Query(written, table)
    try:
        results = _within(query.run, query.stop, limit_seconds)
    except TimeoutError as error:
        raise too_slow([source], row, limit_seconds) from error
    except duckdb.OutOfMemoryException as error:
        why = f"needs more memory than {MEMORY_LIMIT} for some {row}; {SMALLER}"
        raise sql_error([source], why) from error
    except duckdb.Error as error:
        why = f"fails on a {row}: {_reason(error)}; use forms that give null instead, e.g. try_cast"
        if query.faults:
            why = f"{NEEDS_SPARK}: a {row} has {query.faults[0]}"
        # Without the cause: DuckDB quotes the value.
        raise sql_error([source], why) from None
    finally:
        forget_values()

    if pa.types.is_null(written.type):
        return pa.nulls(table.num_rows)
    arrays = [result.cast(written.type) for result in results]
    return pa.concat_arrays(arrays) if arrays else pa.array([], written.type)


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory that reaches nothing else."""
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        for setting in _LATER_SETTINGS:
            connection.execute(setting)
        yield connection


class _Query:
    """One expression over a table; ``stop`` may be called from another thread than ``run``."""

    def __init__(self, written: DuckSql, table: pa.Table) -> None:
        self.faults: list[NeedsSparkError] = []
        """Errors that a function in Python raised: DuckDB itself keeps only their texts."""
        self._written = written
        self._table = table
        self._is_stopped = threading.Event()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def run(self) -> "list[pa.Array[Any]]":
        """Return the results in parts.

        Raises:
            TimeoutError: ``stop`` was called.
        """
        columns = [self._table.column(name) for name in self._written.columns]
        most_bytes = _BUDGET_BYTES // self._written.growth
        select = f"SELECT {self._written.text} FROM {_TABLE}"  # noqa: S608 - checked

        results: list[pa.Array[Any]] = []
        with connected() as connection:
            self._connection = connection
            for name, function in self._written.functions.items():
                call = self._guarded(function.call)
                connection.create_function(
                    name,
                    call,
                    [function.takes],
                    function.gives,
                    null_handling=FunctionNullHandling.SPECIAL,
                )

            for batch in _batches(columns, self._table.num_rows, most_bytes):
                self._require_time()
                connection.register(_TABLE, batch)
                results += connection.sql(select).to_arrow_table().column(0).chunks
                connection.unregister(_TABLE)
        return results

    def stop(self) -> None:
        """End ``run`` soon."""
        self._is_stopped.set()
        if self._connection is not None:
            self._connection.interrupt()

    def _require_time(self) -> None:
        if self._is_stopped.is_set():
            raise TimeoutError

    def _guarded(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guarded(value: Any) -> Any:  # noqa: ANN401 - any type of DuckDB
            self._require_time()
            try:
                return call(value)
            except NeedsSparkError as error:
                self.faults.append(error)
                raise

        return guarded


def _batches(
    columns: "Sequence[pa.ChunkedArray[Any]]", rows: int, most_bytes: int
) -> Iterator[pa.Table]:
    """Yield the columns as ``c0``, ``c1``, … in batches of rows.

    A batch has at most *most_bytes* of text and ``_BATCH_ROWS`` rows, but at least one row.
    """
    plain: dict[str, Any] = {}
    for number, column in enumerate(columns):
        plain[f"c{number}"] = column.cast(plain_type(column.type))
    # A table without columns has no rows.
    table = pa.table({**plain, "row": pa.nulls(rows)})

    start = 0
    batch_bytes = 0
    for position, row_bytes in enumerate(_text_sizes(columns, rows).tolist()):
        is_full = batch_bytes + row_bytes > most_bytes or position - start >= _BATCH_ROWS
        if is_full and position > start:
            yield table.slice(start, position - start)
            start = position
            batch_bytes = 0
        batch_bytes += row_bytes
    if rows > start:
        yield table.slice(start)


def _text_sizes(columns: "Sequence[pa.ChunkedArray[Any]]", rows: int) -> "npt.NDArray[np.int64]":
    """Return the bytes of text in each row."""
    sizes = np.zeros(rows, np.int64)
    for column in columns:
        if pa.types.is_string(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0)
            sizes += lengths.to_numpy()
    return sizes


def _within(call: Callable[[], T], stop: Callable[[], None], limit_seconds: float) -> T:
    """Return what *call* returns, in another thread; stop it at the limit, and at Ctrl-C.

    Raises:
        TimeoutError: it took longer.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            result.set_exception(error)

    thread = threading.Thread(target=run, name="evaluate", daemon=True)
    thread.start()

    try:
        left_seconds = limit_seconds
        while left_seconds > 0 and not wait([result], min(left_seconds, _LOOK_SECONDS)).done:
            left_seconds -= _LOOK_SECONDS
        if result.done():
            return result.result()
        raise TimeoutError
    finally:
        if not result.done():
            stop()
            thread.join(_END_SECONDS)


def _reason(error: duckdb.Error) -> str:
    """Return why an evaluation fails, without the value on which it does."""
    raised_by_sql = re.search(f"{FAILURE_MARK}(.*)", str(error))
    if raised_by_sql is not None:
        return raised_by_sql[1]
    if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException):
        return "a number or a time is too large for its type"
    return f"DuckDB cannot evaluate it ({type(error).__name__})"
