"""Texts of one failure are one group, and a group keeps its id."""

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.archive.group_records import assign_groups
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.errors import ArchiveError
from spark_reprocess.groups import grouping
from spark_reprocess.groups.grouping import ERROR, OTHERS, TableGroup, grouped, hidden

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

    (pattern,) = found.patterns.values()
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
    table: Table = ()
    archive = Counter[str]()
    known: dict[str, str] = {}
    for day in days:
        archive.update(keyed(day))
        after, found = grouped(table, archive)

        assert known.items() <= found.ids.items()
        assert [one.group_id for one in after[: len(table)]] == [one.group_id for one in table]
        assert len({one.group_id for one in after}) == len(after)
        assert grouped(after, archive) == (after, found)
        table, known = after, dict(found.ids)


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
