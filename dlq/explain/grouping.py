"""The group of an error's text, and the table by which groups keep their ids. Pure.

Different words are different failures. Texts that differ only in data are one: in users' names,
say. ``data_values`` has the rule. This is decided when a pattern is made, and never again. The
table only grows, and a text belongs to the oldest group with a pattern that fits. So no later
analysis changes the group of a text.

A new text may be one failure with texts of several groups: what differs turns out to be data. These
groups are a *family* from then on, and the new pattern, which fits all of it, belongs to its oldest
group. Groups whose texts differ in one or two words are *similar*: other failures, which people see
side by side.

A pattern has digests of words, and no words: an erasure need not change it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import combinations, pairwise
from operator import itemgetter
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dlq.errors import InputError
from dlq_replay.text.masks import QUOTED
from dlq_replay.text.words import is_login, looks_like_code

SIGNATURE_VERSION = "v1"

OWN_VALUES = 10
"""So many values are data where nearly every message has its own."""

MANY_VALUES = 50
"""So many are data where each is rare, though several messages may share it."""

_OWN_MESSAGES = 2
_RARE_SHARE = 0.05
_CODE_SHARE = 0.05
"""Where so large a part of the values look like names of code, all are."""

LISTED_GROUPS = 1_000
TABLE_GROUPS = 10_000
"""Patterns in the table, at most. Beyond that, a new text is in ``OTHERS``."""

ERROR = "error|"
"""Start of the key of a recorded error without a code; behind it are type and masked text."""

CODE = "code|"
"""Start of the key of one with a code; behind it is the title: ``TYPE (CODE)``."""

_MATCHED_CHARACTERS = 1_024
_ANY = "*"
_MASK, _WORD, _NAME, _CODE = "-", "w", "q", "c"
"""What a digest begins with: what it is the digest of."""

_SEPARATORS = re.compile(
    r"([\s=:,;()\[\]{}|\u3001\u3002\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f]+"
    # Where a word ends in a script without blanks.
    r"|(?<=[\u3041-\u309f])(?=[\u30a0-\u30ff\u3400-\u9fffA-Za-z<])"
    r"|(?<=[\u30a0-\u30ff])(?=[\u3041-\u309f\u3400-\u9fffA-Za-z<])"
    r"|(?<=[\u3400-\u9fff])(?=[\u3041-\u30ffA-Za-z<])"
    r"|(?<=[\u0e00-\u0e7f\uac00-\ud7a3])(?=[A-Za-z<])"
    r"|(?<=[A-Za-z>])(?=[\u0e00-\u0e7f\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]))"
)
_MASKS = re.compile(r"[^\w<>]*(?:(?:<[a-z]{1,5}>|\*{3})[^\w<>]*)+")
_GLUED = re.compile(r"[\u0e00-\u0e7f\u3041-\u30ff\u3400-\u9fff]{6,}")
"""As long as no word is in a script without blanks: a part of a sentence."""

_MOST_WORDS = 24
"""Of longer texts only words side by side are looked at in pairs."""

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
        similar: the oldest group of the row of each other listed group in it, by id: of groups of
            one family, and of similar ones.
        group_by: the pattern of ``captured``, empty without one.
    """

    ids: Mapping[str, str]
    titles: Mapping[str, Pattern | str] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()
    families: Mapping[str, str] = field(default_factory=dict)
    similar: Mapping[str, str] = field(default_factory=dict)
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
    return after, replace(grouping, titles=shown, group_by=group_by)


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
    table: Collection[TableGroup], counts: Mapping[str, int], ids: Mapping[str, str]
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
    oldest = families_of(table)
    return Grouping(
        {key: group_id if group_id in listed else OTHERS for key, group_id in ids.items()},
        {group_id: pattern for group_id, pattern in fitting.items() if _ANY in pattern},
        frozenset(sums.keys() - listed),
        {group_id: first for group_id, first in oldest.items() if group_id != first},
        _rows({one: fitting[one] for one in fitting if one in sums}, oldest),
    )


