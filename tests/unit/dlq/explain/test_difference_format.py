"""A difference in words, and the parts of it that are masked."""

from collections.abc import Sequence

import pytest

from dlq.explain.differences.difference_format import difference_of
from dlq.explain.differences.features import MISSING, PRESENT
from dlq.explain.differences.predicates import Predicate
from dlq.explain.findings import Difference, format_predicate
from dlq.explain.signature.mask import Masks, compile_masks


def worded(path: str, tag: str, masks: Masks | None = None) -> str:
    return format_predicate(difference_with([Predicate(path, tag)], masks))


def difference_with(predicates: Sequence[Predicate], masks: Masks | None = None) -> Difference:
    parts = [([predicate], (1.0, 0.0)) for predicate in predicates]
    return difference_of(parts, (1.0, 0.0), 1.0, masks or Masks(), others_alike=True)


TAGS = {
    "=acme": "= acme",
    "=": '= ""',
    "=(missing)": '= "(missing)"',
    "=true": "= true",
    "~0": "= between -1 and 1",
    "~1": "= 1 to 10",
    "~6": "= 100,000 to 1,000,000",
    "~-2": "= -100 to -10",
    "text": "is text",
    "missing in some": "is missing in some",
}
PATHS = {
    "body\x1fitems\x1d\x1fsku": "body.items[].sku",
    "body\x1fMessage\x1e\x1fid": "body.Message.id",
    "attribute\x1ftenant": "attribute.tenant",
    "body\x1forder-<n>\x1c": "body.order-<n>",
    "body\x1b\x1fa": "body.a",
}


@pytest.mark.parametrize(
    ("path", "tag", "words"),
    [
        *(("body\x1fa", tag, f"body.a {words}") for tag, words in TAGS.items()),
        *((path, MISSING, f"{field} is missing") for path, field in PATHS.items()),
        *((path, PRESENT, f"{field} is present") for path, field in PATHS.items()),
        ("body_bytes", "~11", "body_bytes = 1,024 to 2,047"),
        ("body_bytes", "~0", "body_bytes = 0"),
    ],
)
def test_every_path_and_every_tag_reads_well(path: str, tag: str, words: str) -> None:
    assert worded(path, tag) == words


def test_a_size_is_nobody_s_value_and_stays() -> None:
    assert worded("body_bytes", "~11", Masks(shows_values=False)).endswith("2,047")


@pytest.mark.parametrize(
    ("path", "tag", "masks"),
    [
        ("body\x1fpassword", "=hunter2", Masks()),
        ("body\x1fnote", "=mail ann@example.org", Masks()),
        ("body\x1fcustomer\x1fname", "=Ann", compile_masks(["body.customer"])),
        ("body\x1fitems\x1d\x1fname", "=Ann", compile_masks(["body.items.name"])),
        ("attribute\x1ftenant", "=Ann", compile_masks(["attribute.tenant"])),
        ("message_group_id", "=Ann", compile_masks(["message_group_id"])),
        ("body\x1fa", "=Ann", compile_masks([r"\bAnn\b"])),
        ("body\x1fa", "~7", Masks(shows_values=False)),
        ("body\x1fann@example.org", "=1", Masks()),
    ],
)
def test_what_is_masked_is_neither_shown_nor_in_the_condition(
    path: str, tag: str, masks: Masks
) -> None:
    plain = Predicate("body\x1fkind", "=x")

    difference = difference_with([plain, Predicate(path, tag)], masks)

    assert "***" in difference.parts[1].field + difference.parts[1].value
    assert difference.condition == ""
    for secret in ("hunter2", "ann@", "Ann"):
        assert secret not in repr(difference)


def test_that_a_secret_is_missing_may_be_said() -> None:
    difference = difference_with([Predicate("body\x1fpassword", MISSING)])

    assert format_predicate(difference) == "body.password is missing"
    assert difference.condition
    assert difference.compared_with == "others like these"


def test_long_texts_are_cut() -> None:
    difference = difference_with([Predicate("body\x1f" + "k" * 300, "=v")])

    assert len(difference.parts[0].field) == 120
    assert "k" * 300 in difference.condition


def test_the_conditions_of_all_parts_hold_together() -> None:
    country = Predicate("body\x1fcountry", "=HR")
    version = Predicate("attribute\x1fversion", "=7.2.0")
    packed = Predicate("body\x1b\x1fkind", "=x")

    difference = difference_with([country, version])

    assert format_predicate(difference) == "body.country = HR and attribute.version = 7.2.0"
    assert difference.condition == (
        "get_json_object(body, '$.country') = 'HR' AND attributes['version'].string_value = '7.2.0'"
    )
    assert difference_with([country, packed]).condition == ""
