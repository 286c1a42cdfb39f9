"""Texts of one failure are one group, and a group keeps its id."""

import itertools
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.groups.signature import signature_of
from spark_reprocess.archive.group_records import assign_groups
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.groups import grouping
from spark_reprocess.groups.grouping import (
    ERROR,
    OTHERS,
    TableGroup,
    check_group_by,
    families_of,
    grouped,
    hidden,
)

Table = tuple[TableGroup, ...]
DIGITS = str.maketrans(string.digits, "qrstuvwxyz")


def keyed(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{ERROR}E: {text}": count for text, count in counts.items()}


def named(sentence: str, number: int, each: int = 1) -> dict[str, int]:
    """Texts with so many different words in one place."""
    pairs = [first + second for first in string.ascii_lowercase for second in "aeiou"]
    return keyed({sentence.format(one * 3): each for one in pairs[:number]})


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        # Few values with many messages each are different failures.
        (named("no VAT rate for country {} today", 3), 3),
        (named("no VAT rate for country {} today", 4, each=49), 1),
        (named("no VAT rate for country {} today", 4, each=50), 4),
        (named("no VAT rate for country {} today", 12, each=450), 12),
        (named("no VAT rate for country {} today", 12, each=440), 1),
        # Texts with few words in common are one failure only if there are many.
        (named("'{}'", 9), 9),
        (named("'{}'", 10), 1),
        (named("{}", 100), 1),
        (named("the {} is closed", 100) | named("the {} is late", 100), 2),
        (keyed({f"{a} of {b} is late": 30 for a in "abcdefghijkl" for b in "abcdefghijkl"}), 12),
        (keyed({f"x{n:b} of y{n:o} is late".translate(DIGITS): 1 for n in range(99)}), 1),
        # Another number of words, another separator, another type.
        (keyed({"a b": 1, "a b c": 1, "a: b": 1, "a=b": 1}), 4),
        ({f"{ERROR}{kind}: {n * 3} is closed": 1 for kind in "AB" for n in "abcdefghijk"}, 2),
        # A key that is not of an error is its group's id.
        ({"g-0123456789": 5, "g-0123456788": 1}, 2),
    ],
)
def test_many_values_of_one_word_are_one_failure_and_few_are_not(
    counts: dict[str, int], groups: int
) -> None:
    _, found = grouped((), counts)

    assert found.ids.keys() == counts.keys()
    assert len(set(found.ids.values())) == groups
    assert found.unlisted == frozenset()


@pytest.mark.parametrize(
    ("sentence", "title"),
    [("key '{}' of 'vat' is missing", "E: key <*> of 'vat' is missing"), ("'{}'", "E: <*>")],
)
def test_what_is_shown_and_stored_of_a_group_of_several_texts_has_no_word_that_differs(
    sentence: str, title: str
) -> None:
    counts = named(sentence, 50)

    table, found = grouped((), counts)

    (pattern,) = found.titles.values()
    assert isinstance(pattern, tuple)
    titles = {hidden(key.removeprefix(ERROR), pattern) for key in counts}
    assert titles == {title}
    assert not any("vat" in word or "aaa" in word for word in table[0].pattern)


WORDS = ("user", "order", *(f"n{one}" for one in string.ascii_lowercase), "<id>")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
DAYS = st.lists(st.dictionaries(TEXTS, st.integers(1, 400), max_size=12), min_size=1, max_size=30)


@given(DAYS)
def test_thirty_analyses_of_a_growing_archive_never_change_an_id(
    days: Sequence[dict[str, int]],
) -> None:
    """Nor do they ever split a family."""
    table: Table = ()
    archive = Counter[str]()
    known: dict[str, str] = {}
    families: list[set[str]] = []
    for day in days:
        archive.update(keyed(day))
        after, found = grouped(table, archive)

        assert known.items() <= found.ids.items()
        assert [one.group_id for one in after[: len(table)]] == [one.group_id for one in table]
        assert grouped(after, archive) == (after, found)
        oldest = families_of(after)
        assert all(len({oldest[one] for one in family}) == 1 for family in families)
        assert found.families == {one: first for one, first in oldest.items() if one != first}
        table, known = after, dict(found.ids)
        families = [
            {one for one in oldest if oldest[one] == first} for first in found.families.values()
        ]


def test_groups_that_turn_out_alike_are_a_family_and_new_texts_go_to_its_oldest() -> None:
    """Two families that turn out alike are one."""
    table: Table = ()
    archive: dict[str, int] = {}
    sizes, ids = [], []
    for country, users in (("DE", 3), ("DE", 4), ("FR", 3), ("FR", 4), ("ES", 4), ("IT", 4)):
        archive |= named(f"no VAT rate for {{}} in {country} today", users)
        table, found = grouped(table, archive)
        family = {one: found.families.get(one, one) for one in found.ids.values()}
        sizes.append(sorted(Counter(family.values()).values()))
        ids.append(found.ids[[*archive][-1]])
    oldest = table[0].group_id

    assert sizes == [[1, 1, 1], [3], [1, 1, 1, 3], [3, 3], [1, 3, 3], [7]]
    assert (ids[1], ids[5]) == (oldest, oldest)
    assert set(found.families.values()) == {oldest}
    assert found.titles[oldest] == table[-1].pattern


