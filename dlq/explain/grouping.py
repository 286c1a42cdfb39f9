"""The group of an error's text, and the table by which groups keep their ids. Pure.

Different words are different failures. Texts that differ only in data, such as users' names, are
one failure. ``data_values`` has the rule. This is decided when a pattern is made, and never again.
The table only grows, and a text belongs to the oldest group with a pattern that fits. So no later
analysis changes the group of a text.

A new text may be one failure with texts of several groups: what differs turns out to be data. These
groups are of the *same failure* from then on, and the new pattern, which fits all their texts,
belongs to the oldest of them. Groups whose texts differ in one or two words are *similar*: other
failures, which people see side by side.

A pattern has digests of words, and no words: an erasure need not change it.

A group is of one source queue. The keys of an archive's first queue are bare, and so a group keeps
its id when a second queue joins; the key of each other queue has its name in front, see
``in_queue``. Keys of different queues have patterns that never fit each other.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import combinations, pairwise
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dlq.errors import InputError
from dlq_replay.text.masks import QUOTED
from dlq_replay.text.words import is_login, looks_like_code

SIGNATURE_VERSION = "v1"

OWN_VALUES = 10
"""This number of values is data where nearly every message has its own."""

MANY_VALUES = 50
"""This number is data where each value is rare, though several messages may share it."""

_OWN_MESSAGES = 2
"""A value of at most this number of messages is theirs alone."""

_RARE_SHARE = 0.05
"""A value of a smaller share of the messages is rare."""

_CODE_SHARE = 0.05
"""If this share of the values looks like names of code, all of them count as such names."""

LISTED_GROUPS = 1_000
"""Groups in a report, at most; the messages of all others are in ``OTHERS``."""

TABLE_GROUPS = 10_000
"""Patterns in the table, at most. Beyond that, a new text is in ``OTHERS``."""

ERROR = "error|"
"""Start of the key of a recorded error without a code; behind it are type and masked text."""

ERROR_CODE = "code|"
"""Start of the key of one with a code; behind it is the title: ``TYPE (CODE)``."""

_QUEUE = "queue|"
"""Start of a key that belongs to a source queue; behind it are the queue's name and the key."""

_MATCHED_CHARACTERS = 1_024
_ANY = "*"

_MASK = "-"
_WORD = "w"
_NAME = "q"
_IDENTIFIER = "c"
"""A digest begins with one of these: the kind of the word."""

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
"""Six or more characters of a script without blanks may be part of a sentence."""

_MOST_WORDS = 24
"""In longer texts two differing words count together only if they are neighbours."""

_Key = TypeVar("_Key")
Pattern = tuple[str, ...]
"""The error's type with all separators of the text, then each word; a digest of each, or ``*``."""


def group_id_of(key: str) -> str:
    """Return ``g-`` and ten hex digits, the same in every run for the same key."""
    digest = sha256(f"{SIGNATURE_VERSION}|{key}".encode("utf-8", "replace"))
    return f"g-{digest.hexdigest()[:10]}"


def in_queue(key: str, queue: str) -> str:
    """Return the key of the same failure in a source queue. *queue* has no ``|``."""
    return f"{_QUEUE}{queue}|{key}"


def queue_and_key(key: str) -> tuple[str, str]:
    """Return the source queue of a key, empty for a bare key; and the key without it."""
    if not key.startswith(_QUEUE):
        return "", key
    _, queue, bare_key = key.split("|", 2)
    return queue, bare_key


