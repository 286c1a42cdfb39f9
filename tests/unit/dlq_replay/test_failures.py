"""A failure as a value: what it keeps of an exception, its item in the table, what it matches."""

import json
import re
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.rules.failures import (
    ERROR_MESSAGE_CHARACTERS,
    ERROR_TYPE_CHARACTERS,
    NOT_REDACTED,
    Failure,
)
from dlq_replay.wire.context import CONTEXT_MAX_BYTES, FailureError, ReplayContext
from tests.support.builders import NOW


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


def test_a_text_is_masked_before_it_is_cut() -> None:
    def start_of_message(number: int) -> str:
        file = f"{'/var/data/' * 30}{number}.csv"
        failure = failure_of(ValueError(f"{file} of <Job {'x' * number} 1> in row {number}"))
        return failure.error_message.partition(" <Job ")[0]

    assert start_of_message(3) == start_of_message(4711)


def test_a_failure_says_where_the_consumers_own_code_raised_it() -> None:
    def refuse() -> None:
        json.loads("[")

    try:
        refuse()
    except ValueError as error:
        failure = failure_of(error)

    own, caller = failure.frames.split("\n")
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in refuse", own)
    assert caller.endswith("in test_a_failure_says_where_the_consumers_own_code_raised_it")
    assert Failure.from_item(failure.to_item()).frames == failure.frames
    assert failure_of(HiddenTraceError()).frames == ""


def test_frames_are_masked_and_short() -> None:
    code = compile("def f():\n  g()\ndef g():\n  h()\nh = 1", f"a@b.io/{'x' * 600}.py", "exec")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - a file of this name
    try:
        names["f"]()
    except TypeError as error:
        frames = failure_of(error).frames

    assert len(frames) == 1024
    assert frames.startswith("***")


@pytest.mark.parametrize(
    ("exception", "error_type", "error_message"),
    [
        (ValueError("bad"), "ValueError", "bad"),
        (CardRefusedError("card 12 refused"), f"{__name__}.CardRefusedError", "card <n> refused"),
        (ValueError(), "ValueError", ""),
        (KeyError("id"), "KeyError", "'id'"),
        (Exception(7, None, b"\xff"), "Exception", r"(7, None, b'\xff')"),
        (ValueError("two\nlines\t\x1b[31mred"), "ValueError", "two lines [<id>"),
        (ValueError("gr\u00fcn \udce9 ende"), "ValueError", "gr\u00fcn ende"),
        (
            ExceptionGroup("many", [ValueError("a"), KeyError("b")]),
            "ExceptionGroup",
            "many (<n> sub-exceptions)",
        ),
        (UnspeakableError(), f"{__name__}.UnspeakableError", ""),
        (NotTextError(), f"{__name__}.NotTextError", ""),
        (HiddenTraceError("text"), f"{__name__}.HiddenTraceError", "text"),
        (CardRefusedError.InnerError(), f"{__name__}.CardRefusedError.InnerError", ""),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        # A class that hides its module is still an exception.
        (NamelessMeta("HiddenError", (Exception,), {})("text"), "Exception", "text"),
        (ValueError("x" * 2**20), "ValueError", "x" * ERROR_MESSAGE_CHARACTERS),
        # A long type keeps its end.
        (
            type("E" * 400 + "LastError", (Exception,), {})(),
            "E" * (ERROR_TYPE_CHARACTERS - 9) + "LastError",
            "",
        ),
        (
            json.JSONDecodeError("bad", "the body", 0),
            "json.decoder.JSONDecodeError",
            "bad: line <n> column <n> (char <n>)",
        ),
    ],
)
def test_every_exception_has_a_type_and_at_most_one_line_of_text(
    exception: BaseException, error_type: str, error_message: str
) -> None:
    failure = failure_of(exception)

    assert (failure.message_id, failure.failed_at_seconds) == ("m-1", NOW)
    assert failure.error_type == error_type
    assert failure.error_message == error_message


class Code(str, Enum):  # noqa: UP042 - consumers have such
    VAT = "vat"


class CodeRaisesError(Exception):
    @property
    def error_code(self) -> str:
        raise RuntimeError("no code")


