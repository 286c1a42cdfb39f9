"""The group of an error's text, and the table by which groups keep their ids. Pure.

Texts that differ only at positions with many values are one failure: in users' names, say. This is
decided when a group is made, and never again. The table only grows, and a text belongs to the
oldest group whose pattern fits. So no later analysis changes the group of a text.

A pattern has digests of words, and no words: an erasure need not change it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b, sha256

SIGNATURE_VERSION = "v1"

MESSAGES_PER_VALUE = 50
"""Three values of a position always stay apart, and one more for each so many messages that a value
has on average: four with 50 each, twenty with 850 each. More values are one group."""

_ALWAYS_APART = 3
_COMMON_SHARE = 0.75
"""Of their words, texts of one group have this share in common,"""

_MANY_VALUES = 10
"""or each position that differs has so many values: there is one, or they are codes."""

LISTED_GROUPS = 1_000
TABLE_GROUPS = 10_000
"""Groups in the table, at most. Beyond that, a new text is in ``OTHERS``."""

ERROR = "error|"
"""Start of the key of a recorded error without a code; behind it are type and masked text."""

_ANY = "*"
_SEPARATORS = re.compile(r"([\s=:,;()\[\]{}|]+)")

Pattern = tuple[str, ...]
"""The error's type with all separators of the text, then each word; a digest of each, or ``*``."""


def group_id_of(key: str) -> str:
    """Return ``g-`` and ten hex digits, the same in every run for the same key."""
    digest = sha256(f"{SIGNATURE_VERSION}|{key}".encode("utf-8", "replace"))
    return f"g-{digest.hexdigest()[:10]}"


OTHERS = group_id_of("others")
"""The group that has all messages of groups that are too small to be listed."""

OTHERS_TITLE = "everything else"


@dataclass(frozen=True, slots=True)
class TableGroup:
    """A group of the table; *messages* is the most that one analysis saw."""

    group_id: str
    pattern: Pattern
    messages: int


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of one analysis.

    Attributes:
        ids: of the group of each key; ``OTHERS`` where that is not listed.
        patterns: of listed groups that have several texts, by id.
        unlisted: ids of groups whose messages are in ``OTHERS``.
    """

    ids: Mapping[str, str]
    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()


def grouped(
    table: tuple[TableGroup, ...], counts: Mapping[str, int], kept: Collection[str] = ()
) -> tuple[tuple[TableGroup, ...], Grouping]:
    """Return the table after an analysis, and the group of each key.

    *counts* has the messages of each key; a key that is not one of an error is its group's id.
    *kept* are ids of groups that stay where the table is full: of others that have none of these
    messages, the oldest go.
    """
    patterns = {key: pattern_of(key) for key in sorted(counts) if key.startswith(ERROR)}
    seen = Counter[int]()
    ranks = _ranks(table, patterns)
    for key, rank in ranks.items():
        seen[rank] += counts[key]
    known = [
        replace(group, messages=max(group.messages, seen[rank])) for rank, group in enumerate(table)
    ]
    new = {pattern: key for key, pattern in patterns.items() if key not in ranks}
    made = sorted(_made(known, new, counts), key=lambda group: (-group.messages, group.group_id))
    surplus = max(0, len(known) + len(made) - TABLE_GROUPS)
    idle = (one.group_id for rank, one in enumerate(known) if not seen[rank])
    gone = set([one for one in idle if one not in kept][:surplus])
    after = tuple(one for one in (*known, *made) if one.group_id not in gone)[:TABLE_GROUPS]
    ids = {key: OTHERS if key in patterns else key for key in counts}
    ids |= {key: after[rank].group_id for key, rank in _ranks(after, patterns).items()}
    return after, _listed(after, counts, ids)


def _made(
    known: Iterable[TableGroup], new: Mapping[Pattern, str], counts: Mapping[str, int]
) -> Iterator[TableGroup]:
    """Yield a group for each set of new texts that are one failure. *new* has their keys."""
    sizes = {group.pattern: group.messages for group in known}
    sizes |= {pattern: counts[key] for pattern, key in new.items()}
    for pattern, members in _merged(sizes, {pattern[0] for pattern in new}):
        keys = [new[member] for member in members if member in new]
        if keys:
            first = min(keys, key=lambda key: (-counts[key], key))
            yield TableGroup(group_id_of(first), pattern, sum(counts[key] for key in keys))


def _listed(
    table: Iterable[TableGroup], counts: Mapping[str, int], ids: Mapping[str, str]
) -> Grouping:
    sums = Counter[str]()
    for key, group_id in ids.items():
        sums[group_id] += counts[key]
    largest = sorted(sums, key=lambda one: (-sums[one], one))
    if len(largest) > LISTED_GROUPS:
        largest = largest[: LISTED_GROUPS - 1]
    listed = {OTHERS, *largest}
    return Grouping(
        {key: group_id if group_id in listed else OTHERS for key, group_id in ids.items()},
        {g.group_id: g.pattern for g in table if g.group_id in listed and _ANY in g.pattern},
        frozenset(sums.keys() - listed),
    )


def pattern_of(key: str) -> Pattern:
    """Return the pattern that fits this text alone."""
    head, parts = _parts(key)
    return _digest("\0".join((head, *parts[1::2]))), *map(_digest, parts[::2])


def hidden(text: str, pattern: Pattern) -> str:
    """Return *text*, which fits *pattern*, without the words that differ within its group."""
    head, parts = _parts(text)
    for position, digest in enumerate(pattern[1:]):
        if digest == _ANY:
            parts[2 * position] = f"<{_ANY}>"
    return f"{head}{''.join(parts)}"


def _parts(text: str) -> tuple[str, list[str]]:
    """Split a text: the error's type, then words and, between them, separators."""
    kind, colon, rest = text.partition(": ")
    return f"{kind}{colon}", _SEPARATORS.split(rest)


