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
    Grouping,
    TableGroup,
    check_group_by,
    common_text,
    data_values,
    digest_of,
    grouped,
    hidden,
    in_queue,
    oldest_of_same_failure,
)
from dlq.explain.signature.signature import signature_of

Table = tuple[TableGroup, ...]
DIGITS = str.maketrans(string.digits, "qrstuvwxyz")


def keyed(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{ERROR}E: {text}": count for text, count in counts.items()}


WORDS_OF_LETTERS = tuple(map("".join, itertools.product(string.ascii_lowercase, "aeiou", "lmnrst")))


def named(sentence: str, number: int, each: int = 1) -> dict[str, int]:
    """Texts with so many different words in one place."""
    return keyed({sentence.format(name): each for name in WORDS_OF_LETTERS[:number]})


def equally(template: str, number: int, each: int) -> dict[str, int]:
    """So many words with so many messages each; *template* says what is around the letters."""
    return {template.format(letters): each for letters in WORDS_OF_LETTERS[:number]}


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
        (equally("{}_code", 60, 1), 0),
        (counted(90, 1, vat_rate=1, OrderPlaced=1, McDonald=1), 91),
        (counted(90, 1, **equally("{}_id", 9, 1)), 0),
        # What may be a name, between quotes or as a login, is data only if there are fifty.
        (equally("'{}'", 49, 1), 0),
        (equally("'{}'", 50, 1), 50),
        (equally("{}.smith", 49, 1), 0),
        (equally("{}.smith", 50, 3), 50),
        # Masks are data.
        ({"<n>": 9, "<time>": 9, "none": 9}, 2),
        (counted(12, 1) | {"<n>": 900}, 13),
    ],
)
def test_values_are_data_if_there_are_many_and_none_stands_out(
    words: dict[str, int], data: int
) -> None:
    counts = {digest_of(value): count for value, count in words.items()}

    assert len(data_values(counts)) == data


def test_without_another_word_values_are_data_only_if_there_are_fifty() -> None:
    digests = list(map(digest_of, WORDS_OF_LETTERS))
    few = dict.fromkeys(digests[:49], 1)
    many = dict.fromkeys(digests[:50], 1)

    assert data_values(few, has_context=False) == frozenset()
    assert data_values(many, has_context=False) == many.keys()


FULL_NAMES = itertools.product(WORDS_OF_LETTERS[:60], WORDS_OF_LETTERS[60:120])
MANY_FULL_NAMES = [f"user {first} {last}x may not do that" for first, last in FULL_NAMES]


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
        (keyed(dict.fromkeys(MANY_FULL_NAMES, 2)), 1),
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
    _, assignment = grouped((), counts)

    assert assignment.ids.keys() == counts.keys()
    assert len(set(assignment.ids.values())) == groups
    assert assignment.unlisted == frozenset()


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
    _, assignment = grouped((), keyed(dict.fromkeys(texts, 3)))

    ids = set(assignment.ids.values())
    assert len(ids) == len(texts)
    shown = Counter(assignment.similar.get(group_id, group_id) for group_id in ids)
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

    table, assignment = grouped((), counts)

    (pattern,) = assignment.titles.values()
    assert isinstance(pattern, tuple)
    titles = {hidden(key.removeprefix(ERROR), pattern) for key in counts}
    assert titles == {title}
    assert not any("vat" in part or "aaa" in part for part in table[0].pattern)


WORDS = ("user", "order", *(f"n{letter}" for letter in string.ascii_lowercase), "<id>")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
DAYS = st.lists(st.dictionaries(TEXTS, st.integers(1, 400), max_size=12), min_size=1, max_size=30)


@given(DAYS)
def test_thirty_analyses_of_a_growing_archive_never_change_an_id(
    days: Sequence[dict[str, int]],
) -> None:
    """Nor do they ever divide the groups of a failure."""
    table: Table = ()
    archive = Counter[str]()
    earlier_ids: dict[str, str] = {}
    failures: list[set[str]] = []
    for day in days:
        archive.update(keyed(day))
        after, assignment = grouped(table, archive)

        assert earlier_ids.items() <= assignment.ids.items()
        assert ids_of(after[: len(table)]) == ids_of(table)
        assert grouped(after, archive) == (after, assignment)

        oldest = oldest_of_same_failure(after)
        for ids_of_failure in failures:
            assert len({oldest[group_id] for group_id in ids_of_failure}) == 1
        younger = {group_id: first for group_id, first in oldest.items() if group_id != first}
        assert assignment.same_failure == younger

        table = after
        earlier_ids = dict(assignment.ids)
        failures = []
        for first in assignment.same_failure.values():
            failures.append({group_id for group_id in oldest if oldest[group_id] == first})