def _error_text(key: str) -> str | None:
    """Return type and text of an error; None for the key of anything else."""
    _, bare_key = queue_and_key(key)
    return bare_key.removeprefix(ERROR) if bare_key.startswith(ERROR) else None


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
        same_failure: the oldest group of the same failure for each other group of it, by id.
        similar: the oldest group of the row of each other listed group in it, by id: of groups of
            the same failure, and of similar ones.
        group_by: the pattern of ``captured``, empty without one.
    """

    ids: Mapping[str, str]
    titles: Mapping[str, Pattern | str] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()
    same_failure: Mapping[str, str] = field(default_factory=dict)
    similar: Mapping[str, str] = field(default_factory=dict)
    group_by: str = ""


def grouped(
    table: tuple[TableGroup, ...],
    counts: Mapping[str, int],
    kept_ids: Collection[str] = (),
    group_by: str = "",
) -> tuple[tuple[TableGroup, ...], Grouping]:
    """Return the table after an analysis, and the group of each key.

    Args:
        table: the table before it.
        counts: the messages of each key. A bare key that is not one of an error is its group's id.
        kept_ids: groups that stay where the table is full, with those of the same failure. Of
            other failures without a message, the oldest patterns go.
        group_by: as for ``captured``. What it captures is the code of a text, which then needs no
            pattern.
    """
    titles = _code_titles(captured(group_by, counts))
    patterns = {}
    for key in sorted(counts):
        if key not in titles and _error_text(key) is not None:
            patterns[key] = pattern_of(key)
    ranks = _ranks(table, patterns)

    messages_by_rank = Counter[int]()
    new = {}
    for key, pattern in patterns.items():
        if key in ranks:
            messages_by_rank[ranks[key]] += counts[key]
        else:
            new[pattern] = key

    before = []
    for rank, group in enumerate(table):
        before.append(replace(group, messages=max(group.messages, messages_by_rank[rank])))
    oldest = oldest_of_same_failure(before)
    made = list(_made(before, new, counts, oldest))
    made.sort(key=lambda group: (-group.messages, group.group_id))

    needed_failures = set()
    for rank, group in enumerate(before):
        if messages_by_rank[rank] or group.group_id in kept_ids:
            needed_failures.add(oldest[group.group_id])
    after = _within_limit(before, made, oldest, needed_failures)

    grouping = _listed(after, counts, _group_ids(after, counts, patterns, titles))
    shown_titles = dict(grouping.titles)
    for key, title in titles.items():
        shown_titles[grouping.ids[key]] = title
    return after, replace(grouping, titles=shown_titles, group_by=group_by)


def _code_titles(codes: Mapping[str, str]) -> dict[str, str]:
    """Return the title of each key with a code."""
    titles = {}
    for key, code in codes.items():
        error_type = (_error_text(key) or "").partition(": ")[0]
        titles[key] = f"{error_type} ({code})"
    return titles


def _within_limit(
    before: Sequence[TableGroup],
    made: Sequence[TableGroup],
    oldest: Mapping[str, str],
    needed_failures: Collection[str],
) -> tuple[TableGroup, ...]:
    """Return the old and the new patterns. For what is too many, the oldest unneeded ones go."""
    surplus = max(0, len(before) + len(made) - TABLE_GROUPS)

    remaining = []
    for group in before:
        if surplus and oldest[group.group_id] not in needed_failures:
            surplus -= 1
        else:
            remaining.append(group)
    return tuple([*remaining, *made][:TABLE_GROUPS])


def _group_ids(
    table: Sequence[TableGroup],
    keys: Iterable[str],
    patterns: Mapping[str, Pattern],
    titles: Mapping[str, str],
) -> dict[str, str]:
    """Return the id of the group of each key; *titles* are of keys with a code."""
    ranks = _ranks(table, patterns)
    ids = {}
    for key in keys:
        if key in titles:
            ids[key] = _own_id(key, group_id_of(f"{ERROR_CODE}{titles[key]}"))
        elif key in ranks:
            ids[key] = table[ranks[key]].group_id
        elif key in patterns:
            ids[key] = OTHERS
        else:
            ids[key] = _own_id(key, queue_and_key(key)[1])
    return ids


def _own_id(key: str, bare_id: str) -> str:
    """Return the id of the group that a bare key has as *bare_id*, in the queue of *key*."""
    is_bare = not key.startswith(_QUEUE)
    queue, _ = queue_and_key(key)
    return bare_id if is_bare else group_id_of(in_queue(bare_id, queue))


def captured(group_by: str, keys: Iterable[str]) -> dict[str, str]:
    """Return what the one group of a regular expression captures in each key of an error.

    A key in which it captures nothing is left out. Takes linear time: this is RE2.
    """
    if not group_by:
        return {}
    errors = []
    texts = []
    for key in keys:
        text = _error_text(key)
        if text is not None:
            errors.append(key)
            texts.append(text[:_MATCHED_CHARACTERS])

    column = pa.array(texts, pa.string())
    codes = pc.replace_substring_regex(column, f"(?s)^.*?(?:{group_by}).*$", r"\1").to_pylist()
    matches = pc.match_substring_regex(column, group_by).to_pylist()
    results = zip(errors, codes, matches, strict=True)
    return {key: code for key, code, is_match in results if is_match and code}


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


def oldest_of_same_failure(table: Collection[TableGroup]) -> dict[str, str]:
    """Return for each group the oldest one of the same failure, by id, the oldest first."""
    groups = list(table)
    patterns = {}
    oldest = {}
    for position, group in enumerate(groups):
        patterns[position] = group.pattern
        oldest[group.group_id] = group.group_id
    age = _positions(oldest)

    def first(group_id: str) -> str:
        while oldest[group_id] != group_id:
            group_id = oldest[group_id]
        return group_id

    for part, whole in _fitting(groups, patterns):
        failure_of_part = first(groups[part].group_id)
        failure_of_whole = first(groups[whole].group_id)
        elder, other = sorted((failure_of_part, failure_of_whole), key=age.__getitem__)
        oldest[other] = elder
    return {group_id: first(group_id) for group_id in oldest}


def _positions(group_ids: Iterable[str]) -> dict[str, int]:
    return {group_id: position for position, group_id in enumerate(group_ids)}


def _made(
    before: Collection[TableGroup],
    new: Mapping[Pattern, str],
    counts: Mapping[str, int],
    oldest: Mapping[str, str],
) -> Iterator[TableGroup]:
    """Yield a pattern for each set of new texts that are one failure. *new* has their keys.

    The failure may be that of groups in the table *before*: then it is the oldest one of these, by
    *oldest*, their ``oldest_of_same_failure``.
    """
    elders = {}
    sizes = {}
    for group in before:
        elders[group.pattern] = oldest[group.group_id]
        sizes[group.pattern] = group.messages
    for pattern, key in new.items():
        sizes[pattern] = counts[key]

    age = _positions(oldest)
    new_starts = {pattern[0] for pattern in new}
    for members in _split_into_failures(sizes, new_starts):
        keys = []
        messages = 0
        elders_of_members = []
        for pattern in members:
            if pattern in new:
                keys.append(new[pattern])
                messages += sizes[pattern]
            if pattern in elders:
                elders_of_members.append(elders[pattern])
        if not keys:
            continue

        largest_key = min(keys, key=lambda key: (-counts[key], key))
        group_id = min(elders_of_members, key=age.__getitem__, default=group_id_of(largest_key))
        yield TableGroup(group_id, _common(members), messages)


def _listed(
    table: Collection[TableGroup], counts: Mapping[str, int], ids: Mapping[str, str]
) -> Grouping:
    """Put the messages of small groups into ``OTHERS``; *ids* has the group of each key."""
    messages = Counter[str]()
    for key, group_id in ids.items():
        messages[group_id] += counts[key]
    largest = sorted(messages, key=lambda group_id: (-messages[group_id], group_id))
    if len(largest) > LISTED_GROUPS:
        largest = largest[: LISTED_GROUPS - 1]
    listed = {OTHERS, *largest}

    listed_ids = {}
    for key, group_id in ids.items():
        listed_ids[key] = group_id if group_id in listed else OTHERS

    patterns = defaultdict[str, list[Pattern]](list)
    for group in table:
        if group.group_id in listed:
            patterns[group.group_id].append(group.pattern)
    titles = {}
    present = {}
    for group_id, patterns_of_group in patterns.items():
        pattern = _common(patterns_of_group)
        if has_data(pattern):
            titles[group_id] = pattern
        if group_id in messages:
            present[group_id] = pattern

    oldest = oldest_of_same_failure(table)
    same_failure = {group_id: first for group_id, first in oldest.items() if group_id != first}
    return Grouping(
        ids=listed_ids,
        titles=titles,
        unlisted=frozenset(messages.keys() - listed),
        same_failure=same_failure,
        similar=_rows(present, oldest),
    )


def _rows(patterns: Mapping[str, Pattern], oldest: Mapping[str, str]) -> dict[str, str]:
    """Return the oldest group of the row of each other group. *oldest* is that of its failure."""
    ids_by_failure = defaultdict[str, list[str]](list)
    for group_id in patterns:
        ids_by_failure[oldest[group_id]].append(group_id)

    failure_patterns = {}
    for first, group_ids in ids_by_failure.items():
        failure_patterns[first] = _common([patterns[group_id] for group_id in group_ids])
    similar = similar_groups(failure_patterns)

    rows = {}
    for first, group_ids in ids_by_failure.items():
        first_of_row = similar.get(first, first)
        for group_id in group_ids:
            if group_id != first_of_row:
                rows[group_id] = first_of_row
    return rows


def _common(patterns: Iterable[Pattern]) -> Pattern:
    """Return the pattern that fits all texts of these patterns."""
    common = []
    for digests in zip(*patterns, strict=True):
        is_same = len(set(digests)) == 1
        common.append(digests[0] if is_same else _ANY)
    return tuple(common)


def pattern_of(key: str) -> Pattern:
    """Return the pattern that fits this text alone."""
    head, parts = _parts(key)
    words = parts[::2]
    separators = parts[1::2]
    start = digest_of("\0".join([head, *separators]))
    return start, *map(digest_of, words)


def hidden(text: str, pattern: Pattern) -> str:
    """Return *text*, which fits *pattern*, with ``<*>`` for the words that differ."""
    head, parts = _parts(text)
    for position, digest in enumerate(pattern[1:]):
        if digest == _ANY:
            parts[2 * position] = f"<{_ANY}>"
    return f"{head}{''.join(parts)}"


def words_that_differ(key: str, pattern: Pattern) -> list[str]:
    """Return the words of an error's key for which *pattern*, which fits it, has ``<*>``."""
    _, parts = _parts(key)
    words = parts[::2]
    return [words[i] for i, digest in enumerate(pattern[1:]) if digest == _ANY]


