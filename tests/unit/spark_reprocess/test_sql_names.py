"""What is wrong with a piece of SQL and needs no Spark to be seen; see ``test_allowed_sql``."""

import pytest

from spark_reprocess.archive.messages.dead_letter_schema import READ_COLUMNS
from spark_reprocess.errors import InputError
from spark_reprocess.spark.allowed_sql import check_names
from tests.support.golden import stored_texts

COLUMNS = (
    *("i", "l", "x", "n", "s", "p", "flag", "t", "u", "day", "words", "numbers", "counts"),
    *("one", "many", "raw", "json", "a.b", "c`d", "ключ", "select"),
)
ALLOWED = [line for text in stored_texts("allowed_sql").values() for line in text.splitlines()]
REFUSED = stored_texts("refused_sql")


def fault_of(sql: str) -> str:
    try:
        check_names(sql, COLUMNS, place=None)
    except InputError as error:
        return str(error)
    return ""


def test_nothing_that_spark_takes_is_refused() -> None:
    assert [fault for sql in ALLOWED if (fault := fault_of(sql))] == []


def test_what_is_refused_is_refused_with_the_same_words() -> None:
    found = {sql: fault for sql in REFUSED if (fault := fault_of(sql))}

    # Of these something around the name is refused first.
    others = {"count(*) FILTER (WHERE flag)", "first_value(s) OVER (ORDER BY s)", "w -> w"}
    assert {sql for sql, fault in found.items() if fault != REFUSED[sql]} == others
    assert len(found) > len(REFUSED) / 3


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
        check_names(sql, READ_COLUMNS)


@pytest.mark.parametrize(
    "sql", [None, "PARKED_REASON = 'x' AND drain_id > 'a'", "attributes['a'].string_value = 'b'"]
)
def test_what_has_known_names_alone_is_left_to_spark(sql: str | None) -> None:
    check_names(sql, READ_COLUMNS)
