"""The interface to the engines, which work on bodies: on this machine, or on those of Spark.

Everything about ids is done where a verb runs, as tables of Arrow. Work on bodies has one form: a
list of partitions, and a function from record batches to record batches. Both engines give the same
rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Function = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Takes the batches of a partition. It is called on another machine, and must be picklable."""

ATTEMPT: ContextVar[int] = ContextVar("attempt", default=1)
"""The attempt for which an engine calls a function, from 1: Spark repeats what failed."""


def _never() -> bool:
    return False


STOPPED: ContextVar[Callable[[], bool]] = ContextVar("stopped", default=_never)
"""Returns whether nobody waits for the function any more: another one failed, or Ctrl-C came. Spark
ends such a function by force; a thread can only ask. Read it in the thread of the function."""


@dataclass(frozen=True, slots=True)
class Work:
    """Rows that are made where they are needed, and never all at once.

    Attributes:
        partitions: what each call of *function* gets, such as the paths of files. It is called for
            a partition without any row, too.
        function: makes the rows of a partition. An engine may call it again for the same one.
        schema: exactly that of the batches that it yields. Spark has no dictionaries: none here.
    """

    partitions: Sequence[pa.Table]
    function: Function
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Exchange:
    """The assignment of rows to the tasks that need them.

    Attributes:
        tasks: the number of tasks, at least 1.
        task: a column with the number of the row's task, from 0, for each row.
        order: the columns by which the rows of a task are sorted. They have no nulls.
    """

    tasks: int
    task: str
    order: Sequence[str]


AttributeSql = Mapping[str, Sequence[tuple[str, str | None]]]
"""By group id: names of message attributes, with an expression of SQL for the value; None for an
attribute that is removed."""

GROUP_ID = "group_id"
"""The column with the group of a row, which selects its ``AttributeSql``."""

CHANGES = "attribute_changes"
"""The column that ``Engine.run_edited`` adds: the results of ``AttributeSql`` for this row, a list
of ``CHANGE``; null where the row's group has none."""

CHANGE = pa.struct(
    [
        ("name", pa.string()),
        ("data_type", pa.string()),
        ("string_value", pa.string()),
        ("binary_value", pa.binary()),
    ]
)
"""A new value of an attribute. Its type is one of SQS's; both values are null where the attribute
is removed."""


class Engine(Protocol):
    """Runs work, and evaluates the SQL of operators over its rows.

    Each method raises the ArchiveError or InputError that a function raises, with its text, and
    KeyboardInterrupt after Ctrl-C. Any other error of a function is a bug.
    """

    @property
    def name(self) -> str:
        """Its name, as ``--engine`` takes it."""
        ...

    @property
    def slots(self) -> int:
        """The number of partitions that are worked on at the same time, at least 1."""
        ...

    @property
    def may_grow(self) -> bool:
        """True if it may get more slots while partitions wait."""
        ...

    @property
    def application_id(self) -> str | None:
        """The name under which its owner's logs know this run; None if there are none."""
        ...

    @property
    def holds_rows(self) -> bool:
        """True if this process holds all rows of an exchange at once."""
        ...

    @property
    def reserved_bytes(self) -> int:
        """Memory of this machine that it may still take, beside what this process takes."""
        ...

    def run(self, work: Work) -> pa.Table:
        """Do *work*; return its rows, in any order.

        Each partition's rows are returned once. Its function has run once, or more often where a
        machine failed.
        """
        ...

    def run_where(
        self,
        work: Work,
        where: str,
        columns: Sequence[str],
        hidden: Sequence[str] = (),
        *,
        place: str = ...,
        row: str = ...,
    ) -> pa.Table:
        """Do *work*; return *columns* of the rows for which *where* is true.

        Args:
            work: makes the rows.
            where: a condition over the columns of the rows but for *hidden*.
            columns: of the result.
            hidden: what *where* cannot name.
            place: where the condition comes from, for errors; the default is ``--where``.
            row: what a row is, for errors; the default is ``message``.

        Raises:
            SqlError: it is no such condition, or it fails on a row, or takes too long, or too much
                memory. The text names it, and quotes no row.
        """
        ...

    def run_edited(
        self,
        work: Work,
        attributes: AttributeSql,
        then: Work,
        exchange: Exchange | None = None,
    ) -> pa.Table:
        """Do *work*, add ``CHANGES`` to its rows, and give them to the function of *then*.

        The partitions of *then* are not used: its function gets the rows of one partition of
        *work*, or with an *exchange* those of one task, sorted; of a task without rows, too, unless
        *work* has no partitions. The SQL may name ``READ_COLUMNS`` that the rows have.

        Raises:
            SqlError: the SQL is refused, fails on a row, takes too long, or too much memory. The
                text names the group, and quotes no row.
        """
        ...

    def check_condition(self, sql: str, schema: pa.Schema, place: str) -> None:
        """Raise SqlError where *sql*, which comes from *place*, is no condition over these columns.

        The text names *place*, *sql* and the part.
        """
        ...

    def attribute_fault(self, sql: str) -> str | None:
        """Return why an expression of ``set_attributes`` is refused; None if it is not."""
        ...