def group_pattern(table: Iterable[TableGroup], group_id: str) -> Pattern | None:
    """Return the pattern that fits all texts of a group; None for a group without one."""
    patterns = [group.pattern for group in table if group.group_id == group_id]
    return _common(patterns) if patterns else None


def has_data(pattern: Pattern) -> bool:
    """Return whether texts of this pattern differ."""
    return _ANY in pattern


def fits(key: str, pattern: Pattern) -> bool:
    """Return whether the words of *pattern* fit an error's key, whatever its queue."""
    own_pattern = pattern_of(key)
    if len(own_pattern) != len(pattern):
        return False
    pairs = zip(own_pattern[1:], pattern[1:], strict=True)
    return all(digest in (own_digest, _ANY) for own_digest, digest in pairs)


def common_text(texts: Sequence[str]) -> str:
    """Return the first of these texts, with ``<*>`` for the words in which the others differ.

    Of texts that differ in more than words it is the first one.
    """
    head, parts = _parts(texts[0])
    words_of_texts = []
    for text in texts:
        own_head, own_parts = _parts(text)
        if own_head != head or own_parts[1::2] != parts[1::2]:
            return texts[0]
        words_of_texts.append(own_parts[::2])

    for position, words in enumerate(zip(*words_of_texts, strict=True)):
        if len(set(words)) > 1:
            parts[2 * position] = f"<{_ANY}>"
    return f"{head}{''.join(parts)}"


