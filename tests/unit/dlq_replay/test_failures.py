"""A failure as a value: its limits, its item in the table, and what it matches."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.context import CONTEXT_MAX_BYTES, FailureError, ReplayContext
from dlq_replay.failures import (
    DEFAULT_TTL_SECONDS,
    ERROR_MESSAGE_CHARACTERS,
    ERROR_TYPE_CHARACTERS,
    STACK_TOP_CHARACTERS,
    Failure,
)
from tests.builders import NOW


class CardRefusedError(Exception):
    pass


def failure_of(exception: BaseException, **options: Any) -> Failure:
    return Failure.of("m-1", exception, NOW, **options)


def raised(exception: Exception) -> Exception:
    def throw() -> None:
        raise exception

    try:
        throw()
    except Exception as caught:  # noqa: BLE001 - with its traceback
        return caught
    raise AssertionError("nothing was raised")


def test_a_failure_says_what_where_and_when() -> None:
    failure = failure_of(raised(CardRefusedError("card 12 refused")), ttl_seconds=60)

    assert failure.message_id == "m-1"
    assert failure.error_type == f"{__name__}.CardRefusedError"
    assert failure.error_message == "card 12 refused"
    place = r"test_failures\.py:\d+ in raised"
    assert re.fullmatch(rf"{place}\.<locals>\.throw < {place}", failure.stack_top)
    assert re.fullmatch(r"[0-9a-f]{16}", failure.fingerprint)
    assert (failure.failed_at_seconds, failure.expires_at_seconds) == (NOW, NOW + 60)


def test_a_failure_is_kept_as_long_as_sqs_keeps_a_message() -> None:
    assert failure_of(ValueError()).expires_at_seconds - NOW == DEFAULT_TTL_SECONDS == 1_209_600


def test_a_long_type_keeps_its_end() -> None:
    long = type("E" * 400 + "LastError", (Exception,), {})

    error_type = failure_of(long()).error_type

    assert len(error_type) == ERROR_TYPE_CHARACTERS
    assert error_type.endswith("LastError")


@pytest.mark.parametrize(
    ("patterns", "is_match"),
    [
        ("CardRefusedError", True),
        ("shop.payments.CardRefusedError", True),
        ("payments.CardRefusedError", False),
        ("shop.*", True),
        ("*Refused*", True),
        ("Card?efused[E]rror", True),
        ("cardrefusederror", False),
        ("ValueError, CardRefusedError ,x", True),
        ("CardRefused", False),
        ("", False),
        (" , ", False),
        ("[", False),
        ((), False),
        (("ValueError", "Card*"), True),
        (("ValueError,CardRefusedError",), False),
    ],
)
def test_a_pattern_names_the_type_with_or_without_its_module(
    patterns: str | tuple[str, ...], is_match: bool
) -> None:
    failure = Failure("m-1", "shop.payments.CardRefusedError")

    assert failure.matches(patterns) is is_match


@given(st.text(max_size=40), st.text(max_size=40))
def test_matching_never_raises(error_type: str, patterns: str) -> None:
    assert Failure("m-1", error_type).matches(patterns) in (True, False)


@pytest.mark.parametrize(
    ("error_type", "expected"),
    [
        ("shop.CardRefusedError", "shop.CardRefusedError"),
        ("shop.Gr\u00fcnError", "shop.Gr?nError"),
        ("a" * 200 + ".LastError", ("a" * 200 + ".LastError")[-128:]),
        ("", "Error"),
    ],
)
def test_a_parked_copy_carries_the_type_as_short_ascii(error_type: str, expected: str) -> None:
    assert Failure("m-1", error_type, "text").to_failure_error() == FailureError(expected, "text")


arguments = st.recursive(
    st.none() | st.integers() | st.binary(max_size=50) | st.text(max_size=500) | st.floats(),
    st.lists,
    max_leaves=5,
)
class_names = st.text(min_size=1, max_size=300).filter(
    lambda name: "\0" not in name and name.encode("utf-8", "ignore").decode() == name
)


@given(class_names, st.lists(arguments, max_size=3))
def test_any_exception_gives_a_failure_that_can_be_stored_and_sent(
    name: str, args: list[Any]
) -> None:
    failure = failure_of(raised(type(name, (Exception,), {})(*args)))

    assert 1 <= len(failure.error_type) <= ERROR_TYPE_CHARACTERS
    assert len(failure.error_message) <= ERROR_MESSAGE_CHARACTERS
    assert 1 <= len(failure.stack_top) <= STACK_TOP_CHARACTERS
    assert all(t.isprintable() for t in (failure.error_type, failure.error_message))
    assert Failure.from_item(failure.to_item()) == failure
    context = ReplayContext(error=failure.to_failure_error())
    assert len(context.to_json()) <= CONTEXT_MAX_BYTES
    assert ReplayContext.from_json(context.to_json()).error is not None


def test_a_failure_is_an_item_in_dynamodbs_own_json() -> None:
    failure = Failure("m-1", "shop.Error", "text", "a.py:1 in f", "0f", NOW, NOW + 60)

    assert failure.to_item() == {
        "message_id": {"S": "m-1"},
        "error_type": {"S": "shop.Error"},
        "error_message": {"S": "text"},
        "stack_top": {"S": "a.py:1 in f"},
        "fingerprint": {"S": "0f"},
        "failed_at": {"N": str(NOW)},
        "expires_at": {"N": str(NOW + 60)},
    }


def test_an_item_of_another_program_needs_only_an_id_and_a_type() -> None:
    item = {
        "message_id": {"S": "m-1"},
        "error_type": {"S": "com.shop.OrderException\n"},
        "error_message": {"S": "x" * 1_000},
        "stack_top": "not typed",
        "failed_at": {"N": "1700000000.75"},
        "expires_at": {"N": "1E+9"},
        "more": {"BOOL": True},
    }

    assert Failure.from_item(item) == Failure(
        "m-1", "com.shop.OrderException", "x" * ERROR_MESSAGE_CHARACTERS, failed_at_seconds=NOW
    )


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"message_id": {"S": "m-1"}},
        {"message_id": {"S": "m-1"}, "error_type": {"S": " \n"}},
        {"message_id": {"N": "1"}, "error_type": {"S": "E"}},
        {"message_id": {"S": ""}, "error_type": {"S": "E"}},
    ],
)
def test_an_item_without_an_id_or_a_type_tells_nothing(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="message_id and error_type must be text"):
        Failure.from_item(item)
