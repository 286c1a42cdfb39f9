"""Find the dead letter of each logged exception. Pure; it never guesses.

A record names a dead letter by the id of its first or last copy, or by a value that no other dead
letter has. An exception belongs to the one dead letter that its own record names. Else it belongs
to the one that its request names, if the request raised nothing else and no two of its lines differ
in ids alone: such a request handles several messages. What names two dead letters belongs to none.
What the platform says of a request, such as a time-out, belongs to each dead letter of which the
request names a copy: all that it worked on failed.

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
"""Returns the common part of the texts of one failure."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter without a recorded error, and the time in which it can have failed.

    *ids* are of its copies, the one that the consumer saw last at the end. *first_ms* and *last_ms*
    are epoch milliseconds.
    """

    ids: tuple[str, ...]
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class MatchedError:
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
    """A request, as far as the log was read.

    Attributes:
        named: the tokens by which it named each dead letter.
        raised: the errors that it logged.
        ended: how it ended, if the platform says so.
        explained: the tokens of dead letters whose reason is known.
        beside: the words in lines that name a dead letter and raise nothing.
        of_errors: the words in the lines of errors: an error that names something else is about
            something else.
        ids_by_shape: a hash of the ids in a line, by a hash of the line without them.
        is_batch: whether two lines differ in ids alone.
        last_ms: the time of its last line.
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
        self._letters = letters
        self._alike = alike
        self._owners = dict(values)
        for letter_id, letter in letters.items():
            self._owners.update(dict.fromkeys(letter.ids, letter_id))
        self._open: dict[str, _Request] = {}
        self._found: dict[str, list[MatchedError]] = {}
        self._others: Counter[str] = Counter()

    def reasons(self, events: Iterable[LogEvent]) -> dict[str, MatchedError]:
        """Return the reason of each dead letter that has one, by the id of its first copy."""
        for number, record in enumerate(records(events), 1):
            self._read(record)
            if number % _RECORDS_BETWEEN_SWEEPS == 0:
                self._close(record.first.time_ms - MOST_SECONDS * 1000)
        self._close(None)

        reasons = {}
        for letter_id in self._found:
            reason = self._sure(letter_id)
            if reason is not None:
                reasons[letter_id] = reason
        return reasons

    def _read(self, record: Record) -> None:
        event = record.first
        text = record.text
        request_id = record.request
        request = _Request()
        if request_id is not None:
            request = self._open.setdefault(request_id, request)
        request.last_ms = max(request.last_ms, event.time_ms)
        named = self._named(text, event.time_ms)
        for letter_id, tokens in named.items():
            request.named.setdefault(letter_id, set()).update(tokens)

        line = record.lines[0][:_LINE_CHARACTERS].replace(request_id or "\0", "")
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

        if request_id is None:
            self._count_others(request)
            return
        shape = hash(_NUMBERED.sub("", line))
        ids = hash(words)
        request.is_batch |= request.ids_by_shape.setdefault(shape, ids) != ids

    def _named(self, text: str, time_ms: int) -> dict[str, set[str]]:
        """Return the dead letters that a text names, each with the tokens that name it."""
        named: dict[str, set[str]] = {}
        for token in TOKEN.findall(text):
            letter_id = self._owners.get(token, "")
            letter = self._letters.get(letter_id)
            if letter and letter.first_ms <= time_ms <= letter.last_ms:
                named.setdefault(letter_id, set()).add(token)
        return named

    def _close(self, before_ms: int | None) -> None:
        """Decide about the requests that wrote nothing since *before_ms*; None for all."""
        for request_id, request in list(self._open.items()):
            if before_ms is None or request.last_ms < before_ms:
                del self._open[request_id]
                self._decide(request)

    def _decide(self, request: _Request) -> None:
        """Note the reasons that a request as a whole gives."""
        kinds = self._kinds(error for error, _ in request.raised)
        is_one = len(request.named) == len(kinds) == 1
        others = request.of_errors - request.beside
        if is_one and not (request.is_batch or others or request.explained):
            error, event = request.raised[-1]
            self._see(request, request.named, error, event, how="request")
        if request.ended is not None:
            error, event = request.ended
            self._see_end(request, error, event)
        self._count_others(request)

    def _see_end(self, request: _Request, error: LoggedError, event: LogEvent) -> None:
        """Note how a request ended for each dead letter that it names and says nothing else of."""
        for letter_id, tokens in request.named.items():
            is_explained = not request.explained.isdisjoint(tokens)
            is_certain = not tokens.isdisjoint(self._letters[letter_id].ids)
            is_alone = len(request.named) == 1 and not request.raised and not request.is_batch
            if not is_explained and (is_certain or is_alone):
                self._see(request, {letter_id: tokens}, error, event, how="request")

    def _see(
        self,
        request: _Request,
        named: Mapping[str, set[str]],
        error: LoggedError,
        event: LogEvent,
        how: str = "",
    ) -> None:
        """Note the reason of the one dead letter of *named*."""
        [(letter_id, tokens)] = named.items()
        ids = frozenset(tokens.intersection(self._letters[letter_id].ids))
        how = how or ("id" if ids else "value")
        reason = MatchedError(error, how, event, ids or frozenset(tokens))
        self._found.setdefault(letter_id, []).append(reason)
        request.explained |= tokens

    def _count_others(self, request: _Request) -> None:
        for tokens in request.named.values():
            self._others.update(tokens - request.explained)

    def _kinds(self, errors: Iterable[LoggedError]) -> set[tuple[str, str]]:
        return {(error.type, self._alike(error.message)) for error in errors}

    def _sure(self, letter_id: str) -> MatchedError | None:
        """Return the last reason of a dead letter, if it is certain."""
        reasons = sorted(self._found[letter_id], key=lambda reason: reason.event.time_ms)
        ids = self._letters[letter_id].ids
        by_last_id = _found_by(ids[-1:], reasons)
        if by_last_id:
            return by_last_id[-1]

        tokens = set[str]()
        for reason in _found_by(ids, reasons) or reasons:
            tokens.update(reason.tokens)
        sure_tokens = {token for token in tokens if token in ids or self._is_sure(token, reasons)}
        sure = _found_by(sure_tokens, reasons)
        kinds = self._kinds(reason.error for reason in sure)
        return sure[-1] if len(kinds) == 1 else None

    def _is_sure(self, value: str, reasons: Iterable[MatchedError]) -> bool:
        kinds = self._kinds(reason.error for reason in _found_by((value,), reasons))
        return self._others[value] <= _OTHER_REQUESTS and len(kinds) == 1


def _found_by(tokens: Iterable[str], reasons: Iterable[MatchedError]) -> list[MatchedError]:
    """Return the reasons that at least one of these tokens found."""
    wanted = frozenset(tokens)
    return [reason for reason in reasons if not wanted.isdisjoint(reason.tokens)]