def _parts(text: str) -> tuple[str, list[str]]:
    """Split a text into the error's type, and words with separators between them."""
    error_type, colon, rest = text.partition(": ")
    return f"{error_type}{colon}", _SEPARATORS.split(rest)


@lru_cache(maxsize=100_000)
def digest_of(text: str) -> str:
    """Return the digest of a word in a pattern: its kind, one letter, and eight hex digits."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{_kind(text)}{digest}"


def _kind(text: str) -> str:
    if _MASKS.fullmatch(text):
        return _MASK
    if looks_like_code(text):
        return _IDENTIFIER
    bare = text.strip(".!?")
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
        has_context: whether all these texts have another word in common.
    """
    masks = {value for value in values if not _is_word(value)}
    codes = 0
    words = {}
    for value in values.keys() - masks:
        if value[0] == _IDENTIFIER:
            codes += 1
        else:
            words[value] = values[value]
    if codes > _CODE_SHARE * (codes + len(words)):
        return frozenset(masks)

    messages = sum(words.values())
    names = 0
    own_messages = 0
    rare = set()
    for value, count in words.items():
        if value[0] == _NAME:
            names += 1
        if count <= _OWN_MESSAGES:
            own_messages += count
        if count < _RARE_SHARE * messages:
            rare.add(value)

    may_be_own = has_context and names <= _CODE_SHARE * len(words)
    if may_be_own and len(words) >= OWN_VALUES and 2 * own_messages >= messages:
        return frozenset(masks | words.keys())
    if len(rare) >= MANY_VALUES:
        return frozenset(masks | rare)
    return frozenset(masks)


def _ranks(groups: Iterable[TableGroup], patterns: Mapping[str, Pattern]) -> dict[str, int]:
    """Return the place of the oldest pattern that fits each key; a key without one is left out."""
    ranks: dict[str, int] = {}
    for key, rank in _fitting(groups, patterns):
        ranks[key] = min(rank, ranks.get(key, rank))
    return ranks


def _fitting(
    groups: Iterable[TableGroup], patterns: Mapping[_Key, Pattern]
) -> Iterator[tuple[_Key, int]]:
    """Yield the place of each pattern of *groups* that fits one of *patterns*, and its key."""
    # By type and separators, then by the positions at which any word fits.
    ranks_by_start: defaultdict[str, dict[frozenset[int], dict[Pattern, int]]] = defaultdict(dict)
    for rank, group in enumerate(groups):
        free = frozenset(i for i, digest in enumerate(group.pattern) if digest == _ANY)
        ranks = ranks_by_start[group.pattern[0]].setdefault(free, {})
        ranks.setdefault(group.pattern, rank)

    for key, pattern in patterns.items():
        for free, ranks in ranks_by_start.get(pattern[0], {}).items():
            fitting = tuple(_ANY if i in free else digest for i, digest in enumerate(pattern))
            if fitting in ranks:
                yield key, ranks[fitting]


