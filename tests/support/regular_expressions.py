"""Checks on the syntax tree of a regular expression: does its time grow with the text alone?

Time is in proportion to the text where each attempt at a match is bounded, or uses up what it
reads:

- A repeat has an upper bound, or nothing that follows it can fail: then the match has succeeded,
  and the next attempt begins behind it.
- A repeat never gives back what it took (it is possessive), or no character of it can begin what
  follows: then there is one way to match a text, and nothing to try again.
"""

import re
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

MOST_REPEATS = 256
_ALPHABET = [chr(n) for n in range(0x250)]
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_CATEGORIES = {
    c.CATEGORY_DIGIT: r"\d",
    c.CATEGORY_NOT_DIGIT: r"\D",
    c.CATEGORY_SPACE: r"\s",
    c.CATEGORY_NOT_SPACE: r"\S",
    c.CATEGORY_WORD: r"\w",
    c.CATEGORY_NOT_WORD: r"\W",
}
Item = tuple[Any, Any]
Characters = frozenset[str]


def faults(pattern: re.Pattern[str], *, is_anchored: bool = False) -> list[str]:
    """Say what could make *pattern* take more than time in proportion to the text.

    Args:
        pattern: the pattern.
        is_anchored: whether it is tried at one place only; then a repeat may be unbounded.
    """
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    return list(_faults(list(tree), frozenset(), fails_later=False, is_anchored=is_anchored))


def reach(pattern: re.Pattern[str]) -> int:
    """Return how many characters *pattern* reads at most, but for its unbounded end."""
    return _reach(list(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)))


def _faults(
    items: Sequence[Item], follow: Characters, *, fails_later: bool, is_anchored: bool
) -> Iterator[str]:
    for place, (kind, argument) in enumerate(items):
        rest = items[place + 1 :]
        after = _first(rest) | (follow if _may_be_empty(rest) else frozenset())
        can_fail = fails_later or any(_can_fail(one) for one in rest)
        if kind in _REPEATS:
            least, most, body = argument
            first = _first(list(body))
            if most > MOST_REPEATS and (can_fail or kind is c.MIN_REPEAT) and not is_anchored:
                yield f"unbounded, and what follows can fail: {body}"
            if kind is not c.POSSESSIVE_REPEAT and least != most and first & after:
                yield f"can end in several places: {body}"
            after |= first if most > 1 else frozenset()
        for body in _bodies(kind, argument):
            yield from _faults(list(body), after, fails_later=can_fail, is_anchored=is_anchored)


def _bodies(kind: Any, argument: Any) -> Sequence[Any]:
    if kind in _REPEATS:
        return [argument[2]]
    if kind is c.SUBPATTERN:
        return [argument[3]]
    if kind is c.BRANCH:
        return list(argument[1])
    return [argument] if kind is c.ATOMIC_GROUP else []


def _can_fail(item: Item) -> bool:
    kind, argument = item
    return not (kind in _REPEATS and argument[0] == 0)


def _may_be_empty(items: Sequence[Item]) -> bool:
    for kind, argument in items:
        if kind in _REPEATS and (argument[0] == 0 or _may_be_empty(list(argument[2]))):
            continue
        if kind in (c.AT, c.ASSERT, c.ASSERT_NOT):
            continue
        bodies = [] if kind in _REPEATS else _bodies(kind, argument)
        if not any(_may_be_empty(list(body)) for body in bodies):
            return False
    return True


def _first(items: Sequence[Item]) -> Characters:
    """The characters that can begin what *items* match."""
    found: Characters = frozenset()
    for place, (kind, argument) in enumerate(items):
        bodies = _bodies(kind, argument)
        if bodies:
            found = found.union(*(_first(list(body)) for body in bodies))
        elif kind not in (c.AT, c.ASSERT, c.ASSERT_NOT):
            found |= _characters(kind, repr(argument), argument)
        if not _may_be_empty(items[place : place + 1]):
            break
    return found


def _characters(kind: Any, key: str, argument: Any) -> Characters:
    if kind is c.GROUPREF:
        return frozenset("\\\"'")
    _ARGUMENTS[key] = argument
    return _characters_of(str(kind), key)


_ARGUMENTS: dict[str, Any] = {}


@cache
def _characters_of(kind: str, key: str) -> Characters:
    argument = _ARGUMENTS[key]
    if kind == "LITERAL":
        # Either case: a part of the pattern may not care.
        return frozenset((chr(argument), chr(argument).lower(), chr(argument).upper()))
    if kind == "NOT_LITERAL":
        return frozenset(_ALPHABET) - {chr(argument)}
    if kind == "ANY":
        return frozenset(_ALPHABET)
    assert kind == "IN", kind
    found: set[str] = set()
    for what, value in argument:
        if what is c.LITERAL:
            found.add(chr(value))
        elif what is c.RANGE:
            found.update(one for one in _ALPHABET if value[0] <= ord(one) <= value[1])
        elif what is c.CATEGORY:
            found.update(one for one in _ALPHABET if re.match(_CATEGORIES[value], one))
    is_negated = argument[0][0] is c.NEGATE
    return frozenset(_ALPHABET) - found if is_negated else frozenset(found)


def _reach(items: Sequence[Item]) -> int:
    total = 0
    for kind, argument in items:
        bodies = [_reach(list(body)) for body in _bodies(kind, argument)]
        if kind in _REPEATS:
            total += bodies[0] * (argument[1] if argument[1] <= MOST_REPEATS else argument[0])
        elif kind is c.GROUPREF:
            total += 32
        elif bodies:
            total += max(bodies)
        elif kind not in (c.AT, c.ASSERT, c.ASSERT_NOT):
            total += 1
    return total