@lru_cache(maxsize=100_000)
def _digest(word: str) -> str:
    """Return eight hex digits, and before them whether it is a word and not a mask."""
    is_word = not word.startswith("<") and any(map(str.isalpha, word))
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{'w' if is_word else '-'}{digest}"


def _ranks(groups: Iterable[TableGroup], patterns: Mapping[str, Pattern]) -> dict[str, int]:
    """Return the place of the oldest group that fits each key; a key that none fits is left out."""
    # By type and separators, then by the positions at which any word fits.
    known: defaultdict[str, dict[frozenset[int], dict[Pattern, int]]] = defaultdict(dict)
    for rank, group in enumerate(groups):
        free = frozenset(i for i, word in enumerate(group.pattern) if word == _ANY)
        known[group.pattern[0]].setdefault(free, {}).setdefault(group.pattern, rank)
    found: dict[str, int] = {}
    for key, pattern in patterns.items():
        for free, ranks in known.get(pattern[0], {}).items():
            fits = tuple(_ANY if i in free else word for i, word in enumerate(pattern))
            if fits in ranks:
                found[key] = min(ranks[fits], found.get(key, ranks[fits]))
    return found


def _merged(
    sizes: Mapping[Pattern, int], starts: Collection[str]
) -> Iterator[tuple[Pattern, list[Pattern]]]:
    """Yield each set of patterns that are one failure, with the pattern that fits all of it.

    *sizes* has the messages of each. Only patterns that begin with one of *starts* are looked at.
    """
    by_start = defaultdict[str, list[Pattern]](list)
    for pattern in sizes:
        if pattern[0] in starts:
            by_start[pattern[0]].append(pattern)
    waiting = list(by_start.values())
    while waiting:
        members = waiting.pop()
        values = [Counter[str]() for _ in members[0]]
        for pattern in members:
            for counter, word in zip(values, pattern, strict=True):
                counter[word] += sizes[pattern]
        position = _splits_at(values)
        if position is None:
            yield tuple(_ANY if len(one) > 1 else next(iter(one)) for one in values), members
            continue
        parts = defaultdict[str, list[Pattern]](list)
        for pattern in members:
            parts[pattern[position]].append(pattern)
        waiting += parts.values()


def _splits_at(values: list[Counter[str]]) -> int | None:
    """Return the position whose values are different failures; None if there is none.

    *values* has the messages of each value, for each position.
    """
    differing = [i for i, counter in enumerate(values) if len(counter) > 1]
    words = [counter for counter in values[1:] if any(word[0] == "w" for word in counter)]
    common = sum(len(counter) == 1 for counter in words)
    have_many = all(len(values[i]) >= _MANY_VALUES for i in differing)
    # Codes: nearly every message has another one.
    are_codes = all(values[i].total() <= 2 * len(values[i]) for i in differing)
    if (common and common >= _COMMON_SHARE * len(words)) or (
        have_many and (len(differing) == 1 or (are_codes and len(differing) <= common))
    ):
        differing = [i for i in differing if _stay_apart(values[i])]
    return min(differing, key=lambda i: (len(values[i]), i), default=None)


def _stay_apart(values: Counter[str]) -> bool:
    messages_each = values.total() // len(values)
    return len(values) <= _ALWAYS_APART + messages_each // MESSAGES_PER_VALUE
