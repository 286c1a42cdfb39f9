"""Normalization keeps what names a failure, and removes what differs between its occurrences."""

import base64
import itertools
import string
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.signature.names import mask_ids
from dlq.explain.signature.signature import signature_of
from dlq_replay.rules.failures import one_line
from dlq_replay.text.normalization import mask_error


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("order 4711 timed out after 30.5 s", "order <n> timed out after <n>"),
        ("limit of 5.2 MB, waited 1m30s, at -4 %", "limit of <n>, waited <n>, at <n>"),
        ("at 2026-11-21T03:15:02.123Z", "at <time>"),
        ("on 2026-11-21 it broke", "on <time> it broke"),
        ("expired Mon, 23 Nov 2026 10:15:30 GMT", "expired <time>"),
        ("no report for Dec 1, 2026", "no report for <time>"),
        ("of January 5 for Marketing 5", "of <time> for Marketing <n>"),
        ("unknown address bob@example.com", "unknown address <email>"),
        ("pointer 0xDEADbeef of 3f2b8c1e-9d4a-4b6c-8e2f-0a1b2c3d4e5f", "pointer <id> of <id>"),
        ("Root=1-67891233-abcdef012345678912345678", "Root=<id>"),
        ("no route to 10.0.3.17:5432 or fe80::1ff:fe23", "no route to <host>:5432 or <host>"),
        (
            "GET https://api.example.com:8443/v1/orders/1?x=y",
            "GET https://api.example.com:8443/<path>",
        ),
        ("cannot open /var/data/in/1.csv", "cannot open <path>"),
        ("lock of shop.Order@7852e922", "lock of shop.Order@<id>"),
        ("worker-3 of node eu-west-12", "worker-<n> of node <id>"),
        ("in boto3.exceptions by Base64Decoder with sha256", None),
        ("can't reach the customer's bank", None),
        ("", ""),
        # Numbers that name the failure.
        ("HTTP 503 from api", None),
        ("the tax service answered 503", None),
        ("[Errno 111] Connection refused", None),
        ("ORA-00001: unique constraint violated", None),
        ("SQLSTATE[40001], SQLSTATE 08P01", None),
        ("exited with 137, exit code 1", None),
        ("500 Server Error: Internal Server Error", None),
        ("no server on localhost:5432, port 6379", None),
        ("from 10.1.2.3 port 22, port 49811", "from <host> port <n>, port <n>"),
        ("(1062, 'Duplicate entry 7')", "(1062, Duplicate entry <n>)"),
        # Quoted names of code, and other quoted texts.
        ("'vat'", None),
        ('column "vat" does not exist', None),
        ("'vat' is a required property", None),
        ("got an unexpected keyword argument 'currency'", None),
        ("Cannot read properties of undefined (reading 'price')", None),
        ('unique constraint "orders_pkey"', None),
        ('key "order 12" is missing', 'key "<text>" is missing'),
        ("no answer from 'pay-3'", "no answer from '<text>'"),
        ("user 'anna' has no column 'vat'", "user '<text>' has no column 'vat'"),
    ],
)
def test_what_names_a_failure_stays(text: str, masked: str | None) -> None:
    expected = text if masked is None else masked

    assert mask_error(text) == expected
    assert mask_error(expected) == expected


TESTS = Path(__file__).parents[2]


def sets_of(kind: str) -> list[list[str]]:
    """Texts as libraries, services and teams write them; the values are made up."""
    content = (TESTS / "support" / "error_texts.txt").read_text(encoding="utf-8")
    [section] = [part for part in content.split("# ") if part.startswith(f"{kind}:")]
    blocks = section.partition("\n")[2].strip().split("\n\n")
    return [block.splitlines() for block in blocks]


def keys_of_texts(texts: Sequence[str]) -> set[str]:
    return {signature_of("", None, "Error", text).group_key for text in texts}


@pytest.mark.parametrize("texts", sets_of("apart"), ids=lambda texts: texts[0])
def test_what_names_a_failure_is_never_masked(texts: list[str]) -> None:
    assert len(keys_of_texts(texts)) == len(texts) > 1


@pytest.mark.parametrize("texts", sets_of("together"), ids=lambda texts: texts[0])
def test_one_thing_has_one_mask(texts: list[str]) -> None:
    assert len(texts) > 1
    assert len(keys_of_texts(texts)) == 1


@pytest.mark.parametrize("kind", ["apart", "together"])
def test_a_text_that_was_masked_stays_as_it_is(kind: str) -> None:
    """A recorder masks it, then the replay function, then the analysis."""
    for texts in sets_of(kind):
        for text in texts:
            masked = mask_error(one_line(text))

            assert mask_error(masked) == masked


HEX = "0123456789acef"
"""Without b and d: ``12b`` is a size, and ``1d`` a duration."""

CODES = string.ascii_uppercase + string.digits


def mixed(alphabet: str, length: int) -> st.SearchStrategy[str]:
    """Codes of letters and digits."""
    texts = st.text(alphabet, min_size=length, max_size=length)
    return texts.filter(lambda text: not (text.isalpha() or text.isdecimal()))


