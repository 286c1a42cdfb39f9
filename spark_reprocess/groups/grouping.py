"""The group of an error's text, and the table by which groups keep their ids. Pure.

Texts that differ only at positions with many values are one failure: in users' names, say. This is
decided when a pattern is made, and never again. The table only grows, and a text belongs to the
oldest group with a pattern that fits. So no later analysis changes the group of a text.

A new text may be one failure with texts of several groups. These are a *family* from then on, and
the new pattern, which fits all of it, belongs to its oldest group.

A pattern has digests of words, and no words: an erasure need not change it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from operator import itemgetter
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.errors import InputError

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
"""Patterns in the table, at most. Beyond that, a new text is in ``OTHERS``."""

ERROR = "error|"
"""Start of the key of a recorded error without a code; behind it are type and masked text."""

CODE = "code|"
"""Start of the key of one with a code; behind it is the title: ``TYPE (CODE)``."""

_MATCHED_CHARACTERS = 1_024
_ANY = "*"
_SEPARATORS = re.compile(r"([\s=:,;()\[\]{}|]+)")

_Key = TypeVar("_Key")
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
    """A pattern of a group; *messages* is the most that one analysis saw."""

    group_id: str
    pattern: Pattern
    messages: int


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of one analysis.

    Attributes:
        ids: of the group of each key; ``OTHERS`` where that is not listed.
        titles: of listed groups whose title is not the text of each message, by id: the title, or a
            pattern that fits all texts.
        unlisted: ids of groups whose messages are in ``OTHERS``.
        families: the oldest group of the family of each other group in it, by id.
        group_by: the pattern of ``captured``, empty without one.
    """

    ids: Mapping[str, str]
    titles: Mapping[str, Pattern | str] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()
    families: Mapping[str, str] = field(default_factory=dict)
    group_by: str = ""


def grouped(
    table: tuple[TableGroup, ...],
    counts: Mapping[str, int],
    kept: Collection[str] = (),
    group_by: str = "",
) -> tuple[tuple[TableGroup, ...], Grouping]:
    """Return the table after an analysis, and the group of each key.

    *counts* has the messages of each key; a key that is not one of an error is its group's id.
    *kept* are ids of groups that stay where the table is full, with their families: of other
    families without a message, the oldest patterns go. *group_by* is as for ``captured``: what it
    captures is the code of a text, which then needs no pattern.
    """
    codes = captured(group_by, counts)
    kinds = {key: key.removeprefix(ERROR).partition(": ")[0] for key in codes}
    titles = {key: f"{kinds[key]} ({code})" for key, code in codes.items()}
    errors = (key for key in sorted(counts) if key.startswith(ERROR))
    patterns = {key: pattern_of(key) for key in errors if key not in codes}
    seen = Counter[int]()
    ranks = _ranks(table, patterns)
    for key, rank in ranks.items():
        seen[rank] += counts[key]
    known = [
        replace(group, messages=max(group.messages, seen[rank])) for rank, group in enumerate(table)
    ]
    new = {pattern: key for key, pattern in patterns.items() if key not in ranks}
    oldest = families_of(known)
    unsorted = _made(known, new, counts, oldest)
    made = sorted(unsorted, key=lambda group: (-group.messages, group.group_id))
    surplus = max(0, len(known) + len(made) - TABLE_GROUPS)
    groups = [group.group_id for group in known]
    needed = {oldest[one] for n, one in enumerate(groups) if seen[n] or one in kept}
    gone = set([n for n, one in enumerate(groups) if oldest[one] not in needed][:surplus])
    after = tuple(one for n, one in enumerate((*known, *made)) if n not in gone)[:TABLE_GROUPS]
    ids = {key: OTHERS if key in patterns else key for key in counts}
    ids |= {key: after[rank].group_id for key, rank in _ranks(after, patterns).items()}
    ids |= {key: group_id_of(f"{CODE}{title}") for key, title in titles.items()}
    grouping = _listed(after, counts, ids)
    shown = {**grouping.titles, **{grouping.ids[key]: title for key, title in titles.items()}}
    families = {one: first for one, first in families_of(after).items() if one != first}
    return after, replace(grouping, titles=shown, families=families, group_by=group_by)


def captured(group_by: str, keys: Iterable[str]) -> dict[str, str]:
    """Return what the one group of a regular expression captures in each key of an error.

    A key in which it captures nothing is left out. Takes linear time: this is RE2.
    """
    errors = [key for key in keys if key.startswith(ERROR)] if group_by else []
    texts = pa.array((key[len(ERROR) :][:_MATCHED_CHARACTERS] for key in errors), pa.string())
    codes = pc.replace_substring_regex(texts, f"(?s)^.*?(?:{group_by}).*$", r"\1")
    found = pc.match_substring_regex(texts, group_by)
    pairs = zip(errors, codes.to_pylist(), found.to_pylist(), strict=True)
    return {key: code for key, code, is_found in pairs if is_found and code}


def check_group_by(pattern: str) -> None:
    """Raise InputError where ``captured`` cannot use *pattern*, with the reason."""
    name = f"--group-by {pattern!r}"
    try:
        groups = re.compile(pattern).groups
        pc.match_substring_regex(pa.array([""]), f"(?:{pattern})")
    except (re.error, pa.ArrowInvalid, OverflowError) as error:
        raise InputError(f"{name}: is no regular expression of RE2: {error}") from error
    if groups != 1:
        raise InputError(f"{name}: has {groups} groups in brackets; give one, around the code")


