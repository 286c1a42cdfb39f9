"""Whose a logged exception is. Pure; it never guesses.

A record names a dead letter by the id of its first or last copy, or by a value that no other dead
letter has. An exception belongs to the one dead letter that its own record names; else to the one
that its request names, if the request raised nothing else and no two of its lines differ in ids
alone: such a request handles several messages. What names two dead letters belongs to none. What
the platform says of a request, such as a time-out, belongs to each dead letter of which the request
names a copy: all that it worked on failed.

Of exceptions that the id of the last copy finds the last one counts. All that others find must be
alike, and a value that more than three other requests name counts as nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dlq.explain.logs.events import MOST_SECONDS, TOKEN, LogEvent, Record, records
from dlq.explain.logs.exceptions import logged_error
from dlq.explain.logs.traces import LoggedError

_OTHER_REQUESTS = 3
_NUMBERED = re.compile(r"\S*\d\S*")
"""Ids and times."""

_LINE_CHARACTERS = 4000
_RECORDS_BETWEEN_SWEEPS = 10_000

Alike = Callable[[str], str]
"""Returns what the texts of one failure have in common."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter without a recorded error, and when it can have failed, epoch milliseconds.

    *ids* are of its copies, that of the one that the consumer saw last at the end.
    """

    ids: tuple[str, ...]
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Reason:
    """The exception of a dead letter, and the event that begins it.

    *how* it was found: by an ``id`` or a ``value`` in its record, or by its ``request``. *tokens*
    are these ids, or else these values.
    """

    error: LoggedError
    how: str
    event: LogEvent
    tokens: frozenset[str]


@dataclass(slots=True)
class _Request:
    """What a request named (the tokens of each dead letter), what it raised, and how it *ended*.

    *beside* are the words in lines that name one and raise nothing, *of_errors* those in the lines
    of errors: an error that names something else is of something else.
    """

    named: dict[str, set[str]] = field(default_factory=dict)
    raised: list[tuple[LoggedError, LogEvent]] = field(default_factory=list)
    ended: tuple[LoggedError, LogEvent] | None = None
    explained: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    of_errors: set[str] = field(default_factory=set)
    ids_by_shape: dict[int, int] = field(default_factory=dict)
    is_batch: bool = False
    last_ms: int = 0


class Matcher:
    """Finds the reasons of dead letters in a log that is read once.

    *letters* are by the id of the first copy; *values* has the dead letter of each value that it
    alone has.
    """

    def __init__(
        self, letters: Mapping[str, DeadLetter], values: Mapping[str, str], alike: Alike
    ) -> None:
        self._letters, self._alike = letters, alike
        ids = {one: name for name, letter in letters.items() for one in letter.ids}
        self._owners = {**values, **ids}
        self._open: dict[str, _Request] = {}
        self._found: dict[str, list[Reason]] = {}
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
        event, key, text = record.first, record.request, record.text
        request = _Request() if key is None else self._open.setdefault(key, _Request())
        request.last_ms = max(request.last_ms, event.time_ms)
        named: dict[str, set[str]] = {}
        for token in TOKEN.findall(text):
            letter = self._letters.get(name := self._owners.get(token, ""))
            if letter and letter.first_ms <= event.time_ms <= letter.last_ms:
                named.setdefault(name, set()).add(token)
                request.named.setdefault(name, set()).add(token)
        line = record.lines[0][:_LINE_CHARACTERS].replace(key or "\0", "")
        words = tuple(TOKEN.findall(line))
        error = logged_error(text)
        if error is not None and error.ended_request:
            # A line of text has more words than the report after it.
            request.ended = request.ended or (error, event)
            return

        if error is not None:
            request.raised.append((error, event))
            request.of_errors.update(words)
            if len(named) == 1:
                self._see(request, named, error, event)
        elif named:
            request.beside.update(words)
        if key is None:
            self._count_others(request)
            return
        shape, ids = hash(_NUMBERED.sub("", line)), hash(words)
        request.is_batch |= request.ids_by_shape.setdefault(shape, ids) != ids

    def _close(self, before_ms: int | None) -> None:
        """Decide about the requests that wrote nothing since *before_ms*; None for all."""
        ended = [k for k, one in self._open.items() if before_ms is None or one.last_ms < before_ms]
        for request in map(self._open.pop, ended):
            is_one = len(request.named) == len(self._kinds(e for e, _ in request.raised)) == 1
            others = request.of_errors - request.beside
            if is_one and not (request.is_batch or others or request.explained):
                self._see(request, request.named, *request.raised[-1], how="request")
            if request.ended is not None:
                self._see_end(request, *request.ended)
            self._count_others(request)

    def _see_end(self, request: _Request, error: LoggedError, event: LogEvent) -> None:
        """Note how a request ended for each dead letter that it names and says nothing else of."""
        for name, tokens in request.named.items():
            is_explained = not request.explained.isdisjoint(tokens)
            is_certain = not tokens.isdisjoint(self._letters[name].ids)
            is_alone = len(request.named) == 1 and not request.raised and not request.is_batch
            if not is_explained and (is_certain or is_alone):
                self._see(request, {name: tokens}, error, event, how="request")

    def _see(
        self,
        request: _Request,
        named: Mapping[str, set[str]],
        error: LoggedError,
        event: LogEvent,
        how: str = "",
    ) -> None:
        """Note the reason of the one dead letter of *named*."""
        [(name, tokens)] = named.items()
        ids = frozenset(tokens.intersection(self._letters[name].ids))
        how = how or ("id" if ids else "value")
        reason = Reason(error, how, event, ids or frozenset(tokens))
        self._found.setdefault(name, []).append(reason)
        request.explained |= tokens

    def _count_others(self, request: _Request) -> None:
        for tokens in request.named.values():
            self._others.update(tokens - request.explained)

    def _kinds(self, errors: Iterable[LoggedError]) -> set[tuple[str, str]]:
        return {(error.type, self._alike(error.message)) for error in errors}

    def _sure(self, name: str) -> Reason | None:
        found = sorted(self._found[name], key=lambda one: one.event.time_ms)
        ids = self._letters[name].ids
        if of_last := [one for one in found if ids[-1] in one.tokens]:
            return of_last[-1]
        by_id = [one for one in found if not one.tokens.isdisjoint(ids)]
        tokens = {token for one in by_id or found for token in one.tokens}
        sure = {token for token in tokens if token in ids or self._is_sure(token, found)}
        reasons = [one for one in found if not sure.isdisjoint(one.tokens)]
        return reasons[-1] if len(self._kinds(one.error for one in reasons)) == 1 else None

    def _is_sure(self, value: str, found: Iterable[Reason]) -> bool:
        kinds = self._kinds(one.error for one in found if value in one.tokens)
        return self._others[value] <= _OTHER_REQUESTS and len(kinds) == 1