def _split_into_failures(
    sizes: Mapping[Pattern, int], starts: Collection[str]
) -> Iterator[list[Pattern]]:
    """Split patterns where words tell failures apart; yield the patterns of each failure.

    *sizes* has the messages of each. Only patterns that begin with one of *starts* are looked at.
    """
    by_start = defaultdict[str, list[Pattern]](list)
    for pattern in sizes:
        if pattern[0] in starts:
            by_start[pattern[0]].append(pattern)

    pending = list(by_start.values())
    while pending:
        members = pending.pop()
        values = []
        for digests in zip(*members, strict=True):
            counter = Counter[str]()
            for pattern, digest in zip(members, digests, strict=True):
                counter[digest] += sizes[pattern]
            values.append(counter)

        split = _split_position(values)
        if split is None:
            yield members
            continue
        position, data = split
        parts = defaultdict[str, list[Pattern]](list)
        for pattern in members:
            digest = pattern[position]
            parts[_ANY if digest in data else digest].append(pattern)
        pending += parts.values()


def _split_position(values: Sequence[Counter[str]]) -> tuple[int, frozenset[str]] | None:
    """Return a position whose values are not all data, and those that are; None if there is none.

    *values* has the messages of each value, for each position. Where more words differ than are
    common, the texts are no occurrences of one: then what differs is no data.
    """
    differing = []
    common_words = 0
    for position, counter in enumerate(values):
        if len(counter) > 1:
            differing.append(position)
        elif position > 0 and any(map(_is_word, counter)):
            common_words += 1

    def number_of_values(position: int) -> tuple[int, int]:
        return len(values[position]), position

    data = {}
    mixed = []
    for position in differing:
        data[position] = data_values(values[position], has_context=common_words > 0)
        if len(data[position]) < len(values[position]):
            mixed.append(position)
    if mixed:
        position = min(mixed, key=number_of_values)
        return position, data[position]

    in_words = [position for position in differing if any(map(_is_word, values[position]))]
    if len(in_words) <= max(1, common_words):
        return None
    return min(in_words, key=number_of_values), frozenset()


def _is_word(digest: str) -> bool:
    return digest[0] not in (_MASK, _ANY)


def similar_groups(patterns: Mapping[str, Pattern]) -> dict[str, str]:
    """Return the row of each group that is similar to another one: its oldest group, by id.

    *patterns* has one of each group, the oldest first. Texts of a row differ in one word, or in
    two, always the same; and they have as many words in common, or are one word. Where a group fits
    several rows, it is in the largest.
    """
    by_start = defaultdict[str, dict[str, Pattern]](dict)
    for group_id, pattern in patterns.items():
        by_start[pattern[0]][group_id] = pattern

    similar = dict[str, str]()
    for patterns_of_start in by_start.values():
        rows = _rows_of(patterns_of_start)
        for members in sorted(rows, key=len, reverse=True):
            members_left = [group_id for group_id in members if group_id not in similar]
            if len(members_left) > 1:
                similar |= dict.fromkeys(members_left, members_left[0])
    return similar


def _rows_of(patterns: Mapping[str, Pattern]) -> list[list[str]]:
    """Return the sets of groups whose patterns differ in the same one or two words."""
    if len(patterns) == 1:
        return []
    words = len(next(iter(patterns.values()))) - 1
    positions = range(1, words + 1)
    left_outs: list[tuple[int, ...]] = [*combinations(positions, 1)]
    left_outs += combinations(positions, 2) if words <= _MOST_WORDS else pairwise(positions)

    # Sums of hashes: to build each pattern without each pair would take far longer.
    hashes = {}
    sums = {}
    word_counts = {}
    for group_id, pattern in patterns.items():
        hashes[group_id] = list(map(hash, enumerate(pattern)))
        sums[group_id] = sum(hashes[group_id])
        word_counts[group_id] = sum(map(_is_word, pattern[1:]))

    rows = defaultdict[tuple[int, ...], list[str]](list)
    for left_out in left_outs:
        for group_id, pattern in patterns.items():
            rest = sums[group_id]
            common = word_counts[group_id]
            for position in left_out:
                rest -= hashes[group_id][position]
                if _is_word(pattern[position]):
                    common -= 1
            if common >= len(left_out) or words == 1:
                rows[*left_out, rest].append(group_id)
    return [members for members in rows.values() if len(members) > 1]