def families_of(table: Collection[TableGroup]) -> dict[str, str]:
    """Return the oldest group of the family of each group, by id, the oldest first."""
    groups = [group.group_id for group in table]
    oldest = {group_id: group_id for group_id in groups}
    age = {group_id: n for n, group_id in enumerate(oldest)}

    def first(group_id: str) -> str:
        while oldest[group_id] != group_id:
            group_id = oldest[group_id]
        return group_id

    patterns = {n: group.pattern for n, group in enumerate(table)}
    for part, whole in _fitting(table, patterns):
        elder, other = sorted((first(groups[part]), first(groups[whole])), key=age.__getitem__)
        oldest[other] = elder
    return {group_id: first(group_id) for group_id in oldest}


def _made(
    known: Collection[TableGroup],
    new: Mapping[Pattern, str],
    counts: Mapping[str, int],
    oldest: Mapping[str, str],
) -> Iterator[TableGroup]:
    """Yield a pattern for each set of new texts that are one failure. *new* has their keys.

    The failure may be that of groups that are *known*, whose ``families_of`` are *oldest*: then it
    is one of the oldest of these.
    """
    age = {group_id: n for n, group_id in enumerate(oldest)}
    elders = {group.pattern: oldest[group.group_id] for group in known}
    sizes = {group.pattern: group.messages for group in known}
    sizes |= {pattern: counts[key] for pattern, key in new.items()}
    for members in _merged(sizes, {pattern[0] for pattern in new}):
        keys = [new[member] for member in members if member in new]
        if keys:
            alike = [elders[member] for member in members if member in elders]
            first = min(keys, key=lambda key: (-counts[key], key))
            group_id = min(alike, key=age.__getitem__, default=group_id_of(first))
            yield TableGroup(group_id, _common(members), sum(counts[key] for key in keys))


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
    patterns = defaultdict[str, list[Pattern]](list)
    for group in table:
        if group.group_id in listed:
            patterns[group.group_id].append(group.pattern)
    fitting = {group_id: _common(several) for group_id, several in patterns.items()}
    return Grouping(
        {key: group_id if group_id in listed else OTHERS for key, group_id in ids.items()},
        {group_id: pattern for group_id, pattern in fitting.items() if _ANY in pattern},
        frozenset(sums.keys() - listed),
    )


def _common(patterns: Iterable[Pattern]) -> Pattern:
    """Return the pattern that fits all texts of these patterns."""
    columns = (set(words) for words in zip(*patterns, strict=True))
    return tuple(_ANY if len(words) > 1 else words.pop() for words in columns)


def pattern_of(key: str) -> Pattern:
    """Return the pattern that fits this text alone."""
    head, parts = _parts(key)
    return _digest("\0".join((head, *parts[1::2]))), *map(_digest, parts[::2])


def hidden(text: str, pattern: Pattern) -> str:
    """Return *text*, which fits *pattern*, with ``<*>`` for the words that differ."""
    head, parts = _parts(text)
    for position, digest in enumerate(pattern[1:]):
        if digest == _ANY:
            parts[2 * position] = f"<{_ANY}>"
    return f"{head}{''.join(parts)}"


def _parts(text: str) -> tuple[str, list[str]]:
    """Split a text into the error's type, and words with separators between them."""
    kind, colon, rest = text.partition(": ")
    return f"{kind}{colon}", _SEPARATORS.split(rest)


@lru_cache(maxsize=100_000)
def _digest(word: str) -> str:
    """Return ``w`` for a word, ``-`` for a mask or number, and eight hex digits."""
    is_word = not word.startswith("<") and any(map(str.isalpha, word))
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{'w' if is_word else '-'}{digest}"


def _ranks(groups: Iterable[TableGroup], patterns: Mapping[str, Pattern]) -> dict[str, int]:
    """Return the place of the oldest pattern that fits each key; a key without one is left out."""
    return dict(sorted(_fitting(groups, patterns), key=itemgetter(1), reverse=True))


def _fitting(
    groups: Iterable[TableGroup], patterns: Mapping[_Key, Pattern]
) -> Iterator[tuple[_Key, int]]:
    """Yield the place of each pattern of *groups* that fits one of *patterns*, and its key."""
    # By type and separators, then by the positions at which any word fits.
    known: defaultdict[str, dict[frozenset[int], dict[Pattern, int]]] = defaultdict(dict)
    for rank, group in enumerate(groups):
        free = frozenset(i for i, word in enumerate(group.pattern) if word == _ANY)
        known[group.pattern[0]].setdefault(free, {}).setdefault(group.pattern, rank)
    for key, pattern in patterns.items():
        for free, ranks in known.get(pattern[0], {}).items():
            fits = tuple(_ANY if i in free else word for i, word in enumerate(pattern))
            if fits in ranks:
                yield key, ranks[fits]


def _merged(sizes: Mapping[Pattern, int], starts: Collection[str]) -> Iterator[list[Pattern]]:
    """Yield each set of patterns that are one failure.

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
            yield members
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
