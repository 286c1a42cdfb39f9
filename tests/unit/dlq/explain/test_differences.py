"""Small archives of which a human knows the differences; faults that nobody recorded."""

import hashlib
import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from string import ascii_lowercase
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq.explain.differences.differences import CORRELATED
from dlq.explain.differences.feature_extraction import (
    differences_among,
    differences_within_queues,
)
from dlq.explain.differences.features import features_of
from dlq.explain.findings import LEAST_GROUP, Difference, format_predicate
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.explain.signature.signature import has_error, shape_of, short_title, signature_of
from tests.support.event_faults import FAULTS, Delivery, dead_letters


@dataclass(frozen=True, slots=True)
class Letter:
    """The part of a dead letter that the search sees."""

    body: Any
    attributes: Mapping[str, str] | None = None
    error_type: str | None = None
    reason: str = "attempts_exhausted"
    failed_at: float | None = None


@dataclass(frozen=True, slots=True)
class SearchedGroup:
    """A group, its differences, and the places of its messages among those given."""

    title: str
    members: tuple[int, ...]
    differences: tuple[Difference, ...]


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of ``_row`` as ``read_features`` returns them."""
    table = pa.Table.from_pylist(list(rows))
    column = table.column_names.index("failed_at")
    return table.cast(table.schema.set(column, pa.field("failed_at", pa.float64())))


def searched(
    letters: Sequence[Letter], masks: Masks | None = None, each_stands_for: int = 1
) -> list[SearchedGroup]:
    """Group the letters and look for each group's differences, the largest group first."""
    rows = [_row(place, letter) for place, letter in enumerate(letters)]
    rows.sort(key=lambda row: (row["group_id"], row["chance"]))
    rows_by_group = defaultdict(list)
    for row in rows:
        rows_by_group[row["group_id"]].append(row)

    counts = {}
    for group_id, members in rows_by_group.items():
        counts[group_id] = len(members) * each_stands_for

    differences = differences_among(table_of(rows), counts, masks or Masks())

    groups = []
    for group_id, members in rows_by_group.items():
        places = tuple(row["place"] for row in members)
        group = SearchedGroup(members[0]["title"], places, differences.get(group_id, ()))
        groups.append(group)

    return sorted(groups, key=lambda group: -len(group.members))


def _row(place: int, letter: Letter) -> dict[str, Any]:
    body = letter.body if isinstance(letter.body, str) else json.dumps(letter.body)
    signature = signature_of(body, letter.reason, letter.error_type, None)
    attributes = []
    for name, text in (letter.attributes or {}).items():
        value = {"data_type": "String", "string_value": text, "binary_value": None}
        attributes.append((name, value))

    return {
        "group_id": signature.group_id,
        "chance": hashlib.sha256(str(place).encode()).hexdigest(),
        "place": place,
        "title": short_title(signature.text),
        "shape": shape_of(body).key,
        "failed_at": letter.failed_at,
        "features": features_of(body, len(body.encode()), attributes, {}),
        "is_by_shape": not has_error(letter.error_type, None),
    }


def orders(count: int, chance: random.Random, **own: Any) -> list[dict[str, Any]]:
    """Orders with an unique id, a skewed tenant and a few kinds of payment."""
    made = []
    for number in range(count):
        order = {
            "id": f"{chance.getrandbits(64):016x}",
            "tenant": chance.choices(("acme", "initech", "globex"), (70, 20, 10))[0],
            "payment": {"provider": chance.choice(("visa", "paypal")), "cents": number * 37 + 5},
            **own,
        }
        made.append(order)

    return made


def first_claims(letters: list[Letter], masks: Masks | None = None) -> dict[str, str]:
    """By the title of each group its first difference."""
    claims = {}
    for group in searched(letters, masks):
        claims[group.title] = format_predicate(group.differences[0]) if group.differences else ""

    return claims


def format_synonyms(difference: Difference) -> str:
    synonyms = [synonym for part in difference.parts for synonym in part.synonyms]
    return ", ".join(map(format_predicate, synonyms))