@pytest.mark.parametrize(
    ("own", "given", "code"),
    [
        ("vat.HR:1_a-b", None, "vat.HR:1_a-b"),
        ("own", "given", "given"),
        (None, "x" * 64, "x" * 64),
        ("own", "not fit", "own"),
        (Code.VAT, None, "vat"),
        *[(unfit, None, None) for unfit in ("", "x" * 65, "two words", "č", "a\n", 7, b"c", None)],
    ],
)
def test_a_code_names_the_failure_and_what_is_none_is_ignored(
    own: Any, given: Any, code: str | None
) -> None:
    exception = CardRefusedError("refused")
    exception.error_code = own  # type: ignore[attr-defined]
    failure = failure_of(exception, error_code=given)

    assert failure.error_code == code
    assert type(failure.error_code) in (str, type(None))
    assert Failure.from_item(failure.to_item()) == failure
    assert ("error_code" in failure.to_item()) == (code is not None)
    assert failure.to_failure_error().code == code
    assert failure_of(CodeRaisesError()).error_code is None


def fail(exception: BaseException, cause: BaseException | None) -> None:
    raise exception from cause


def raise_from(cause: BaseException, *texts: str, redact: Any = None) -> Failure:
    """Raise *cause*, and from it exceptions with these texts, each from the one before."""
    last: BaseException | None = None
    for exception in (cause, *map(CardRefusedError, texts)):
        try:
            fail(exception, last)
        except BaseException as raised:  # noqa: BLE001 - as a consumer may
            last = raised
    assert last is not None
    return failure_of(last, redact=redact)


def test_the_innermost_cause_of_own_code_is_recorded_with_its_place() -> None:
    """Two causes behind one text are two failures."""
    deep = raise_from(KeyError("vat"), "no price for order 17", "failed")
    other = raise_from(OSError("order 17 is locked"), "failed")

    assert deep.error_type == other.error_type == f"{__name__}.CardRefusedError"
    assert deep.error_message == "failed from KeyError: 'vat'"
    assert other.error_message == "failed from OSError: order <n> is locked"
    assert [line.rpartition(" ")[2] for line in deep.frames.split("\n")] == ["fail", "raise_from"]
    assert raise_from(ValueError(), "failed").error_message == "failed from ValueError"
    assert raise_from(ValueError("bad"), "").error_message == "from ValueError: bad"
    # The text may say it already.
    assert raise_from(ValueError("bad"), "it is bad").error_message == "it is bad"


def test_a_long_text_leaves_room_for_its_cause() -> None:
    failure = raise_from(KeyError("vat"), "word " * 400)

    assert failure.error_message == f"{'word ' * 15}word from KeyError: 'vat'"


def test_the_text_of_a_cause_is_redacted_too() -> None:
    cause = ValueError("card 4111 is bad")
    failure = raise_from(cause, "refused", redact=lambda text: text.replace("card", "****"))

    assert failure.error_message == "refused from ValueError: **** <n> is bad"


def test_causes_that_passed_through_no_own_code_and_notes_are_not_recorded() -> None:
    cause = ValueError("secret cause")
    exception = CardRefusedError("refused")
    exception.__cause__ = cause
    cause.__cause__ = exception  # a circle
    exception.add_note("secret note")

    assert "secret" not in str(failure_of(exception))
    try:
        json.loads("[")
    except ValueError as error:
        foreign = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    exception.__cause__ = foreign
    assert failure_of(exception).error_message == "refused"


def test_redaction_sees_the_text_before_it_is_cut() -> None:
    text = "card " + "4" * 400
    failure = failure_of(ValueError(text), redact=lambda t: re.sub(r"\d{4,}", "****", t))

    assert failure.error_message == "card ****"


@pytest.mark.parametrize("redact", [lambda _: 1 / 0, lambda _: None])
def test_nothing_of_the_text_is_kept_when_redaction_fails(redact: Any) -> None:
    failure = failure_of(ValueError("card 4111"), redact=redact)

    assert failure.error_message == NOT_REDACTED


@pytest.mark.parametrize(
    ("patterns", "is_match"),
    [
        (["CardRefusedError"], True),
        (["shop.payments.CardRefusedError"], True),
        (["payments.CardRefusedError"], False),
        (["shop.*"], True),
        (["*Refused*"], True),
        (["Card?efused[E]rror"], True),
        (["cardrefusederror"], False),
        (["CardRefused"], False),
        (["", "["], False),
        ([], False),
        (["ValueError", "Card*"], True),
    ],
)
def test_a_pattern_names_the_type_with_or_without_its_module(
    patterns: list[str], is_match: bool
) -> None:
    failure = Failure("m-1", "shop.payments.CardRefusedError")

    assert failure.matches(patterns) is is_match


