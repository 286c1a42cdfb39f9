"""Errors of operators' SQL, the same for each engine.

Needs neither sqlglot nor DuckDB, which are loaded at the first SQL.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlq.errors import InputError, SqlError, without_sql

WHERE = "--where"
"""The origin of a piece of SQL that errors name by default."""

SMALLER = (
    "use contains() or fewer repetitions in a pattern, and shorten what it looks at: left(body, n)"
)

LIMIT_SECONDS = 600.0
"""The longest time for which SQL may keep an engine busy. Spark's counts while no task starts or
ends: a task reads up to 128 MB of the archive, and needs seconds."""


@contextmanager
def naming(place: str, sql: str) -> Iterator[None]:
    """Name *place* and *sql* in what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise SqlError(f"{place} {sql!r}: {error}", f"{place}: {without_sql(error)}") from error


def sql_error(sources: Sequence[str], why: str) -> SqlError:
    """Return the error of SQL that comes from *sources*, any of them."""
    return SqlError(f"{' or '.join(sources)}: {why}", f"the SQL {why}")


def too_slow(sources: Sequence[str], row: str, limit_seconds: float) -> SqlError:
    """Return the error of SQL that was stopped at its time limit. *row* is what it looks at."""
    limit = f"{limit_seconds / 60:g} minutes"
    return sql_error(sources, f"takes more than {limit} for some {row}, and was stopped; {SMALLER}")


def no_attribute(type_name: str) -> InputError:
    """Return the error of an expression for a message attribute, which cannot have this type."""
    return InputError(f"gives {type_name}; cast it to string, binary or a number")