def group_a(
    letters: list[Letter], masks: Masks | None = None, each_stands_for: int = 1
) -> SearchedGroup:
    """The group with the error A."""
    groups = searched(letters, masks, each_stands_for)
    return next(group for group in groups if group.title == "A")


def failed(orders_failed: list[dict[str, Any]], error: str | None = "A") -> list[Letter]:
    return [Letter(order, error_type=error) for order in orders_failed]


def without_tenant(count: int, chance: random.Random) -> list[dict[str, Any]]:
    bodies = orders(count, chance)
    for body in bodies:
        del body["tenant"]

    return bodies


def noted(order: dict[str, Any], bits: int) -> Letter:
    note = f"{random.Random(order['id']).getrandbits(bits):x}"
    return Letter({**order, "note": note})


CAUSES: dict[str, tuple[Callable[[dict[str, Any]], Letter], ...]] = {
    "body.payment = n/a": (lambda order: Letter({**order, "payment": "n/a"}), Letter),
    "body_bytes = 2,048 to 4,095": (
        lambda order: noted(order, 8000),
        lambda order: noted(order, 400),
    ),
    "attribute.schema = 4": (
        lambda order: Letter(order, {"schema": "4"}),
        lambda order: Letter(order, {"schema": "3"}),
    ),
}


@pytest.mark.parametrize("claim", CAUSES)
def test_a_type_a_size_and_an_attribute_are_differences(claim: str) -> None:
    chance = random.Random(3)
    bad, fine = CAUSES[claim]
    letters = [replace(bad(order), error_type="A") for order in orders(40, chance)]
    letters += [replace(fine(order), error_type="B") for order in orders(200, chance)]

    assert first_claims(letters)["A"] == claim


@pytest.mark.parametrize(("count", "claim"), [(LEAST_GROUP - 1, ""), (40, "body.coupon = bundle")])
def test_a_small_group_has_no_differences(count: int, claim: str) -> None:
    chance = random.Random(5)
    bad = orders(count, chance, coupon="bundle")

    claims = first_claims(failed(bad) + failed(orders(300, chance, coupon="none"), "B"))

    assert claims["A"] == claim


def test_a_group_alone_has_nobody_to_differ_from() -> None:
    assert first_claims(failed(orders(50, random.Random(6)))) == {"A": ""}


def test_an_error_of_one_kind_of_message_is_compared_with_this_kind() -> None:
    """Against all others, everything that makes it this kind of message would come first."""
    chance = random.Random(16)
    other_kind = {"carrier": "x", "parcel": {"grams": 5, "zone": "a"}, "route": ["a"]}
    letters = failed(without_tenant(60, chance))
    for error in "BCD":
        letters += failed(orders(30, chance), error)
        letters += failed([{**other_kind, "id": f"{n:x}"} for n in range(100)], error)

    assert first_claims(letters)["A"] == "body.tenant is missing"


@pytest.mark.parametrize(
    ("bad", "groups", "difference"),
    [
        (partial(without_tenant, 60), "BCD", "body.tenant is missing"),
        (partial(without_tenant, 60), "BCDEFG", "body.tenant is missing"),
        # What is usual is none either because one large group has another value.
        (partial(orders, 600, tenant="hooli"), "BCD", "body.tenant = hooli"),
    ],
)
def test_what_only_one_other_group_lacks_is_not_a_difference(
    bad: Any, groups: str, difference: str
) -> None:
    chance = random.Random(13)
    letters = failed(bad(chance=chance))
    for error in groups:
        letters += failed(orders(100, chance), error)

    assert first_claims(letters) == {"A": difference, **dict.fromkeys(groups, "")}


def random_splits(seed: int) -> list[Letter]:
    """Small groups and a large one whose messages differ in nothing but their errors."""
    chance = random.Random(seed)
    fields = dict[str, tuple[list[str], list[float]]]()
    for _ in range(chance.randint(5, 40)):
        values = chance.sample(ascii_lowercase, chance.choice((2, 2, 3, 10)))
        skew = chance.choice((0, 1, 2))
        name = "".join(chance.choices(ascii_lowercase, k=8))
        fields[name] = values, [1 / (1 + n) ** skew for n in range(len(values))]

    sizes = {"A": chance.randint(10, 40), "B": chance.randint(10, 40), "C": chance.randint(20, 300)}
    letters = []
    for error, count in sizes.items():
        for _ in range(count):
            body = {}
            for name, (values, weights) in fields.items():
                body[name] = chance.choices(values, weights)[0]
            letters.append(Letter(body, error_type=error))

    return letters