ORDER_ID = "7c1811ed-e98f-4c9c-a9f9-58c757ff494f"


@pytest.mark.parametrize(
    ("error_type", "error_message", "carried"),
    [
        ("shop.CardRefusedError", "text", ("shop.CardRefusedError", "text")),
        ("shop.Gr\u00fcnError", "text", ("shop.Gr?nError", "text")),
        ("a" * 200 + ".LastError", "text", (("a" * 200 + ".LastError")[-128:], "text")),
        ("", "text", ("Error", "text")),
        ("No user anna@example.com", "password=x", ("No user ***", "password=***")),
        # Texts of another program: it may have cut one within an id.
        ("E", f"order {ORDER_ID} is late", ("E", "order <id> is late")),
        ("E", "order " * 48 + "is 7c1811ed-e98f", ("E", "order " * 48 + "is")),
        ("E", "x" * 300, ("E", "x" * 300)),
    ],
)
def test_a_parked_copy_carries_the_type_as_short_ascii_and_a_masked_text(
    error_type: str, error_message: str, carried: tuple[str, str]
) -> None:
    failure = Failure("m-1", error_type, error_message)

    assert failure.to_failure_error() == FailureError(*carried)


def test_a_type_with_what_a_mask_hides_is_masked() -> None:
    failure = failure_of(type("No user anna@example.com", (Exception,), {})())

    assert failure.error_type.endswith("test_failures.No user ***")


@pytest.mark.parametrize(
    ("error_type", "error_message", "code", "place"),
    [
        ("TimeoutError", "", None, "task/tax.py#rate"),
        ("shop.LateError", "timed out", None, "task/tax.py#rate"),
        ("TypeError", "'str' object is not callable", None, "task/tax.py#rate"),
        # What names its failure needs no place.
        ("NoRateError", "no rate for HR", None, ""),
        ("TimeoutError", "", "slow", ""),
    ],
)
def test_a_parked_copy_carries_the_place_where_the_text_names_little(
    error_type: str, error_message: str, code: str | None, place: str
) -> None:
    frames = "/var/task/tax.py:17 in rate\n/var/task/app.py:3 in handler"
    failure = Failure("m-1", error_type, error_message, error_code=code, frames=frames)

    assert failure.to_failure_error().place == place
    assert replace(failure, frames="").to_failure_error().place == ""


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
    failure = failure_of(type(name, (Exception,), {})(*args))

    assert 1 <= len(failure.error_type) <= ERROR_TYPE_CHARACTERS
    assert len(failure.error_message) <= ERROR_MESSAGE_CHARACTERS
    assert all(t.isprintable() for t in (failure.error_type, failure.error_message))
    assert Failure.from_item(failure.to_item()) == failure
    context = ReplayContext(error=failure.to_failure_error())
    assert len(context.to_json()) <= CONTEXT_MAX_BYTES
    assert ReplayContext.from_json(context.to_json()).error is not None


def test_a_failure_is_an_item_in_dynamodbs_own_json() -> None:
    failure = Failure("m-1", "shop.Error", "text", NOW)

    assert failure.to_item() == {
        "message_id": {"S": "m-1"},
        "error_type": {"S": "shop.Error"},
        "error_message": {"S": "text"},
        "failed_at": {"N": str(NOW)},
        # For as long as SQS keeps a message.
        "expires_at": {"N": str(NOW + 1_209_600)},
    }


def test_an_item_of_another_program_needs_only_an_id_and_a_type() -> None:
    item = {
        "message_id": {"S": "m-1"},
        "error_type": {"S": "com.shop.OrderException\n"},
        "error_message": {"S": "x" * 1_000},
        "error_code": {"S": "no code"},
        "failed_at": {"N": "1700000000.75"},
        "expires_at": {"N": "1E+9"},
        "stack_top": {"S": "client.py:42 in charge"},
        "fingerprint": {"S": "0123456789abcdef"},
        "more": {"BOOL": True},
    }

    assert Failure.from_item(item) == Failure("m-1", "com.shop.OrderException", "x" * 1_000)


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
