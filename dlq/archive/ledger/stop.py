"""Why a run stopped before its end.

The cause alone decides: the exit code, and whether other destinations go on. Sentence and detail
are for people; no code reads them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from dlq.archive.ledger.claims import run_folder
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import DAMAGE, record_bytes, record_of
from dlq_replay.rules.failures import one_line

_SHOWN_CHARACTERS = 200
"""Of a stop marker that this program did not write, this much is shown."""


class StopCause(StrEnum):
    """The cause of a stop. The values are in stop markers and JSON answers: they never change.

    Attributes:
        sentence: for people, without a full stop.
        exit_code: of a command whose run ended with this cause; see ``dlq.cli.verb``.
        stops_one_destination: the run goes on with its other queues. Other causes end the run.
    """

    sentence: str
    exit_code: int
    stops_one_destination: bool

    def __new__(
        cls,
        value: str,
        sentence: str = "",
        exit_code: int = 4,
        stops_one_destination: bool = False,
    ) -> Self:
        """Make a member; the defaults are there so that mypy takes ``StopCause(value)``."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        member.exit_code = exit_code
        member.stops_one_destination = stops_one_destination
        return member

    INTERRUPTED = "interrupted", "interrupted", 130
    TIME_OVER = "time_over", "its time budget is over"
    ARCHIVE = "archive", "the archive cannot be used"
    QUEUE = "queue", "the queue takes no messages", 4, True
    NO_ANSWERS = "no_answers", "SQS takes no messages"
    LOCK_LOST = "lock_lost", "it has lost the archive lock"
    UNKNOWN = "unknown", "somebody else wrote a stop marker"
    BREAKER = "breaker", "waiting for the breaker", 4, True
    FAILURE_TABLE = "failure_table", "waiting for the failure table", 4, True
    RAMP = "ramp", "waiting for the ramp", 4, True
    BAD_STEP = "bad_step", "more messages failed again than allowed", 3, True
    FUNCTION = "function", "the function gave no answer", 2
    INPUT = "input", "a message cannot be used", 2


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop. The *detail* beside its cause is for people alone, and may be empty."""

    cause: StopCause
    detail: str = ""

    @property
    def sentence(self) -> str:
        """Cause and detail, for people, without a full stop."""
        if not self.detail:
            return self.cause.sentence
        return f"{self.cause.sentence}: {self.detail}"


def foremost(stops: Iterable[Stop]) -> Stop | None:
    """Return the most important stop: one of the whole run before one of a destination.

    Of several equal ones the first; None if there is none.
    """
    return min(stops, key=lambda stop: stop.cause.stops_one_destination, default=None)


def stop_of(values: object) -> Stop:
    """Make a stop of its values in JSON; of other values one with the cause ``UNKNOWN``."""
    try:
        return record_of(Stop, values)
    except DAMAGE:
        return Stop(StopCause.UNKNOWN, one_line(str(values))[:_SHOWN_CHARACTERS])


def read_marker(content: bytes) -> Stop:
    """Read a stop marker. A damaged or foreign one is a stop, too."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        values = content.decode(errors="replace")
    return stop_of(values)


def record_stop(archive: Archive, plan_id: str, run_id: str, stop: Stop) -> None:
    """Write, for people, why a run ended early.

    Raises:
        ArchiveError: it cannot be written. Nothing depends on it.
    """
    archive.create(_path(plan_id, run_id), record_bytes(stop))


def recorded_stop(archive: Archive, plan_id: str, run_id: str) -> Stop | None:
    """Read why a run ended early; None if it did not, still goes on, or was killed."""
    content = archive.read(_path(plan_id, run_id))
    return None if content is None else read_marker(content)


def _path(plan_id: str, run_id: str) -> str:
    return f"{run_folder(plan_id, run_id)}/stop.json"
