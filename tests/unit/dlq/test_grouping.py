"""Texts of one failure are one group, and a group keeps its id."""

import itertools
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.group_records import assign_groups
from dlq.archive.storage.local import LocalArchive
from dlq.errors import ArchiveError, InputError
from dlq.explain import grouping
from dlq.explain.grouping import (
    ERROR,
    OTHERS,
    TableGroup,
    check_group_by,
    common_text,
    data_values,
    digest_of,
    families_of,
    grouped,
    hidden,
)
from dlq.explain.signature.signature import signature_of

Table = tuple[TableGroup, ...]
DIGITS = str.maketrans(string.digits, "qrstuvwxyz")


def keyed(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{ERROR}E: {text}": count for text, count in counts.items()}


WORDS_OF_LETTERS = tuple(
    first + second + third
    for first in string.ascii_lowercase
    for second in "aeiou"
    for third in "lmnrst"
)


def named(sentence: str, number: int, each: int = 1) -> dict[str, int]:
    """Texts with so many different words in one place."""
    return keyed({sentence.format(word): each for word in WORDS_OF_LETTERS[:number]})


def counted(number: int, each: int, **others: int) -> dict[str, int]:
    """So many plain words with so many messages each, and others."""
    return dict.fromkeys(WORDS_OF_LETTERS[:number], each) | others


@pytest.mark.parametrize(
    ("words", "data"),
    [
        # Few are failures of their own, however many messages they have.
        ({"email": 10, "phone": 10, "vat": 10}, 0),
        (counted(9, 1), 0),
        # Ten or more are data where nearly every message has its own.
        (counted(10, 1), 10),
        (counted(10, 2), 10),
        (counted(10, 3), 0),
        (counted(30, 1, root=20), 31),
        (counted(30, 1, root=40), 0),
        # Fifty or more are data where each is rare; one that is not stays a failure of its own.
        (counted(49, 9), 0),
        (counted(50, 9), 50),
        (counted(80, 9, root=300), 80),
        # A name of code is no data. Where a twentieth of the values are names of code, all are.
        ({f"{word}_code": 1 for word in WORDS_OF_LETTERS[:60]}, 0),
        (counted(90, 1, vat_rate=1, OrderPlaced=1, McDonald=1), 91),
        (counted(90, 1, **{f"{word}_id": 1 for word in WORDS_OF_LETTERS[:9]}), 0),
        # What may be a name, between quotes or as a login, is data only if there are fifty.
        ({f"'{word}'": 1 for word in WORDS_OF_LETTERS[:49]}, 0),
        ({f"'{word}'": 1 for word in WORDS_OF_LETTERS[:50]}, 50),
        ({f"{word}.smith": 1 for word in WORDS_OF_LETTERS[:49]}, 0),
        ({f"{word}.smith": 3 for word in WORDS_OF_LETTERS[:50]}, 50),
        # Masks are data.
        ({"<n>": 9, "<time>": 9, "none": 9}, 2),
        (counted(12, 1) | {"<n>": 900}, 13),
    ],
)
def test_values_are_data_if_there_are_many_and_none_stands_out(
    words: dict[str, int], data: int
) -> None:
    values = {digest_of(word): count for word, count in words.items()}

    assert len(data_values(values)) == data


def test_without_another_word_values_are_data_only_if_there_are_fifty() -> None:
    few, many = ({digest_of(word): 1 for word in WORDS_OF_LETTERS[:number]} for number in (49, 50))

    assert data_values(few, has_context=False) == frozenset()
    assert data_values(many, has_context=False) == many.keys()


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        (named("no VAT rate for country {} today", 4), 4),
        (named("no VAT rate for country {} today", 4, each=1_000), 4),
        (named("no VAT rate for country {} today", 12, each=10), 12),
        (named("no VAT rate for country {} today", 12), 1),
        (named("no VAT rate for country {} today", 100, each=9), 1),
        # Texts without a word in common.
        (named("'{}'", 49), 49),
        (named("'{}'", 50), 1),
        (named("{}", 100), 1),
        # Other words are other failures.
        (named("the {} is closed", 100) | named("the {} is late", 100), 2),
        (keyed({f"{a} of {b} is late": 30 for a in "abcdefghijkl" for b in "abcdefghijkl"}), 144),
        # First and last names.
        (keyed({f"user {a} {b}x may not": 1 for a in WORDS_OF_LETTERS[:60] for b in "pqrstu"}), 6),
        (
            keyed(
                {
                    f"user {a} {b}x may not do that": 2
                    for a in WORDS_OF_LETTERS[:60]
                    for b in WORDS_OF_LETTERS[60:120]
                }
            ),
            1,
        ),
        # Where more words differ than are common, nothing is.
        (keyed({f"{a} {a}x {a}y": 1 for a in WORDS_OF_LETTERS[:60]}), 60),
        (keyed({f"{a} with {a}x or {a}y": 1 for a in WORDS_OF_LETTERS[:60]}), 60),
        (keyed({f"x{n:b} of y{n:o} is late".translate(DIGITS): 1 for n in range(99)}), 1),
        # Another number of words, another separator, another type.
        (keyed({"a b": 1, "a b c": 1, "a: b": 1, "a=b": 1}), 4),
        ({f"{ERROR}{kind}: {n * 3} is closed": 1 for kind in "AB" for n in "abcdefghijk"}, 2),
        # Scripts without blanks: words end where the script changes.
        (keyed({f"\u6ce8\u6587<n>\u304c{end}": 5 for end in ("\u3042\u308a", "\u306a\u3057")}), 2),
        # A key that is not of an error is its group's id.
        ({"g-0123456789": 5, "g-0123456788": 1}, 2),
    ],
)
def test_different_words_are_different_failures_and_data_is_not(
    counts: dict[str, int], groups: int
) -> None:
    _, found = grouped((), counts)

    assert found.ids.keys() == counts.keys()
    assert len(set(found.ids.values())) == groups
    assert found.unlisted == frozenset()


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        # One word differs, or two; always the same ones.
        (("field vat is required", "field zip is required", "field zip is unknown"), [3]),
        (("no way from paid to draft", "no way from sent to open"), [2]),
        (("a b c d e f g", "x b c d e f g", "x y c d e f g", "x y z d e f g"), [3, 1]),
        # The texts are one word.
        (("CARD_DECLINED", "CARD_EXPIRED", "DO_NOT_HONOR"), [3]),
        # More differ than are common.
        (("not found", "access denied"), [1, 1]),
        (("order not found", "user not found", "order was late"), [2, 1]),
        # Another type, other separators.
        (("vat: missing", "zip is missing"), [1, 1]),
    ],
)
def test_groups_whose_texts_differ_in_a_word_or_two_are_one_row(
    texts: Sequence[str], rows: Sequence[int]
) -> None:
    _, found = grouped((), keyed(dict.fromkeys(texts, 3)))

    ids = set(found.ids.values())
    assert len(ids) == len(texts)
    shown = Counter(found.similar.get(group_id, group_id) for group_id in ids)
    assert sorted(shown.values(), reverse=True) == rows
    assert shown.keys() <= ids


