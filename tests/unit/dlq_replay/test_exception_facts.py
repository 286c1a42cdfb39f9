"""What is kept of an exception, whatever its class does."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.exception_facts import NOT_REDACTED
from dlq_replay.failures import ERROR_MESSAGE_CHARACTERS, Failure
from tests.builders import NOW

HERE = re.escape("test_exception_facts.py")


class CardRefusedError(Exception):
    class InnerError(Exception):
        pass


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NotTextError(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 - it does happen


class HiddenTraceError(Exception):
    def __getattribute__(self, name: str) -> Any:
        if name == "__traceback__":
            raise RuntimeError("no trace")
        return super().__getattribute__(name)


class NamelessMeta(type):
    @property
    def __module__(cls) -> Any:  # type: ignore[override]
        raise RuntimeError("no module")


def failure_of(exception: BaseException, **options: Any) -> Failure:
    return Failure.of("m-1", exception, NOW, **options)


def raised(exception: Exception) -> Exception:
    def throw() -> None:
        raise exception

    return caught_from(throw)


def deep(levels: int) -> None:
    if not levels:
        raise ValueError("at the bottom")
    deep(levels - 1)


def caught_from(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as caught:  # noqa: BLE001 - with its traceback
        return caught
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("exception", "error_type", "error_message"),
    [
        (ValueError("bad"), "ValueError", "bad"),
        (ValueError(), "ValueError", ""),
        (KeyError("id"), "KeyError", "'id'"),
        (Exception(7, None, b"\xff"), "Exception", r"(7, None, b'\xff')"),
        (ValueError("two\nlines\t\x1b[31mred"), "ValueError", "two lines [31mred"),
        (ValueError("gr\u00fcn \udce9 ende"), "ValueError", "gr\u00fcn ende"),
        (ExceptionGroup("many", [ValueError("a"), KeyError("b")]), "ExceptionGroup", None),
        (UnspeakableError(), f"{__name__}.UnspeakableError", ""),
        (NotTextError(), f"{__name__}.NotTextError", ""),
        (HiddenTraceError("text"), f"{__name__}.HiddenTraceError", "text"),
        (CardRefusedError.InnerError(), f"{__name__}.CardRefusedError.InnerError", ""),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        (json.JSONDecodeError("bad", "the body", 0), "json.decoder.JSONDecodeError", None),
    ],
)
def test_every_exception_has_a_type_and_at_most_one_line_of_text(
    exception: BaseException, error_type: str, error_message: str | None
) -> None:
    failure = failure_of(exception)

    assert failure.error_type == error_type
    assert error_message is None or failure.error_message == error_message
    assert "the body" not in failure.error_message


def test_a_class_that_hides_its_module_is_still_an_exception() -> None:
    hidden = NamelessMeta("HiddenError", (Exception,), {})

    assert failure_of(hidden("text")).error_type == "Exception"


def test_a_megabyte_of_text_is_cut() -> None:
    failure = failure_of(ValueError("x" * 2**20))

    assert failure.error_message == "x" * ERROR_MESSAGE_CHARACTERS


def test_causes_and_notes_are_not_recorded() -> None:
    cause = ValueError("secret cause")
    exception = CardRefusedError("refused")
    exception.__cause__ = cause
    cause.__cause__ = exception  # a circle
    exception.add_note("secret note")

    assert "secret" not in str(failure_of(exception))


def test_only_the_innermost_frames_are_recorded() -> None:
    failure = failure_of(caught_from(lambda: deep(200)))

    assert re.fullmatch(rf"({HERE}:\d+ in deep < ){{2}}{HERE}:\d+ in deep", failure.stack_top)


def test_redaction_sees_the_text_before_it_is_cut() -> None:
    text = "card " + "4" * 400
    failure = failure_of(ValueError(text), redact=lambda t: re.sub(r"\d{4,}", "****", t))

    assert failure.error_message == "card ****"


@pytest.mark.parametrize("redact", [lambda _: 1 / 0, lambda _: None])
def test_nothing_of_the_text_is_kept_when_redaction_fails(redact: Any) -> None:
    failure = failure_of(ValueError("card 4111"), redact=redact)

    assert failure.error_message == NOT_REDACTED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 failed", "order 123456 failed"),
        ("took 1.5 s of 20,000", "took 12.25 s of 3"),
        ('no "customer-a" here', 'no "b" here'),
        ("no 'customer a' here", "no 'b' here"),
        (
            "job 123e4567-e89b-12d3-a456-426614174000 lost",
            "job 00000000-0000-0000-0000-00000000000f lost",
        ),
        ("at 0xdeadbeef", "at 0x1"),
        ("etag 9f86d081884c7d65 differs", "etag 60303ae22b998861 differs"),
        ("id 1 " + "word " * 100, "id 1234567 " + "word " * 100),
    ],
)
def test_the_fingerprint_does_not_know_numbers_ids_and_quotes(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


def test_the_fingerprint_tells_types_texts_and_places_apart() -> None:
    def elsewhere() -> None:
        raise ValueError("bad order")

    fingerprints = {
        fingerprint("bad order"),
        fingerprint("bad card"),
        failure_of(raised(KeyError("bad order"))).fingerprint,
        failure_of(caught_from(elsewhere)).fingerprint,
    }

    assert len(fingerprints) == 4


def test_the_fingerprint_does_not_know_lines() -> None:
    def fail(late: bool) -> None:
        if late:
            raise ValueError("bad")
        raise ValueError("bad")

    early, late = (failure_of(caught_from(partial(fail, late))) for late in (False, True))

    assert early.stack_top != late.stack_top
    assert early.fingerprint == late.fingerprint


def fingerprint(text: str) -> str:
    return failure_of(raised(ValueError(text))).fingerprint


@given(st.integers(min_value=0), st.uuids(), st.integers(min_value=0), st.uuids())
def test_the_fingerprint_is_the_same_for_any_number_and_id(
    number: int, job: Any, other_number: int, other_job: Any
) -> None:
    one = fingerprint(f"order {number} of job {job} failed after {number} ms")
    other = fingerprint(f"order {other_number} of job {other_job} failed after {other_number} ms")

    assert one == other
