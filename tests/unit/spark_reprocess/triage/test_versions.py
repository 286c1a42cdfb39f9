import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.triage.status import compare, is_version

FIRST_SEEN = {"3fe1c9a": "20261101T000000Z-aaaaaa", "b77d002": "20261102T000000Z-bbbbbb"}

ORDERED = [
    ("9", "10"),
    ("1.9.0", "1.10.0"),
    ("v1.2.3", "1.2.4"),
    ("1.0.0-alpha", "1.0.0-alpha.1"),
    ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
    ("1.0.0-beta.2", "1.0.0-beta.11"),
    ("1.0.0-rc.1", "1.0.0"),
    ("1.0.0-rc.1+build.9", "1.0.0+build.1"),
    ("3fe1c9a", "b77d002"),
]


@pytest.mark.parametrize(("older", "newer"), ORDERED)
def test_versions_are_ordered_as_numbers_then_as_semantic_versions_then_by_first_sight(
    older: str, newer: str
) -> None:
    orders = compare(older, newer, FIRST_SEEN), compare(newer, older, FIRST_SEEN)

    assert orders[0] is not None
    assert orders[1] is not None
    assert orders[0] < 0 < orders[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3fe1c9a", "c0ffee1"),  # one of them was never seen
        ("c0ffee1", "deadbee"),
        ("1234567", "7654321"),  # commits may be all digits
        ("12", "1.2.3"),
        ("1.0.0+a", "1.0.0+b"),
        ("2026.01.05", "2026.02.01"),
        ("$LATEST", "$LATEST"),
        ("$LATEST", "7"),
        (None, "7"),
        ("7", None),
        (None, None),
        ("", ""),
    ],
)
def test_what_has_no_order_is_not_guessed(one: str | None, other: str | None) -> None:
    assert compare(one, other, FIRST_SEEN) is None
    assert compare(other, one, FIRST_SEEN) is None


def test_versions_first_seen_by_the_same_analysis_have_no_order() -> None:
    assert compare("a1", "b2", {"a1": "20261101T000000Z-1", "b2": "20261101T000000Z-1"}) is None


@given(st.text(max_size=80))
def test_a_version_equals_itself_whatever_it_is_called(text: str) -> None:
    assert compare(text, text, {}) == (0 if is_version(text) else None)


versions = st.sampled_from(["1", "7", "10", "1.0.0-rc.1", "v1.0.0", "1.0.0", "2.1.0", "abc", "def"])


@given(versions, versions, st.dictionaries(versions, st.sampled_from("123")))
def test_the_order_is_the_same_from_both_sides(
    one: str, other: str, first_seen: dict[str, str]
) -> None:
    there, back = compare(one, other, first_seen), compare(other, one, first_seen)

    assert (there is None) == (back is None)
    assert there is None or back is None or (there > 0) == (back < 0)