def test_small_groups_of_random_messages_have_no_difference() -> None:
    for seed in range(60):
        groups = searched(random_splits(seed))

        assert not any(group.differences for group in groups), seed


@pytest.mark.parametrize("seed", [233, 248])
def test_of_many_random_fields_none_is_a_difference(seed: int) -> None:
    """Without the correction for many tests each of these seeds has a difference."""
    chance = random.Random(seed)
    names = ["".join(chance.choices(ascii_lowercase, k=8)) for _ in range(60)]
    both = [[{name: chance.random() < 0.5 for name in names} for _ in range(36)] for _ in "AB"]

    assert set(first_claims(failed(both[0]) + failed(both[1], "B")).values()) == {""}


def differences_of_a(letters: list[Letter], each_stands_for: int = 1) -> list[str]:
    return list(map(format_predicate, group_a(letters, None, each_stands_for).differences))


def test_what_an_earlier_difference_explains_is_no_further_one() -> None:
    def of_tenants(hooli: int) -> list[dict[str, Any]]:
        bodies = []
        for n in range(300):
            is_hooli = n % 10 < hooli
            is_fast = n % 7 < (5 if is_hooli else 2)
            bodies.append({"tenant": "hooli" if is_hooli else "acme", "fast": is_fast})

        return bodies

    letters = failed(of_tenants(9)) + failed(of_tenants(1), "B")

    assert differences_of_a(letters) == ["body.tenant = hooli"]


@pytest.mark.parametrize(("messages", "differences"), [(40, []), (400, ["body.fast = true"])])
def test_few_messages_are_few_however_many_they_stand_for(
    messages: int, differences: list[str]
) -> None:
    letters = failed([{"fast": n % 10 < 7} for n in range(messages)])
    letters += failed([{"fast": n % 10 < 3} for n in range(messages)], "B")

    assert differences_of_a(letters, each_stands_for=1000) == differences


def test_a_present_field_is_not_a_difference_of_a_group_whose_title_lists_its_fields() -> None:
    chance = random.Random(15)
    letters = [Letter(order) for order in without_tenant(60, chance) + orders(100, chance)]
    letters += [Letter(order) for order in orders(100, chance, gift=True)]

    claims: list[str] = []
    for group in searched(letters):
        claims += map(format_predicate, group.differences)

    assert "body.tenant is missing" in claims
    assert not any("present" in claim for claim in claims)


def test_a_name_stands_for_the_other_fields_that_hold_the_same() -> None:
    chance = random.Random(7)

    def owned(count: int, name: str, number: int) -> list[dict[str, Any]]:
        owner = {"link": f"https://x.test/{name}", "login": name, "number": number}
        return orders(count, chance, owner=owner, number=number)

    bad = failed(owned(40, "hooli", 4711))
    group = group_a(bad + failed([*owned(150, "acme", 12), *owned(15, "hooli", 4711)], "B"))

    assert format_predicate(group.differences[0]) == "body.owner.login = hooli"
    fields = [part.field for difference in group.differences for part in difference.parts]
    assert not any("number" in field or "link" in field for field in fields)
    assert format_synonyms(group.differences[0]) == (
        "body.number = 4711, body.owner.number = 4711, body.owner.link = https://x.test/hooli"
    )


@pytest.mark.parametrize(
    ("plans", "synonyms"), [(("free",), "attribute.plan = gold"), (("free", "gold"), "")]
)
def test_what_holds_for_the_same_messages_and_no_more_stands_beside_a_difference(
    plans: Sequence[str], synonyms: str
) -> None:
    """The tenant fails for other reasons too."""
    chance = random.Random(9)

    def of_tenant(count: int, name: str, error: str, *plans: str) -> list[Letter]:
        letters = []
        for n, order in enumerate(orders(count, chance, tenant=name)):
            letters.append(Letter(order, {"plan": plans[n % len(plans)]}, error))

        return letters

    letters = of_tenant(60, "hooli", "A", "gold") + of_tenant(25, "hooli", "B", "gold")

    difference = group_a(letters + of_tenant(300, "acme", "B", *plans)).differences[0]

    assert format_predicate(difference) == "body.tenant = hooli"
    assert format_synonyms(difference) == synonyms


