import pytest

from spark_reprocess.analysis.mask import compile_masks, shorten


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail bob.smith+x@mail.example.com now", "mail *** now"),
        ("card 4111 1111 1111 1111 charged", "card *** charged"),
        ("card 4111-1111-1111-1111", "card ***"),
        ("Authorization: Bearer abc.def-ghi_123", "Authorization: ***"),
        ("jwt eyJhbGciOi.eyJzdWIiOi.c2ln", "jwt ***"),
        ('{"password": "hunter2", "user": "bob"}', '{"password": "***", "user": "bob"}'),
        ("order 4711 of 2026-11-21", "order 4711 of 2026-11-21"),
    ],
)
def test_what_looks_secret_is_hidden(text: str, masked: str) -> None:
    assert compile_masks([]).text(text) == masked


def test_caller_adds_patterns_of_its_own() -> None:
    assert compile_masks([r"C-\d+"]).text("customer C-77 left") == "customer *** left"


def test_wrong_pattern_is_named_with_its_fault() -> None:
    with pytest.raises(ValueError, match=r"'\(': is no regular expression: missing \)"):
        compile_masks(["("])


def test_short_text_stays_on_one_line() -> None:
    assert shorten("a\n b", 10) == "a b"


def test_long_text_is_marked_where_cut() -> None:
    assert shorten("abcdef", 4) == "abc…"