def coded(kind: str, code: str, order: str) -> str:
    return f"{ERROR}{kind}: order {order} refused, code {code}"


def test_what_a_pattern_captures_stands_for_the_text() -> None:
    codes, orders = ("stolen", "limit"), ("ab", "cd", "ef")
    counts = {coded(kind, *one): 2 for kind in "AB" for one in itertools.product(codes, orders)}
    counts |= keyed({"code": 1, "order ab refused, code ": 1})

    table, found = grouped((), counts, group_by="[Cc]ode ([a-z]*)")

    titles = Counter(found.titles.get(group_id) for group_id in found.ids.values())
    assert titles == {f"{kind} ({code})": 3 for kind in "AB" for code in codes} | {None: 2}
    coded_id = signature_of("", None, "A", "any", "limit").group_id
    assert found.ids[coded("A", "limit", "ab")] == coded_id
    assert len(table) == 2


def test_smaller_groups_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "LISTED_GROUPS", 3)
    counts = {"g-1": 5, "g-2": 1, "g-3": 9, "g-4": 2}

    _, found = grouped((), counts)

    assert found.ids == {"g-1": "g-1", "g-2": OTHERS, "g-3": "g-3", "g-4": OTHERS}
    assert found.unlisted == {"g-2", "g-4"}


def test_a_full_table_forgets_the_oldest_group_that_nobody_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "TABLE_GROUPS", 3)
    table, _ = grouped((), keyed({"a": 4, "b b": 3, "c c c": 2}))
    kept, seen, unused = (one.group_id for one in table)

    after, second = grouped(table, keyed({"b b": 1, "d": 9, "f f": 1}), [kept])

    assert [one.group_id for one in after[:2]] == [kept, seen]
    assert [one.group_id for one in table if one not in after] == [unused]
    assert second.ids[f"{ERROR}E: b b"] == seen
    assert second.ids[f"{ERROR}E: d"] == after[2].group_id
    assert second.ids[f"{ERROR}E: f f"] == OTHERS


def test_a_full_table_forgets_no_pattern_of_a_family_that_has_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three, four = (named("no VAT rate for {} today", number) for number in (3, 4))
    table, before = grouped(grouped((), three)[0], four)
    monkeypatch.setattr(grouping, "TABLE_GROUPS", len(table))

    after, found = grouped(table, three | keyed({"a b": 9}))

    assert found.ids[f"{ERROR}E: a b"] == OTHERS
    assert grouped(after, four)[1].ids == before.ids


class BusyArchive(LocalArchive):
    """Another analysis writes the table right before this one does."""

    def create(self, path: str, content: bytes) -> bool:
        assign_groups(LocalArchive(self.root), keyed({"b b": 1}), ())
        return super().create(path, content)

    def replace(self, path: str, old: bytes, new: bytes) -> bool:
        assign_groups(LocalArchive(self.root), keyed({"c c c": 1}), ())
        return super().replace(path, old, new)


def test_two_analyses_at_once_end_in_one_table(tmp_path: Path) -> None:
    archive = BusyArchive(str(tmp_path))
    counts = keyed({"a": 1, "b b": 1})

    found = assign_groups(archive, counts, ())

    assert found == assign_groups(LocalArchive(str(tmp_path)), counts, ())
    content = archive.read("groups/table.json") or b""
    assert content.count(b"g-") == 3
    LocalArchive(str(tmp_path)).write("groups/table.json", b"{")
    with pytest.raises(ArchiveError, match=r"groups/table\.json cannot be read"):
        assign_groups(archive, counts, ())


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("code (", "is no regular expression of RE2: missing"),
        ("code [a-z]+", "has 0 groups in brackets; give one"),
        ("(code) ([a-z]+)", "has 2 groups in brackets; give one"),
        # What could run for ever.
        (r"(\w+) \1", "is no regular expression of RE2: .*escape sequence"),
        ("(?=code)([a-z]+)", "of RE2: .*perl operator"),
        ("(a{99999999999})", "of RE2: .*repetition"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(
    pattern: str, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        check_group_by(pattern)


def test_a_pattern_of_nested_repetitions_takes_linear_time() -> None:
    key = f"{ERROR}E: {'a' * 5_000}!"

    check_group_by("((?:a+)+)$")
    _, found = grouped((), {key: 1}, group_by="((?:a+)+)$")

    assert found.titles == {found.ids[key]: f"E ({'a' * 1021})"}


def test_a_pattern_is_remembered_until_there_is_another_one(tmp_path: Path) -> None:
    archive = LocalArchive(str(tmp_path))
    counts = keyed({"code a": 1, "code b": 1})

    titles = [
        sorted(map(str, assign_groups(archive, counts, (), group_by).titles.values()))
        for group_by in (None, "code ([a-z])", None, "")
    ]

    assert titles == [[], ["E (a)", "E (b)"], ["E (a)", "E (b)"], []]
