"""Records why a consumer failed on a message, for the replay Lambda and the analysis.

The recorder never changes the consumer's behaviour: exceptions pass through unchanged, and if a
failure cannot be recorded, the recorder only logs a warning.

Example:
    Two lines around a Powertools batch::

        recorder = FailureRecorder.from_environment()
        processor = recorder.records_failures_of(BatchProcessor(EventType.SQS))

        @recorder.batch()
        def lambda_handler(event, context):
            return process_partial_response(event, record_handler, processor, context)
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from dlq_replay.consumer.errors import BehindFailureError, VisibilityLostError
from dlq_replay.consumer.identity import message_id_of
from dlq_replay.failures import DEFAULT_TTL_SECONDS, Failure, Redact

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch import BasePartialProcessor, ExceptionInfo

    from dlq_replay.failure_table import FailureTable, Recorded

TABLE_VARIABLE = "FAILURE_TABLE"

_SKIPPED = ("SQSFifoCircuitBreakerError", "SQSFifoMessageGroupCircuitBreakerError")
"""Powertools' exceptions for records that were skipped after a failed one. By name, because
Powertools need not be installed."""

logger = logging.getLogger(__name__)

_Processor = TypeVar("_Processor", bound="BasePartialProcessor")


def masked(text: str) -> str:
    """Mask secrets and personal data in an exception's text with ``dlq_replay.masks``."""
    # Not at import: compiling the patterns takes time, and most starts see no failure.
    from dlq_replay.masks import mask_text  # noqa: PLC0415

    return mask_text(text)


class Table(Protocol):
    """A table of failures. ``failure_table.FailureTable`` is one."""

    def record(self, failures: Sequence[Failure]) -> "Recorded":
        """Write *failures*; return which could not be written, and why."""


# The recorder of the outermost ``with`` and its failures by message id. Each thread, with its
# asyncio tasks, has its own value, so concurrent batches do not mix. A thread that the consumer
# starts inside a batch is not a part of it: its failures are written at once.
_current: ContextVar[tuple["FailureRecorder", dict[str, Failure]] | None] = ContextVar(
    "dlq_replay_failures", default=None
)


@dataclass(eq=False)
class FailureRecorder:
    """Records failures in *table*; does nothing if *table* is None. Thread-safe.

    Attributes:
        table: a test of the consumer may pass a fake.
        redact: takes the text of an exception and returns what may be kept; ``normalization`` then
            takes out ids, numbers and quoted texts. The default hides what ``masked`` finds; None
            hides nothing more.
        ttl_seconds: how long a failure is kept.
        now_seconds: the clock, epoch seconds.
    """

    table: Table | None
    redact: Redact | None = masked
    ttl_seconds: int = DEFAULT_TTL_SECONDS
    now_seconds: Callable[[], int] = lambda: int(time.time())

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        redact: Redact | None = masked,
    ) -> Self:
        """Record in the table that ``FAILURE_TABLE`` names; without the variable, do nothing.

        The client is made at the first failure, so a consumer without failures never creates it.

        Args:
            environment: the variables of the process.
            redact: see the class.
        """
        name = environment.get(TABLE_VARIABLE, "").strip()
        table = _LazyTable(name) if name else None
        return cls(table, redact)

    def record(self, message_id: str, exception: BaseException) -> None:
        """Record that the message failed with *exception*. Never raises.

        Inside a ``batch`` the record is written at the end of the batch. A later failure of the
        same message replaces an earlier one.
        """
        if self.table is None:
            return
        try:
            failure = Failure.of(
                message_id,
                exception,
                self.now_seconds(),
                self.ttl_seconds,
                self.redact,
            )
            with self._collecting(self.table) as collected:
                collected[message_id] = failure
        except Exception as error:  # noqa: BLE001 - the consumer must not fail by its recorder
            logger.warning("a failure was not recorded: %s", type(error).__name__)

    @contextmanager
    def recording(self, record: object) -> Iterator[None]:
        """Record the exception that leaves the block, and raise it again.

        A ``VisibilityLostError`` is not recorded: the consumer that received the message next
        records its result.

        Args:
            record: a record of a Lambda event, a Powertools ``SQSRecord`` or parsed model, a
                message of a ReceiveMessage answer, or a ``Message``.
        """
        with self.batch():
            try:
                yield
            except Exception as exception:
                self._record_for(record, exception)
                raise

    def records_failures_of(self, processor: _Processor) -> _Processor:
        """Record all failures of a Powertools batch *processor*; return the processor.

        Recorded are exceptions of the handler, records that the parser's model refuses, and on FIFO
        records that are skipped because their message group failed (as a
        ``BehindFailureError``). Do not decorate the handler as well.
        """
        handle_failure = processor.failure_handler

        def record_and_handle_failure(record: object, exception: "ExceptionInfo") -> Any:  # noqa: ANN401 - Powertools' own
            error = exception[1]
            if isinstance(error, Exception):
                is_skipped = type(error).__name__ in _SKIPPED
                self._record_for(record, BehindFailureError() if is_skipped else error)
            return handle_failure(record, exception)

        processor.failure_handler = record_and_handle_failure  # type: ignore[method-assign]
        return processor

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Collect the block's failures and write them at its end, each message once.

        As a decorator of a synchronous ``lambda_handler`` it does so for each invocation. A batch
        inside a batch is a part of it. If a time-out ends the function first, nothing is recorded.
        """
        if self.table is None:
            yield
            return
        with self._collecting(self.table):
            yield

    @contextmanager
    def _collecting(self, table: Table) -> Iterator[dict[str, Failure]]:
        outer = _current.get()
        if outer is not None and outer[0] is self:
            yield outer[1]
            return
        failures: dict[str, Failure] = {}
        token = _current.set((self, failures))
        try:
            yield failures
        finally:
            _current.reset(token)
            _write(table, list(failures.values()))

    def _record_for(self, record: object, exception: Exception) -> None:
        if isinstance(exception, VisibilityLostError):
            return
        message_id = message_id_of(record)
        if message_id is not None:
            self.record(message_id, exception)
        elif self.table is not None:
            logger.warning("a failure was not recorded: its record has no message id")


def _write(table: Table, failures: Sequence[Failure]) -> None:
    if not failures:
        return
    try:
        recorded = table.record(failures)
    except Exception as error:  # noqa: BLE001 - the consumer must not fail by its recorder
        logger.warning("failures were not recorded (%d): %s", len(failures), type(error).__name__)
        return
    if recorded.missed:
        missed, reason = len(recorded.missed), recorded.fault
        logger.warning("failures were not recorded (%d): %s", missed, reason)


@dataclass(frozen=True)
class _LazyTable:
    name: str

    def record(self, failures: Sequence[Failure]) -> "Recorded":
        return self._table.record(failures)

    @cached_property
    def _table(self) -> "FailureTable":
        import boto3  # noqa: PLC0415 - not at import, and not before something fails

        from dlq_replay.failure_table import (  # noqa: PLC0415 - the same
            FailureTable,
            table_client_config,
        )

        # A session of its own: boto3's default one must not be used by two threads at a time.
        client = boto3.session.Session().client("dynamodb", config=table_client_config())
        return FailureTable(client, self.name)
