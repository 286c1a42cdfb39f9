"""Records why a consumer failed on a message, for the replay Lambda and the analysis.

The recorder never changes the consumer's behaviour: exceptions pass through unchanged, and if a
failure cannot be recorded, the recorder only logs a warning. ``docs/failures.md`` shows its use.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dlq_replay.consumer.identity import message_id_of
from dlq_replay.errors import BehindFailureError, VisibilityLostError
from dlq_replay.rules.failures import Failure, Redact

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch import BasePartialProcessor, ExceptionInfo

    from dlq_replay.aws.failure_table import FailureTable

_SKIPPED = ("SQSFifoCircuitBreakerError", "SQSFifoMessageGroupCircuitBreakerError")
"""Powertools' exceptions for records that were skipped after a failed one. By name, because
Powertools need not be installed."""

logger = logging.getLogger(__name__)

_Processor = TypeVar("_Processor", bound="BasePartialProcessor")


def masked(text: str) -> str:
    """Mask secrets and personal data in an exception's text with ``dlq_replay.text.masks``."""
    # Not at import: compiling the patterns takes time, and most starts see no failure.
    from dlq_replay.text.masks import mask_text  # noqa: PLC0415

    return mask_text(text)


Write = Callable[[Sequence[Failure]], str | None]
"""Writes failures; says what was not written and why. ``failure_table.FailureTable.record``."""


@dataclass(eq=False)
class FailureRecorder:
    """Records failures by *write*; does nothing if that is None. Thread-safe.

    Attributes:
        write: a test of the consumer may pass a fake.
        redact: takes the text of an exception and returns what may be kept; ``normalization`` then
            takes out ids, numbers and quoted texts. The default hides what ``masked`` finds; None
            hides nothing more.
        now_seconds: the clock, epoch seconds.
    """

    write: Write | None
    redact: Redact | None = masked
    now_seconds: Callable[[], int] = lambda: int(time.time())
    # Each thread, with its asyncio tasks, has its own value, so concurrent batches do not mix. A
    # thread that the consumer starts inside a batch is not a part of it: it writes at once.
    _failures: ContextVar[dict[str, Failure] | None] = field(
        default_factory=lambda: ContextVar("failures", default=None), init=False
    )

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        redact: Redact | None = masked,
    ) -> Self:
        """Record in the table that ``FAILURE_TABLE`` names; without the variable, do nothing.

        The client is made at the first failure, so a consumer without failures never creates it.
        """
        name = environment.get("FAILURE_TABLE", "").strip()
        table = cache(lambda: _table(name))
        return cls((lambda failures: table().record(failures)) if name else None, redact)

    def record(
        self, received: object, exception: BaseException, error_code: str | None = None
    ) -> None:
        """Record that a message failed with *exception*. Never raises.

        A ``VisibilityLostError`` is not recorded: the consumer that received the message next
        records its result. Inside a ``batch`` the record is written at the end of the batch. A
        later failure of the same message replaces an earlier one.

        Args:
            received: the message in any form that ``first_id`` takes, or its id.
            exception: why it failed.
            error_code: names the failure: messages with the same type and code are one group,
                whatever the texts say. It has 1 to 64 letters, digits, ``_``, ``-``, ``.`` and
                ``:``; anything else is ignored. Without it the exception's ``error_code`` counts.
        """
        if self.write is None or isinstance(exception, VisibilityLostError):
            return
        message_id = received if isinstance(received, str) else message_id_of(received)
        if not message_id:
            logger.warning("a failure was not recorded: its record has no message id")
            return
        failure = Failure.of(message_id, exception, self.now_seconds(), self.redact, error_code)
        with self.batch() as collected:
            collected[message_id] = failure

    def records_failures_of(self, processor: _Processor) -> _Processor:
        """Record all failures of a Powertools batch *processor*; return the processor.

        Recorded are exceptions of the handler, records that the parser's model refuses, and on FIFO
        records that are skipped because their message group failed (as a
        ``BehindFailureError``).
        """
        handle_failure = processor.failure_handler

        def record_and_handle_failure(record: object, exception: "ExceptionInfo") -> Any:  # noqa: ANN401 - Powertools' own
            error = exception[1]
            if isinstance(error, Exception):
                is_skipped = type(error).__name__ in _SKIPPED
                self.record(record, BehindFailureError() if is_skipped else error)
            return handle_failure(record, exception)

        processor.failure_handler = record_and_handle_failure  # type: ignore[method-assign]
        return processor

    @contextmanager
    def batch(self) -> Iterator[dict[str, Failure]]:
        """Collect the block's failures by message id, and write them at its end.

        As a decorator of a synchronous ``lambda_handler`` it does so for each invocation. A batch
        inside a batch is a part of it. If a time-out ends the function first, nothing is recorded.
        """
        if (outer := self._failures.get()) is not None:
            yield outer
            return
        failures: dict[str, Failure] = {}
        token = self._failures.set(failures)
        try:
            yield failures
        finally:
            self._failures.reset(token)
            if failures and self.write is not None:
                try:
                    fault = self.write(list(failures.values()))
                except Exception as error:  # noqa: BLE001 - the consumer must not fail by it
                    fault = type(error).__name__
                if fault:
                    logger.warning("failures were not recorded: %s", fault)


def _table(name: str) -> "FailureTable":
    import boto3  # noqa: PLC0415 - not at import, and not before something fails

    from dlq_replay.aws.answers import with_checked_answers  # noqa: PLC0415
    from dlq_replay.aws.failure_table import FailureTable, table_client_config  # noqa: PLC0415

    # A session of its own: boto3's default one must not be used by two threads at a time.
    session = with_checked_answers(boto3.session.Session())
    client = session.client("dynamodb", config=table_client_config())
    return FailureTable(client, name)