def test_synonyms_are_few_and_none_is_inside_another() -> None:
    chance = random.Random(11)
    extra = {"refund": {f"part_{n}": {"cents": n, "of": [n]} for n in range(40)}, "a": 1, "b": 2}
    bad = orders(60, chance, **extra, c={"d": 3})

    (difference, *_) = group_a(failed(bad) + failed(orders(300, chance), "B")).differences

    (part,) = difference.parts
    fields = [part.field, *(synonym.field for synonym in part.synonyms)]
    assert len(fields) == 1 + CORRELATED
    for outer, inner in itertools.permutations(fields, 2):
        assert not inner.startswith(outer)


def test_what_the_shape_may_have_brought_along_comes_after_what_varies() -> None:
    """A few others have it too, by chance; that does not make it tell more than the tenant."""
    chance = random.Random(12)

    def kinds(count: int, kind: str, **own: Any) -> list[Letter]:
        fields = {f"{kind}{letter}": chance.random() for letter in "abcdef"}
        tenants = chance.choices(("acme", "hooli"), (75, 25), k=count)
        return [Letter({**fields, "tenant": tenant, **own}) for tenant in tenants]

    bad = kinds(100, "x", tenant="hooli", comment="Fine!")
    comments = ["Fine!", "Fine!", *(f"Number {n % 6}" for n in range(38))]
    others = [kinds(1, "y", comment=comment)[0] for comment in comments]

    groups = searched([*bad, *kinds(300, "z"), *others])

    assert format_predicate(groups[1].differences[0]) == "body.tenant = hooli"


def test_a_masked_value_is_in_no_difference_and_in_no_condition() -> None:
    chance = random.Random(8)
    letters = failed(orders(40, chance, coupon="bundle", campaign="bundle"))
    letters += failed(orders(200, chance, coupon="none", campaign="none"), "B")

    for masks in (compile_masks(["body.coupon", "body.campaign"]), Masks(shows_values=False)):
        group = group_a(letters, masks)
        assert format_predicate(group.differences[0]) == "body.coupon = ***"
        assert group.differences[0].condition == ""
        assert "body.campaign = ***" in format_synonyms(group.differences[0])
        assert "bundle" not in str(group.differences)


def test_two_conditions_that_only_together_go_with_an_error_are_one_difference() -> None:
    chance = random.Random(17)

    def clients(count: int) -> list[dict[str, Any]]:
        bodies = orders(count, chance)
        for body in bodies:
            body["country"] = chance.choice(("HR", "DE", "FR"))
            body["version"] = chance.choice("678")

        return bodies

    both = orders(150, chance, country="HR", version="7")
    fine = [body for body in clients(900) if (body["country"], body["version"]) != ("HR", "7")]

    (difference, *_) = group_a(failed(both + clients(30)) + failed(fine, "B")).differences

    assert set(format_predicate(difference).split(" and ")) == {
        "body.country = HR",
        "body.version = 7",
    }
    assert difference.group_share > 0.8
    assert difference.other_share < 0.1
    assert all(part.other_share > 0.15 for part in difference.parts)
    assert " AND " in difference.condition


def test_several_differences_may_explain_parts_of_one_group() -> None:
    chance = random.Random(18)
    parts = [orders(60, chance, coupon="bundle"), orders(40, chance, channel="kiosk")]

    assert differences_of_a(failed([*parts[0], *parts[1]]) + failed(orders(300, chance), "B")) == [
        "body.coupon = bundle",
        "body.channel = kiosk",
    ]


