"""Where a consumer's own code failed, and of which errors that says which failure it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.text.places import PLACE_CHARACTERS, names_little, place_of


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        # Python, as recorded and as printed.
        ("/var/task/tax.py:17 in rate", "task/tax.py#rate"),
        ('"/var/task/orders/tax.py", line 17, in rate', "orders/tax.py#rate"),
        ('"/var/task/tax.py", line 17', "task/tax.py"),
        # Java and Kotlin: no number of a lambda, of a class without a name, of a module.
        ("com.shop.Tax.rate(Tax.java:17)", "com.shop.Tax#rate"),
        ("com.shop.Tax.<init>(Tax.java:87)", "com.shop.Tax#<init>"),
        ("java.base/java.util.Objects.requireNonNull(Objects.java:208)", None),
        ("app//com.shop.Tax.lambda$rate$0(Tax.java:17)", "com.shop.Tax#lambda$rate"),
        ("com.shop.Tax$1.run(Unknown Source)", "com.shop.Tax#run"),
        ("com.shop.Tax$$Lambda$14/0x00000008000.apply(Native Method)", "com.shop.Tax#apply"),
        # JavaScript: no hash of a bundle.
        ("rate (/var/task/tax.js:17:9)", "task/tax.js#rate"),
        ("/var/task/tax.mjs:17:9", "task/tax.mjs"),
        ("at async Price.rate (webpack:///./src/price.ts:3:4)", "src/price.ts#Price.rate"),
        ("Array.map [as x] (/app/b.js:1:1)", "app/b.js#Array.map"),
        ("handler (file:///var/task/index-C7kPz1aB.js:1:2)", "task/<id>.js#handler"),
        # .NET, Go, Ruby.
        ("Shop.Tax.Rate(Order order) in /src/Tax.cs:line 17", "Shop.Tax#Rate"),
        ("Shop.Tax.Rate(List`1 orders)", "Shop.Tax#Rate"),
        ("/app/tax.go:17 +0x1d", "app/tax.go"),
        ("app/tax.rb:12:in `rate'", "app/tax.rb#rate"),
        # What has another form.
        ("main.rate", "main.rate"),
        ("in the loop, somewhere", "in_the_loop_somewhere"),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_a_place_is_function_and_file_without_the_line(frame: str, place: str | None) -> None:
    expected = "java.util.Objects#requireNonNull" if place is None else place

    assert place_of(f"{frame}\nanother (/frame.js:1:1)" if frame.strip() else frame) == expected


@given(st.text())
def test_any_text_makes_one_word_of_printable_ascii(frames: str) -> None:
    place = place_of(frames)

    assert len(place) <= PLACE_CHARACTERS
    assert all("!" <= character <= "~" for character in place)
    assert '"' not in place
    assert "\\" not in place


@pytest.mark.parametrize(
    ("error_type", "text", "is_little"),
    [
        ("java.lang.IllegalStateException", "", True),
        ("asyncio.TimeoutError", "timeout", True),
        ("Error", "<n>", True),
        ("RuntimeError", "Request failed", True),
        ("ValueError", "Invalid format: <text> is malformed", True),
        # A runtime makes these texts.
        (
            "java.lang.NullPointerException",
            'Cannot invoke "a.B.c()" because "<text>" is null',
            True,
        ),
        ("TypeError", "x is not a function", True),
        ("System.NullReferenceException", "Object reference not set to an instance", True),
        ("shop.NoRateError", "no rate for HR", False),
        ("KeyError", "'vat'", False),
        ("Exception", "\u5165\u529b\u304c\u4e0d\u6b63\u3067\u3059", False),
    ],
)
def test_a_text_names_little_if_it_has_no_word_of_its_own(
    error_type: str, text: str, is_little: bool
) -> None:
    assert names_little(error_type, text) is is_little