@pytest.mark.parametrize(
    "ids",
    [
        st.uuids().map(str),
        mixed(CODES, 6),
        mixed(HEX, 7),
        mixed(HEX, 40),
        mixed(string.ascii_letters + string.digits, 20).map(lambda text: f"7{text}"),
        st.binary(min_size=18, max_size=18).map(lambda b: "aA1" + base64.b64encode(b).decode()),
    ],
    ids=["uuid", "booking code", "short hex", "sha1", "nanoid", "base64"],
)
def test_ids_are_known_by_their_shape(ids: st.SearchStrategy[str]) -> None:
    @given(ids)
    def law(text: str) -> None:
        assert mask_error(f"order {text} could not be booked") == "order <id> could not be booked"

    law()


NAMES = tuple(
    """
    Anna Ben Clara David Elena Felix Greta Hans Ida Jonas Karla Lukas Maria Nils Olga Paul Rosa
    Simon Tina Uwe Vera Wim Xenia Yusuf Zoe Aisha Bilal Chen Diego Emeka Fatima Giulia Hiro Ingrid
    Jamal Kenji Leila Mateo Noor Oksana Priya Quentin Rania Santiago Thandi Umar Viktor Wei
    Yara Zainab
    """.split()  # noqa: SIM905 - a list would take a line for each
)


@pytest.mark.parametrize(
    "sentence", ["User '{}' not found", 'customer "{}" may not refund', "no account of '{}'"]
)
def test_no_name_of_a_person_stays(sentence: str) -> None:
    assert len(NAMES) == 50
    assert (
        len({mask_error(sentence.format(name)) for name in (*NAMES, *map(str.lower, NAMES))}) == 1
    )


QUOTES = """
    "{}" '{}' `{}` `{}' “{}” “{}" „{}“ „{}” „{}" ”{}” ‘{}’ ‘{}' ‚{}‘ ‚{}’ ‚{}' ’{}’ «{}» »{}« »{}»
    ‹{}› ›{}‹ ›{}› 「{}」 『{}』 ｢{}｣ ﹁{}﹂ ﹃{}﹄ 《{}》 〈{}〉 〝{}〟 ＂{}＂
""".split()  # noqa: SIM905 - a list would take a line for each


SENTENCES = (
    "Kunde {} ist gesperrt",
    "客户{}没有权限",
    "고객 {}님이 없습니다",
    "ลูกค้า{}ไม่พบ",
    "l'invoice d’avril of {}, can't book",
    "{}, {}: no account",
)
QUOTED_NAMES = ("Anna Muster", "Conan O'Brien", "Conan O’Brien", "山田太郎", "")


@pytest.mark.parametrize("quotes", QUOTES)
def test_no_quoted_text_stays_whatever_script_quotes_it(quotes: str) -> None:
    for sentence, name in itertools.product(SENTENCES, QUOTED_NAMES):
        masked = mask_error(sentence.replace("{}", quotes.format(name)))

        assert masked == sentence.replace("{}", quotes.format("<text>"))


@pytest.mark.parametrize("quotes", QUOTES)
def test_a_name_of_code_stays_whatever_script_quotes_it(quotes: str) -> None:
    text = f"column {quotes.format('vat')} does not exist"

    assert mask_error(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "we don’t, can't and won’t",
        "l’été d’Anna",
        "5’ is short",
        "a « b",
        "「 a",
        "\u043e\u0431’\u0454\u043a\u0442 \u043f’\u044f\u0442\u044c",
    ],
)
def test_a_mark_without_its_pair_quotes_nothing(text: str) -> None:
    assert "<text>" not in mask_error(text)


PIECES = st.sampled_from(
    [
        "2026-11-21T03:15:02Z",
        "2026-11-21",
        "03:15",
        "0xdeadBEEF",
        "0x",
        "x0x1",
        "can't",
        "123e4567-e89b-12d3-a456-426614174000",
        "deadbeefcafe",
        "deadbeefcaf1",
        "-",
        " ",
        "_",
        "123456789012",
        "order_12",
        "ord12er3",
        "a1b2c3d4",
        "ab12é345",
        "7",
        "://",
        "/a/b1.c",
        "\u0661" * 12,
        "a\u06611b\u0662cdef",
        "'quoted 12'",
        '"a1"',
        "bob@example.com",
        "::1",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=8)


@given(TEXTS)
def test_any_text_has_a_printable_form_of_bounded_length(pieces: Sequence[str]) -> None:
    masked = mask_error(one_line(" ".join(pieces) * 50))

    assert masked == one_line(masked)
    assert len(masked) <= 500


@given(TEXTS)
def test_ids_are_masked_as_if_everything_were_looked_for(pieces: Sequence[str]) -> None:
    text = "".join(pieces)

    assert mask_ids(f"{text} x-1b") == one_line(f"{mask_ids(text)} x-1b")