def test_a_row_is_called_by_what_its_texts_have_in_common() -> None:
    fields = ["E: field vat is required", "E: field zip is required"]

    assert common_text(fields) == "E: field <*> is required"
    assert common_text([*fields, "E: no"]) == fields[0]
    assert common_text(["E: x", "F: x"]) == "E: x"


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


@given(st.dictionaries(TEXTS, st.integers(1, 400), max_size=40), st.randoms())
def test_the_order_of_the_messages_changes_nothing(counts: dict[str, int], chance: Random) -> None:
    pairs = [*keyed(counts).items()]
    expected = grouped((), dict(pairs))
    chance.shuffle(pairs)

    assert grouped((), dict(pairs)) == expected


def test_when_words_turn_out_to_be_data_their_groups_stay_and_are_one_family() -> None:
    sentence = "user {} not found today"
    table: Table = ()
    archive: dict[str, int] = {}
    groups, families, ids = [], [], dict[str, str]()
    for users in (4, 9, 10, 30):
        archive |= named(sentence, users)
        table, found = grouped(table, archive)
        assert ids.items() <= found.ids.items()
        ids = dict(found.ids)
        groups.append(len(set(ids.values())))
        families.append(len({found.families.get(one, one) for one in ids.values()}))
    oldest = table[0].group_id

    assert groups == [4, 9, 9, 9]
    assert families == [4, 9, 1, 1]
    assert {ids[key] for key in [*archive][9:]} == {oldest}
    assert set(found.families.values()) == {oldest}
    assert set(found.similar.values()) == {oldest}
    assert found.titles[oldest] == table[-1].pattern


def test_two_families_that_turn_out_to_be_one_failure_are_one() -> None:
    countries = WORDS_OF_LETTERS[:50]
    table: Table = ()
    families = []
    for number in (49, 50):
        texts = [
            f"no VAT rate for {user} in {country}x on that day"
            for place, country in enumerate(countries[:number], start=5)
            for user in WORDS_OF_LETTERS[10 * place : 10 * place + 10]
        ]
        archive = keyed(dict.fromkeys(texts, 1))
        table, found = grouped(table, archive)
        families.append(len({found.families.get(one, one) for one in found.ids.values()}))

    assert families == [49, 1]
    assert set(found.families.values()) == {table[0].group_id}


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
    nine, ten = (named("no VAT rate for {} today", number) for number in (9, 10))
    table, before = grouped(grouped((), nine)[0], ten)
    monkeypatch.setattr(grouping, "TABLE_GROUPS", len(table))

    after, found = grouped(table, nine | keyed({"a b": 9}))

    assert found.ids[f"{ERROR}E: a b"] == OTHERS
    assert grouped(after, ten)[1].ids == before.ids


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