@pytest.mark.parametrize(
    ("in_croatia", "difference"),
    [
        # Most versions fail. One of them is frequent, and one does not fail.
        (
            {"7": (256, 280), "6": (28, 80), "8": (28, 80), "9": (28, 80), "10": (0, 1120)},
            "body.country = HR",
        ),
        # A single other version fails, too: these are two causes.
        (
            {"7": (256, 280), "6": (28, 80), "8": (5, 400), "10": (0, 800)},
            "body.country = HR and body.version = 7",
        ),
    ],
)
def test_a_condition_is_left_out_if_several_other_values_of_its_field_do_as_well(
    in_croatia: dict[str, tuple[int, int]], difference: str
) -> None:
    chance = random.Random(19)
    letters = []
    elsewhere = ("DE", "7", 30, 1200), ("FR", "7", 30, 1160)
    rows = [*(("HR", version, *counts) for version, counts in in_croatia.items()), *elsewhere]
    for country, version, bad, fine in rows:
        own = {"country": country, "version": version}
        letters += failed(orders(bad, chance, **own))
        letters += failed(orders(fine, chance, **own), "B")

    assert differences_of_a(letters)[0] == difference


def test_a_condition_that_changes_nothing_is_not_added() -> None:
    chance = random.Random(21)
    letters = []
    for error, of_hundred in (("A", 80), ("B", 20)):
        for n in range(400):
            tenant = "hooli" if n % 100 < of_hundred else "acme"
            currency = "EUR" if chance.random() < 0.92 else "PLN"
            letters.append(Letter({"tenant": tenant, "currency": currency}, error_type=error))

    assert differences_of_a(letters) == ["body.tenant = hooli"]


@pytest.mark.parametrize(("grows", "differences"), [(True, 0), (False, 1)])
def test_a_number_that_grows_with_the_time_is_no_difference(grows: bool, differences: int) -> None:
    """An outage at the end: all that failed in it has a high order number."""
    chance = random.Random(20)
    numbers = sorted(chance.randrange(100, 100_000) for _ in range(600))
    letters = []
    for place, number in enumerate(numbers):
        failed_at = float(place if grows else chance.randrange(600))
        error = "A" if number > 60_000 and chance.random() < 0.7 else "B"
        letters.append(Letter({"number": number, "x": 1}, error_type=error, failed_at=failed_at))

    assert len(differences_of_a(letters)) == differences


ENOUGH = 30
MOST = 0.5

CLAIMS = {fault.name: fault.claims for fault in FAULTS}


def struck_most(group: SearchedGroup, letters: list[Delivery]) -> str:
    """The fault that struck most of a group and enough of it to be seen, else nothing."""
    faults = Counter(letters[place].fault for place in group.members)
    name, count = faults.most_common(1)[0]
    return name if count >= max(ENOUGH, MOST * len(group.members)) else ""


@pytest.mark.parametrize("seed", range(3))
def test_the_first_difference_names_the_cause(seed: int) -> None:
    letters = dead_letters(seed, healthy=600, faults=FAULTS, of_each=45)
    groups = searched([Letter(letter.body, letter.attributes) for letter in letters])

    seen = set()
    for group in groups:
        fault = struck_most(group, letters)
        if not fault:
            continue
        seen.add(fault)
        claim = format_predicate(group.differences[0]) if group.differences else "nothing"
        assert claim in CLAIMS[fault], (fault, group.title)

    assert len(seen) >= len(CLAIMS) - 1


@pytest.mark.parametrize(("seed", "split"), [(0, "even"), (1, "skewed"), (2, "reason")])
def test_a_random_split_shows_no_difference(seed: int, split: str) -> None:
    chance = random.Random(seed)
    letters = []
    weights = (70, 20, 8, 2) if split == "skewed" else (1, 1, 0, 0)
    for delivery in dead_letters(seed, healthy=700):
        letter = Letter(delivery.body, delivery.attributes)
        if split == "reason":
            reason = chance.choice(("attempts_exhausted", "too_old"))
            letters.append(replace(letter, reason=reason))
        else:
            [error] = chance.choices("ABCD", weights)
            letters.append(replace(letter, error_type=error))

    assert [group for group in searched(letters) if group.differences] == []


