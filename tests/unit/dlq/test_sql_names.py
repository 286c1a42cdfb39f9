"""Faults of a piece of SQL that are found without Spark; see ``test_allowed_sql``."""

import re

import pytest

from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
from dlq.errors import InputError
from dlq.sql.allowed import check_sql
from tests.support.golden import stored_texts

COLUMNS = (
    "i",
    "l",
    "x",
    "n",
    "s",
    "p",
    "flag",
    "t",
    "u",
    "day",
    "words",
    "numbers",
    "counts",
    "one",
    "many",
    "raw",
    "json",
    "a.b",
    "c`d",
    "ключ",
    "select",
)
ALLOWED = [line for text in stored_texts("allowed_sql").values() for line in text.splitlines()]
REFUSED = stored_texts("refused_sql")


def fault_of(sql: str) -> str:
    try:
        check_sql(sql, COLUMNS, place=None)
    except InputError as error:
        return str(error)
    return ""


def test_nothing_that_spark_takes_is_refused() -> None:
    assert [fault for sql in ALLOWED if (fault := fault_of(sql))] == []


def test_all_but_types_is_refused_with_the_same_words_as_for_spark() -> None:
    left_to_spark = {sql for sql, fault in REFUSED.items() if re.match(r"\[[A-Z_]+|'now'", fault)}
    faults = {sql: fault_of(sql) for sql in REFUSED if sql not in left_to_spark}

    assert faults == {sql: REFUSED[sql] for sql in faults}
    assert len(left_to_spark) < len(REFUSED) / 8


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (f"{'(' * 1500}true{')' * 1500}", "is nested too deeply"),
        (f"{'NOT ' * 1500}true", "is nested too deeply"),
        ("s = '\ud800'", "is not valid Unicode"),
        ("s = ", "cannot be read"),
        ("", "is not one expression"),
    ],
)
def test_what_cannot_be_a_condition_is_refused(sql: str, why: str) -> None:
    assert why in fault_of(sql)


def test_a_condition_of_a_thousand_parts_can_be_read() -> None:
    assert fault_of(" OR ".join(f"i = {number}" for number in range(1000))) == ""


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("parked_reson = 'x'", "parked_reson: is no column here; did you mean parked_reason?"),
        ("exists(map_keys(attributes), k -> nope = k)", "nope: is no column here"),
        ("exists(map_keys(attributes), k -> rand(k) = 1)", r"rand\(\): is not allowed"),
        ("now() > sent_at", r"now\(\): gives the current time"),
        ("body = 'it", "cannot be read: a quote is not closed"),
    ],
)
def test_a_part_is_named_with_its_rule(sql: str, why: str) -> None:
    with pytest.raises(InputError, match=rf"--where .*: {why}"):
        check_sql(sql, READ_COLUMNS)


@pytest.mark.parametrize(
    "sql", [None, "PARKED_REASON = 'x' AND drain_id > 'a'", "attributes['a'].string_value = 'b'"]
)
def test_what_has_known_names_alone_is_left_to_spark(sql: str | None) -> None:
    check_sql(sql, READ_COLUMNS)
