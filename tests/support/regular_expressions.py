"""Checks on the syntax tree of a regular expression: does its time grow with the text alone?

Time is in proportion to the text where each attempt at a match is bounded, or uses up what it
reads:

- A repeat has an upper bound, or nothing that follows it can fail: then the match has succeeded,
  and the next attempt begins behind it.
- A repeat never gives back what it took (it is possessive), or no character of it can begin what
  follows: then there is one way to match a text, and nothing to try again.
"""

import re
import re._compiler as compiler  # type: ignore[import-not-found]
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator, Sequence
from typing import Any

MOST_REPEATS = 256
_ALPHABET = [chr(n) for n in range(0x250)]
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_WITHOUT_WIDTH = (c.AT, c.ASSERT, c.ASSERT_NOT)
_REFERENCE_CHARACTERS = 32
Characters = frozenset[str]


def faults(pattern: re.Pattern[str], *, is_anchored: bool = False) -> list[str]:
    """Say what could make *pattern* take more than time in proportion to the text.

    Args:
        pattern: the pattern.
        is_anchored: whether it is tried at one place only; then a repeat may be unbounded.
    """
    return list(_faults(_tree(pattern), frozenset(), fails_later=False, is_anchored=is_anchored))


def reach(pattern: re.Pattern[str]) -> int:
    """Return how many characters *pattern* reads at most, but for its unbounded end."""
    return _reach(_tree(pattern))


def _tree(pattern: re.Pattern[str]) -> Any:
    return parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)


def _faults(
    items: Any, follow: Characters, *, fails_later: bool, is_anchored: bool
) -> Iterator[str]:
    for place, (kind, argument) in enumerate(items):
        rest = items[place + 1 :]
        after = _first(rest) | (follow if _may_be_empty(rest) else frozenset())
        can_fail = fails_later or any(
            kind not in _REPEATS or argument[0] > 0 for kind, argument in rest
        )
        if kind in _REPEATS:
            least, most, body = argument
            first = _first(body)
            if most > MOST_REPEATS and (can_fail or kind is c.MIN_REPEAT) and not is_anchored:
                yield f"unbounded, and what follows can fail: {body}"
            if kind is not c.POSSESSIVE_REPEAT and least != most and first & after:
                yield f"can end in several places: {body}"
            after |= first if most > 1 else frozenset()
        for body in _bodies(kind, argument):
            yield from _faults(body, after, fails_later=can_fail, is_anchored=is_anchored)


def _bodies(kind: Any, argument: Any) -> Sequence[Any]:
    if kind in _REPEATS:
        return [argument[2]]
    if kind is c.SUBPATTERN:
        return [argument[3]]
    if kind is c.BRANCH:
        return list(argument[1])
    return [argument] if kind is c.ATOMIC_GROUP else []


def _may_be_empty(items: Any) -> bool:
    return bool(items.getwidth()[0] == 0)


def _first(items: Any) -> Characters:
    """The characters that can begin what *items* match."""
    found: Characters = frozenset()
    for place, (kind, argument) in enumerate(items):
        item = items[place : place + 1]
        if bodies := _bodies(kind, argument):
            found = found.union(*map(_first, bodies))
        elif kind is c.GROUPREF:
            found |= frozenset("\\\"'")
        elif kind not in _WITHOUT_WIDTH:
            # Either case: a part of the pattern may not care.
            for flags in (0, re.IGNORECASE):
                found |= frozenset(filter(compiler.compile(item, flags).fullmatch, _ALPHABET))
        if not _may_be_empty(item):
            break
    return found


def _reach(items: Any) -> int:
    total = 0
    for kind, argument in items:
        bodies = [_reach(body) for body in _bodies(kind, argument)]
        if kind in _REPEATS:
            total += bodies[0] * (argument[1] if argument[1] <= MOST_REPEATS else argument[0])
        elif kind is c.GROUPREF:
            total += _REFERENCE_CHARACTERS
        elif kind not in _WITHOUT_WIDTH:
            total += max(bodies, default=1)
    return total
