"""Whose a logged exception is. Pure; it never guesses.

A record names a dead letter by the id of its first or last copy, or by a value that no other dead
letter has. An exception belongs to the one dead letter that its own record names; else to the one
that its request names, if the request raised nothing else and no two of its lines differ in ids
alone: such a request handles several messages. What names two dead letters belongs to none.

Of exceptions that the id of the last copy finds the last one counts. All that others find must be
alike, and a value that more than three other requests name counts as nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spark_reprocess.logs.events import MOST_SECONDS, TOKEN, LogEvent, Record, records
from spark_reprocess.logs.exceptions import LoggedError, logged_error

_OTHER_REQUESTS = 3
_LINE_CHARACTERS = 4000
_RECORDS_BETWEEN_SWEEPS = 10_000

Alike = Callable[[str], str]
"""Returns what two texts of one failure have in common."""


class How(StrEnum):
    """What in the log names the dead letter: its id or a value in the trace, or its request."""

    ID = "id"
    VALUE = "value"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter without a recorded error, and when it can have failed, epoch milliseconds.

    *ids* are those of copies; the last is that of the copy that the consumer saw last.
    """

    ids: tuple[str, ...]
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Reason:
    """The exception of a dead letter, how it was found, and the event that begins it."""

    error: LoggedError
    how: How
    event: LogEvent


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A reason, and the tokens that found it: an id, or values."""

    reason: Reason
    tokens: frozenset[str]


@dataclass(slots=True)
class _Request:
    """What a request named (the ids and values of each dead letter), and what it raised.

    *beside* are the words in lines that name one and raise nothing, *of_errors* those in the lines
    of errors: an error that names something else is of something else.
    """

    named: dict[str, set[str]] = field(default_factory=dict)
    raised: list[tuple[LoggedError, LogEvent]] = field(default_factory=list)
    explained: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    of_errors: set[str] = field(default_factory=set)
    ids_by_shape: dict[int, int] = field(default_factory=dict)
    is_batch: bool = False
    last_ms: int = 0


class Matcher:
    """Finds the reasons of dead letters in a log that is read once.

    Args:
        letters: by the id of the first copy.
        values: the dead letter of each value that it alone has.
        alike: see ``Alike``.
    """

    def __init__(
        self, letters: Mapping[str, DeadLetter], values: Mapping[str, str], alike: Alike
    ) -> None:
        self._letters, self._alike = letters, alike
        self._of_id = {one: name for name, letter in letters.items() for one in letter.ids}
        self._of_token = {**values, **self._of_id}
        self._open: dict[str, _Request] = {}
        self._found: dict[str, list[_Sighting]] = {}
        self._others: Counter[str] = Counter()

    def reasons(self, events: Iterable[LogEvent]) -> dict[str, Reason]:
        """Return the reason of each dead letter that has one, by the id of its first copy."""
        for number, record in enumerate(records(events), 1):
            self._read(record)
            if number % _RECORDS_BETWEEN_SWEEPS == 0:
                self._close(record.first.time_ms - MOST_SECONDS * 1000)
        self._close(None)
        return {name: found for name in self._found if (found := self._sure(name))}

    def _read(self, record: Record) -> None:
        event, key = record.first, record.request
        request = _Request() if key is None else self._open.setdefault(key, _Request())
        request.last_ms = max(request.last_ms, event.time_ms)
        text = record.text
        named: dict[str, set[str]] = {}
        for token in TOKEN.findall(text):
            name = self._of_token.get(token)
            letter = self._letters.get(name) if name else None
            if name and letter and letter.first_ms <= event.time_ms <= letter.last_ms:
                named.setdefault(name, set()).add(token)
        for name, tokens in named.items():
            request.named.setdefault(name, set()).update(tokens)
        line = record.lines[0][:_LINE_CHARACTERS].replace(key or "\0", "")
        beside = tuple(TOKEN.findall(line))
        error = logged_error(text)
        if error is not None:
            request.raised.append((error, event))
            request.of_errors.update(beside)
            if len(named) == 1:
                self._see(named, error, event, request)
        elif named:
            request.beside.update(beside)
        if key is None:
            self._count_others(request)
            return
        shape, ids = hash(TOKEN.sub("", line)), hash(beside)
        request.is_batch |= request.ids_by_shape.setdefault(shape, ids) != ids

    def _close(self, before_ms: int | None) -> None:
        """Decide about the requests that wrote nothing since *before_ms*; None for all."""
        ended = [
            key for key, one in self._open.items() if before_ms is None or one.last_ms < before_ms
        ]
        for request in map(self._open.pop, ended):
            is_one = len(request.named) == len(self._kinds(e for e, _ in request.raised)) == 1
            others = request.of_errors - request.beside
            if is_one and not (request.is_batch or others or request.explained):
                self._see(request.named, *request.raised[-1], request, How.REQUEST)
            self._count_others(request)

    def _see(
        self,
        named: Mapping[str, set[str]],
        error: LoggedError,
        event: LogEvent,
        request: _Request,
        how: How | None = None,
    ) -> None:
        """Note the reason of the one dead letter of *named*."""
        [(name, tokens)] = named.items()
        ids = frozenset(tokens).intersection(self._letters[name].ids)
        how = how or (How.ID if ids else How.VALUE)
        seen = _Sighting(Reason(error, how, event), ids or frozenset(tokens))
        self._found.setdefault(name, []).append(seen)
        request.explained |= tokens

    def _count_others(self, request: _Request) -> None:
        for tokens in request.named.values():
            self._others.update(tokens - request.explained)

    def _kinds(self, errors: Iterable[LoggedError]) -> set[tuple[str, str]]:
        return {(error.type, self._alike(error.message)) for error in errors}

    def _sure(self, name: str) -> Reason | None:
        found, ids = self._found[name], self._letters[name].ids
        found.sort(key=lambda one: one.reason.event.time_ms)
        of_last = [one.reason for one in found if ids[-1] in one.tokens]
        if of_last:
            return of_last[-1]
        by_id = [one for one in found if not one.tokens.isdisjoint(ids)]
        tokens = {token for one in by_id or found for token in one.tokens}
        sure = {token for token in tokens if token in ids or self._is_sure(token, found)}
        reasons = [one.reason for one in found if not sure.isdisjoint(one.tokens)]
        return reasons[-1] if len(self._kinds(one.error for one in reasons)) == 1 else None

    def _is_sure(self, value: str, found: Iterable[_Sighting]) -> bool:
        errors = (one.reason.error for one in found if value in one.tokens)
        return self._others[value] <= _OTHER_REQUESTS and len(self._kinds(errors)) == 1