def ids_of(table: Table) -> list[str]:
    return [group.group_id for group in table]


@given(st.dictionaries(TEXTS, st.integers(1, 400), max_size=40), st.randoms())
def test_the_order_of_the_messages_changes_nothing(counts: dict[str, int], chance: Random) -> None:
    pairs = [*keyed(counts).items()]
    expected = grouped((), dict(pairs))
    chance.shuffle(pairs)

    assert grouped((), dict(pairs)) == expected


def test_when_words_turn_out_to_be_data_their_groups_stay_and_are_one_failure() -> None:
    sentence = "user {} not found today"
    table: Table = ()
    archive: dict[str, int] = {}
    groups = []
    failures = []
    ids: dict[str, str] = {}
    for users in (4, 9, 10, 30):
        archive |= named(sentence, users)
        table, assignment = grouped(table, archive)
        assert ids.items() <= assignment.ids.items()
        ids = dict(assignment.ids)
        groups.append(len(set(ids.values())))
        failures.append(count_failures(assignment))

    oldest = table[0].group_id
    assert groups == [4, 9, 9, 9]
    assert failures == [4, 9, 1, 1]
    assert {ids[key] for key in [*archive][9:]} == {oldest}
    assert set(assignment.same_failure.values()) == {oldest}
    assert set(assignment.similar.values()) == {oldest}
    assert assignment.titles[oldest] == table[-1].pattern


def count_failures(assignment: Grouping) -> int:
    group_ids = assignment.ids.values()
    return len({assignment.same_failure.get(group_id, group_id) for group_id in group_ids})


def test_groups_of_two_failures_that_turn_out_to_be_one_are_of_one() -> None:
    countries = WORDS_OF_LETTERS[:50]
    table: Table = ()
    failures = []
    for number in (49, 50):
        texts = []
        for place, country in enumerate(countries[:number], start=5):
            for user in WORDS_OF_LETTERS[10 * place : 10 * place + 10]:
                texts.append(f"no VAT rate for {user} in {country}x on that day")

        archive = keyed(dict.fromkeys(texts, 1))
        table, assignment = grouped(table, archive)
        failures.append(count_failures(assignment))

    assert failures == [49, 1]
    assert set(assignment.same_failure.values()) == {table[0].group_id}


def coded(kind: str, code: str, order: str) -> str:
    return f"{ERROR}{kind}: order {order} refused, code {code}"


def test_what_a_pattern_captures_stands_for_the_text() -> None:
    codes = ("stolen", "limit")
    orders = ("ab", "cd", "ef")
    counts = {}
    for kind, code, order in itertools.product("AB", codes, orders):
        counts[coded(kind, code, order)] = 2
    counts |= keyed({"code": 1, "order ab refused, code ": 1})

    table, assignment = grouped((), counts, group_by="[Cc]ode ([a-z]*)")

    titles = Counter(assignment.titles.get(group_id) for group_id in assignment.ids.values())
    assert titles == {f"{kind} ({code})": 3 for kind in "AB" for code in codes} | {None: 2}
    coded_id = signature_of("", None, "A", "any", "limit").group_id
    assert assignment.ids[coded("A", "limit", "ab")] == coded_id
    assert len(table) == 2


def test_smaller_groups_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "LISTED_GROUPS", 3)
    counts = {"g-1": 5, "g-2": 1, "g-3": 9, "g-4": 2}

    _, assignment = grouped((), counts)

    assert assignment.ids == {"g-1": "g-1", "g-2": OTHERS, "g-3": "g-3", "g-4": OTHERS}
    assert assignment.unlisted == {"g-2", "g-4"}


def test_a_full_table_forgets_the_oldest_group_that_nobody_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "TABLE_GROUPS", 3)
    table, _ = grouped((), keyed({"a": 4, "b b": 3, "c c c": 2}))
    decided, seen, unused = ids_of(table)

    after, second = grouped(table, keyed({"b b": 1, "d": 9, "f f": 1}), [decided])

    assert ids_of(after[:2]) == [decided, seen]
    assert [group.group_id for group in table if group not in after] == [unused]
    assert second.ids[f"{ERROR}E: b b"] == seen
    assert second.ids[f"{ERROR}E: d"] == after[2].group_id
    assert second.ids[f"{ERROR}E: f f"] == OTHERS