def _rows(patterns: Mapping[str, Pattern], oldest: Mapping[str, str]) -> dict[str, str]:
    """Return the oldest group of the row of each other group. *oldest* is that of its family."""
    families = defaultdict[str, list[str]](list)
    for group_id in patterns:
        families[oldest[group_id]].append(group_id)
    similar = similar_groups(
        {first: _common(patterns[one] for one in family) for first, family in families.items()}
    )
    rows = {one: similar.get(first, first) for first, family in families.items() for one in family}
    return {group_id: first for group_id, first in rows.items() if group_id != first}


def _common(patterns: Iterable[Pattern]) -> Pattern:
    """Return the pattern that fits all texts of these patterns."""
    columns = (set(words) for words in zip(*patterns, strict=True))
    return tuple(_ANY if len(words) > 1 else words.pop() for words in columns)


def pattern_of(key: str) -> Pattern:
    """Return the pattern that fits this text alone."""
    head, parts = _parts(key)
    return digest_of("\0".join((head, *parts[1::2]))), *map(digest_of, parts[::2])


def hidden(text: str, pattern: Pattern) -> str:
    """Return *text*, which fits *pattern*, with ``<*>`` for the words that differ."""
    head, parts = _parts(text)
    for position, digest in enumerate(pattern[1:]):
        if digest == _ANY:
            parts[2 * position] = f"<{_ANY}>"
    return f"{head}{''.join(parts)}"


def words_that_differ(key: str, pattern: Pattern) -> list[str]:
    """Return the words of an error's key, which fits *pattern*, that stand where it has ``<*>``."""
    _, parts = _parts(key)
    return [parts[2 * place] for place, digest in enumerate(pattern[1:]) if digest == _ANY]


def group_pattern(table: Iterable[TableGroup], group_id: str) -> Pattern | None:
    """Return the pattern that fits all texts of a group; None for a group without one."""
    patterns = [group.pattern for group in table if group.group_id == group_id]
    return _common(patterns) if patterns else None


def has_data(pattern: Pattern) -> bool:
    """Whether texts of this pattern differ."""
    return _ANY in pattern


def fits(key: str, pattern: Pattern) -> bool:
    """Whether *pattern* fits an error's key."""
    own = pattern_of(key)
    words = zip(own, pattern, strict=False)
    return len(own) == len(pattern) and all(one in (word, _ANY) for word, one in words)


def common_text(texts: Sequence[str]) -> str:
    """Return the first of these texts, with ``<*>`` for the words in which the others differ.

    Of texts that differ in more than words it is the first one.
    """
    heads, split = zip(*map(_parts, texts), strict=True)
    separators = {tuple(parts[1::2]) for parts in split}
    if len(set(heads)) > 1 or len(separators) > 1:
        return texts[0]
    columns = [set(words) for words in zip(*split, strict=True)]
    words = [words.pop() if len(words) == 1 else f"<{_ANY}>" for words in columns]
    return f"{heads[0]}{''.join(words)}"


def _parts(text: str) -> tuple[str, list[str]]:
    """Split a text into the error's type, and words with separators between them."""
    kind, colon, rest = text.partition(": ")
    return f"{kind}{colon}", _SEPARATORS.split(rest)


@lru_cache(maxsize=100_000)
def digest_of(word: str) -> str:
    """Return what stands for a word in a pattern: its kind, one letter, and eight hex digits."""
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{_kind(word)}{digest}"


def _kind(word: str) -> str:
    if _MASKS.fullmatch(word):
        return _MASK
    bare = word.strip(".!?")
    if looks_like_code(word):
        return _CODE
    if QUOTED.fullmatch(bare) or is_login(bare) or _GLUED.fullmatch(bare):
        return _NAME
    return _WORD


