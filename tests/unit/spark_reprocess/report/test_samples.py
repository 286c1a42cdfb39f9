from spark_reprocess.report.views import (
    SAMPLE_BYTES,
    SAMPLE_CHARACTERS,
    VALUE_CHARACTERS,
    shown_sample,
    shown_samples,
)
from tests.support.findings_builder import a_group, a_sample


def test_json_is_laid_out_and_named_so_and_text_stays_as_it_is() -> None:
    laid_out = shown_sample(a_sample(body='{"a":1}'))
    text = shown_sample(a_sample(body=" a\n{b} "))

    assert (laid_out.kind, laid_out.body, laid_out.is_cut) == ("JSON", '{\n  "a": 1\n}', False)
    assert (text.kind, text.body) == ("text", " a\n{b} ")
    assert shown_sample(a_sample(body=" \n")).kind == "empty"


def test_a_long_body_is_cut_and_says_so() -> None:
    for body in ("x" * (SAMPLE_CHARACTERS + 1), '{"a":[' + "[1]," * 1_000, "\u202e" * 5_000):
        shown = shown_sample(a_sample(body=body))

        assert shown.is_cut
        assert len(shown.body) == SAMPLE_CHARACTERS
        assert shown.body.endswith("…")


def test_a_long_attribute_is_cut() -> None:
    ((name, value),) = shown_sample(a_sample(attributes=(("n" * 900, "v" * 900),))).attributes

    assert len(name) == len(value) == VALUE_CHARACTERS


def test_every_group_gets_a_sample_before_any_gets_a_second() -> None:
    one = "é&" * 2_000
    groups = [a_group(samples=tuple(a_sample(body=one) for _ in range(5))) for _ in range(40)]

    shown = shown_samples(groups)

    counts = [len(kept) for kept in shown]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1
    assert counts[-1] >= 1
    assert sum(sample.page_bytes for kept in shown for sample in kept) <= SAMPLE_BYTES


def test_a_sample_that_does_not_fit_keeps_no_smaller_one_out() -> None:
    large = a_group(samples=tuple(a_sample(body="&" * SAMPLE_CHARACTERS) for _ in range(30)))
    small = a_group(samples=(a_sample(body="small"),))

    shown = shown_samples([large] * 40 + [small])

    assert sum(len(kept) for kept in shown[:-1]) < 40 * 30
    assert len(shown[-1]) == 1