def test_a_full_table_forgets_no_pattern_of_a_failure_that_has_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nine = named("no VAT rate for {} today", 9)
    ten = named("no VAT rate for {} today", 10)
    table, before = grouped(grouped((), nine)[0], ten)
    monkeypatch.setattr(grouping, "TABLE_GROUPS", len(table))

    after, assignment = grouped(table, nine | keyed({"a b": 9}))

    assert assignment.ids[f"{ERROR}E: a b"] == OTHERS
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

    assignment = assign_groups(archive, counts, ())

    assert assignment == assign_groups(LocalArchive(str(tmp_path)), counts, ())
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
    _, assignment = grouped((), {key: 1}, group_by="((?:a+)+)$")

    assert assignment.titles == {assignment.ids[key]: f"E ({'a' * 1021})"}


def test_a_pattern_is_remembered_until_there_is_another_one(tmp_path: Path) -> None:
    archive = LocalArchive(str(tmp_path))
    counts = keyed({"code a": 1, "code b": 1})

    titles = []
    for group_by in (None, "code ([a-z])", None, ""):
        assignment = assign_groups(archive, counts, (), group_by)
        titles.append(sorted(map(str, assignment.titles.values())))

    assert titles == [[], ["E (a)", "E (b)"], ["E (a)", "E (b)"], []]


ORDERS = {in_queue(key, "orders"): 5 for key in (f"{ERROR}E: late", "g-0123456789")}
INVOICES = {in_queue(key, "invoices"): 9 for key in (f"{ERROR}E: late", "g-0123456789")}
UNKNOWN = {f"{ERROR}E: late": 2, "g-0123456789": 2}


def test_a_group_of_one_queue_keeps_its_id_when_others_join(tmp_path: Path) -> None:
    archive = LocalArchive(str(tmp_path))
    _, without_queue = grouped((), UNKNOWN)

    alone = assign_groups(archive, ORDERS | UNKNOWN, ())
    joined = assign_groups(archive, ORDERS | INVOICES | UNKNOWN, ())
    alone_again = assign_groups(archive, ORDERS | UNKNOWN, ())

    ids_without_queue = list(without_queue.ids.values())
    assert [alone.ids[key] for key in ORDERS] == ids_without_queue
    # The only queue is that of messages that do not name theirs.
    assert [alone.ids[key] for key in UNKNOWN] == ids_without_queue
    assert [joined.ids[key] for key in ORDERS] == ids_without_queue
    assert len(set(joined.ids.values())) == 6
    assert alone_again.ids == {key: joined.ids[key] for key in ORDERS | UNKNOWN}


def test_the_first_queue_is_the_one_with_most_messages(tmp_path: Path) -> None:
    archive = LocalArchive(str(tmp_path))

    both = assign_groups(archive, ORDERS | INVOICES, ())
    later = assign_groups(archive, {**ORDERS, **dict.fromkeys(INVOICES, 1)}, ())

    _, bare = grouped((), UNKNOWN)
    assert [both.ids[key] for key in INVOICES] == list(bare.ids.values())
    assert later.ids == both.ids


def test_texts_of_different_queues_are_neither_similar_nor_one_failure() -> None:
    words = named("no VAT rate for country {} today", 12)
    counts: dict[str, int] = {}
    for queue in ("orders", "invoices"):
        counts |= {in_queue(key, queue): count for key, count in words.items()}
    counts[in_queue(f"{ERROR}E: no rate", "orders")] = 1
    counts[in_queue(f"{ERROR}E: no way", "orders")] = 1
    counts[in_queue(f"{ERROR}E: no use", "invoices")] = 1

    _, assignment = grouped((), counts)

    ids = {key: assignment.ids[key] for key in counts}
    of_orders = {ids[key] for key in ids if "|orders|" in key}
    of_invoices = {ids[key] for key in ids if "|invoices|" in key}
    assert (len(of_orders), len(of_invoices)) == (3, 2)
    assert of_orders.isdisjoint(of_invoices)
    assert assignment.same_failure == {}
    row = {*assignment.similar.keys(), *assignment.similar.values()}
    assert row == {ids[in_queue(f"{ERROR}E: no {end}", "orders")] for end in ("rate", "way")}


def test_what_a_pattern_captures_is_a_code_in_each_queue() -> None:
    counts = {in_queue(coded("A", "limit", order), queue): 1 for order, queue in ("xy", "zy", "zq")}

    _, assignment = grouped((), counts, group_by="code ([a-z]*)")

    assert len(set(assignment.ids.values())) == 2
    assert set(assignment.titles.values()) == {"A (limit)"}