def data_values(values: Mapping[str, int], *, has_context: bool = True) -> frozenset[str]:
    """Return the values of one position that are data. Each other value is a failure of its own.

    A value is data

    - if it is a mask;
    - if there are ten values or more, and most messages have one that at most two messages have;
    - if there are fifty or more of which none has a twentieth of the messages.

    A value that looks like a name of code is none, and where a twentieth of the values do, only
    masks are data. Values that may be names (between quotes; as ``anna.schmidt``; a part of a
    sentence), and values in texts without any other word, are data by the last rule alone.

    Args:
        values: the messages of each value, a ``digest_of`` a word.
        has_context: whether another word stands in all these texts.
    """
    masks = frozenset(value for value in values if value[0] in (_MASK, _ANY))
    others = values.keys() - masks
    words = {value: values[value] for value in others if value[0] != _CODE}
    if len(others) - len(words) > _CODE_SHARE * len(others):
        return masks
    messages = sum(words.values())
    names = sum(value[0] == _NAME for value in words)
    own = sum(count for count in words.values() if count <= _OWN_MESSAGES)
    if (
        has_context
        and names <= _CODE_SHARE * len(words)
        and len(words) >= OWN_VALUES
        and 2 * own >= messages
    ):
        return masks.union(words)
    rare = [value for value, count in words.items() if count < _RARE_SHARE * messages]
    return masks.union(rare) if len(rare) >= MANY_VALUES else masks


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
        split = _splits_at(values)
        if split is None:
            yield members
            continue
        position, data = split
        parts = defaultdict[str, list[Pattern]](list)
        for pattern in members:
            word = pattern[position]
            parts[_ANY if word in data else word].append(pattern)
        waiting += parts.values()


def _splits_at(values: Sequence[Counter[str]]) -> tuple[int, frozenset[str]] | None:
    """Return a position whose values are not all data, and those that are; None if there is none.

    *values* has the messages of each value, for each position. Where more words differ than are
    common, the texts are no occurrences of one: then what differs is no data.
    """
    differing = [i for i, counter in enumerate(values) if len(counter) > 1]
    common = sum(len(counter) == 1 and _is_word(*counter) for counter in values[1:])
    data = {i: data_values(values[i], has_context=common > 0) for i in differing}
    mixed = [i for i in differing if len(data[i]) < len(values[i])]
    if not mixed:
        in_words = [i for i in differing if any(map(_is_word, values[i]))]
        if len(in_words) <= max(1, common):
            return None
        mixed, data = in_words, {i: frozenset() for i in in_words}
    position = min(mixed, key=lambda i: (len(values[i]), i))
    return position, data[position]


def _is_word(digest: str) -> bool:
    return digest[0] not in (_MASK, _ANY)


def similar_groups(patterns: Mapping[str, Pattern]) -> dict[str, str]:
    """Return the row of each group that is similar to another one: its oldest group, by id.

    *patterns* has one of each group, the oldest first. Texts of a row differ in one word, or in
    two, always the same; and they have as many words in common, or are one word. Where a group fits
    several rows, it is in the largest.
    """
    by_start = defaultdict[str, list[str]](list)
    for group_id, pattern in patterns.items():
        by_start[pattern[0]].append(group_id)
    found = dict[str, str]()
    for group_ids in by_start.values():
        rows = _rows_of({group_id: patterns[group_id] for group_id in group_ids})
        for members in sorted(rows, key=len, reverse=True):
            left = [group_id for group_id in members if group_id not in found]
            if len(left) > 1:
                found |= dict.fromkeys(left, left[0])
    return found


def _rows_of(patterns: Mapping[str, Pattern]) -> list[list[str]]:
    """Return the sets of groups whose patterns differ in the same one or two words."""
    if len(patterns) == 1:
        return []
    words = len(next(iter(patterns.values()))) - 1
    places = range(1, words + 1)
    pairs = combinations(places, 2) if words <= _MOST_WORDS else pairwise(places)
    rows = defaultdict[tuple[int, ...], list[str]](list)
    hashes = {
        group_id: [hash(pair) for pair in enumerate(pattern)]
        for group_id, pattern in patterns.items()
    }
    sums = {group_id: sum(numbers) for group_id, numbers in hashes.items()}
    for left_out in (*((place,) for place in places), *pairs):
        for group_id, pattern in patterns.items():
            common = sum(map(_is_word, pattern[1:])) - sum(_is_word(pattern[i]) for i in left_out)
            if common >= len(left_out) or words == 1:
                rest = sums[group_id] - sum(hashes[group_id][i] for i in left_out)
                rows[*left_out, rest].append(group_id)
    return [members for members in rows.values() if len(members) > 1]