def shop_order(chance: random.Random, optional: float) -> dict[str, Any]:
    """An order; each of the fields that may be missing is there with the probability *optional*."""
    order: dict[str, Any] = {
        "id": f"{chance.getrandbits(64):016x}",
        "tenant": chance.choices(("acme", "initech", "globex"), (70, 20, 10))[0],
        "country": chance.choice(("HR", "DE", "FR", "IT")),
        "express": chance.random() < 0.3,
        "cents": chance.randrange(100, 99_999),
        "vat": f"{chance.getrandbits(40):x}",
        "note": "x" * chance.randrange(5, 80),
        "coupon": chance.choice(("ten", "twenty")),
    }
    for name in ("vat", "note", "coupon"):
        if chance.random() >= optional:
            del order[name]
    return order


_PLANTED: tuple[tuple[str, Any], ...] = (
    ("vat", None),
    ("coupon", None),
    ("note", "null"),
    ("country", "HR"),
    ("tenant", "hooli"),
    ("express", True),
    ("cents", "n/a"),
)
"""Fields and the value that makes an order fail; None for a field that is missing then."""


def planted(order: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    if value is None:
        order.pop(field, None)
    else:
        order[field] = None if value == "null" else value
    return order


@given(
    st.integers(0, 10_000),
    st.lists(st.sampled_from(_PLANTED), min_size=2, max_size=4, unique_by=lambda pair: pair[0]),
    st.sampled_from([0.8, 1.0]),
)
@settings(max_examples=10)
def test_a_group_without_a_cause_is_not_told_the_complement_of_another_groups(
    seed: int, plants: list[tuple[str, Any]], optional: float
) -> None:
    """Each group but the last has one planted cause; all are found, and nothing else is.

    A body without a field is shorter: sizes are no complements.
    """
    chance = random.Random(seed)
    letters = []
    causes = dict[str, str]()
    for error, (field, value) in zip(ascii_lowercase, plants, strict=False):
        causes[error] = f"body.{field}"
        bad = [planted(shop_order(chance, optional), field, value) for _ in range(80)]
        letters += failed(bad, error)
    letters += failed([shop_order(chance, optional) for _ in range(100)], "nothing")

    for group in searched(letters):
        cause = causes.get(group.title)
        named = set[str]()
        for difference in group.differences:
            fields = {part.field for part in difference.parts}
            assert fields & {cause, "body_bytes"}, (group.title, format_predicate(difference))
            named |= fields
        assert cause is None or cause in named


def test_a_field_that_one_group_lacks_is_present_in_the_other_and_no_difference_there() -> None:
    chance = random.Random(22)
    letters = failed(without_tenant(200, chance)) + failed(orders(200, chance), "B")

    assert first_claims(letters) == {"A": "body.tenant is missing", "B": ""}


def test_a_group_is_compared_with_the_groups_of_its_queue() -> None:
    chance = random.Random(5)
    rows: list[dict[str, Any]] = []
    queues = {}
    for queue in ("stock", "invoices"):
        for error, tenant in (("A", "acme"), ("B", "globex")):
            letters = failed(orders(40, chance, queue=queue, branch=tenant), f"{error}-{queue}")
            for letter in letters:
                row = _row(len(rows), letter)
                queues[row["group_id"]] = queue
                rows.append(row)
    counts = dict.fromkeys(queues, 40)
    titles = {row["group_id"]: row["title"] for row in rows}

    together = differences_among(table_of(rows), counts, Masks())
    apart = differences_within_queues(table_of(rows), counts, queues, Masks())
    of_one = differences_within_queues(
        table_of(rows), counts, dict.fromkeys(queues, "stock"), Masks()
    )

    first = {titles[group_id]: differences[0] for group_id, differences in apart.items()}
    assert {title: format_predicate(difference) for title, difference in first.items()} == {
        "A-stock": "body.branch = acme",
        "B-stock": "body.branch = globex",
        "A-invoices": "body.branch = acme",
        "B-invoices": "body.branch = globex",
    }
    for differences in apart.values():
        for difference in differences:
            assert "body.queue" not in [part.field for part in difference.parts]
    compared_with = {difference.compared_with for difference in first.values()}
    assert compared_with == {"others like these of its queue"}
    assert of_one == together
    first_together = [differences[0] for differences in together.values()]
    assert "body.queue" in {part.field for first in first_together for part in first.parts}
