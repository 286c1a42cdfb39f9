"""Whatever the texts are: the page has the elements that the templates made, and no other."""

import re
import unicodedata
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlq.explain.findings import Difference, Findings, GroupFinding, Part, Sample, Synonym
from dlq.report.page import SCRIPTS, STYLES, bundled, joined, render_page
from tests.support.findings_builder import (
    HOSTILE_TEXTS,
    a_group,
    a_sample,
    hostile_findings,
    some_findings,
)
from tests.support.page_outline import PageOutline

# Whole strings that break out of something, pieces that may together, and anything at all.
_PIECES = st.sampled_from(
    ['"', "'", "<", ">", "&", "</", "script", "<!--", "-->", "]]>", "=", "\0"]
)
TEXTS = (
    st.sampled_from(HOSTILE_TEXTS)
    | st.lists(_PIECES).map("".join)
    | st.text(st.characters(exclude_categories=()))
)

SYNONYMS = st.lists(st.builds(Synonym, TEXTS, TEXTS), max_size=2).map(tuple)
PARTS = st.builds(Part, TEXTS, TEXTS, st.just(0.5), st.just(0.5), SYNONYMS)
DIFFERENCES = st.builds(
    Difference,
    st.lists(PARTS, min_size=1, max_size=3).map(tuple),
    st.just(0.5),
    st.just(0.5),
    st.just(0.5),
    condition=TEXTS,
    compared_with=TEXTS,
)
SAMPLES = st.builds(
    a_sample, message_id=TEXTS, body=TEXTS, attributes=st.dictionaries(TEXTS, TEXTS, max_size=3)
)
TALLIES = st.dictionaries(TEXTS, st.integers(0, 9), max_size=3)
GROUPS = st.builds(
    a_group,
    group_id=TEXTS,
    title=TEXTS,
    trend=TEXTS,
    reasons=TALLIES,
    sources=TALLIES,
    differences=st.lists(DIFFERENCES, max_size=2).map(tuple),
    samples=st.lists(SAMPLES, max_size=2).map(tuple),
)
FINDINGS = st.builds(
    lambda groups, texts, where: some_findings(
        *groups, plan_id=texts[0], archive=texts[1], plan_path=texts[2], where=where
    ),
    st.lists(GROUPS, max_size=3, unique_by=lambda group: group.group_id),
    st.tuples(TEXTS, TEXTS, TEXTS),
    st.none() | TEXTS,
)


@settings(max_examples=60)
@given(FINDINGS)
@example(hostile_findings())
def test_no_text_becomes_an_element_or_an_attribute(findings: Findings) -> None:
    page = PageOutline(render_page(findings))
    plain = harmless(findings)
    # Groups of one id would be one row.
    groups = tuple(replace(group, group_id=f"g-{n}") for n, group in enumerate(plain.groups))
    twin = PageOutline(render_page(replace(plain, groups=groups)))

    assert page.elements == twin.elements
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert page.text_of("script") == twin.text_of("script")
    assert page.text_of("style") == twin.text_of("style")


@settings(max_examples=60)
@given(FINDINGS)
def test_the_page_can_be_written_and_hides_no_character(findings: Findings) -> None:
    page = render_page(findings).replace(bundled(SCRIPTS), "").replace(joined(STYLES), "")

    page.encode()
    unseen = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    characters = set(page) - set("\n\t")
    assert not {character for character in characters if unicodedata.category(character) in unseen}


_PLANNED_ID = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)


def harmless(findings: Findings) -> Findings:
    """The same findings with plain texts: empty, blank or usable ones stay so."""
    return replace(
        findings,
        plan_id="p",
        archive="a",
        plan_path="s3://p" if "://" in findings.plan_path else "p",
        where=None if findings.where is None else "w",
        groups=tuple(_harmless_group(group) for group in findings.groups),
    )


def _harmless_group(group: GroupFinding) -> GroupFinding:
    return replace(
        group,
        group_id="g-1" if _PLANNED_ID.fullmatch(group.group_id) else "!",
        title="t",
        trend=group.trend and "t",
        reasons={f"r{n}": count for n, count in enumerate(group.reasons.values())},
        sources={f"s{n}": count for n, count in enumerate(group.sources.values())},
        differences=tuple(_harmless_difference(difference) for difference in group.differences),
        samples=tuple(_harmless_sample(sample) for sample in group.samples),
    )


def _harmless_difference(difference: Difference) -> Difference:
    usable = 0 < len(difference.condition) <= 2_000 and difference.condition.isprintable()
    parts = []
    for part in difference.parts:
        synonyms = tuple(Synonym("f", "v") for _ in part.synonyms)
        parts.append(Part("f", "v", 0.5, 0.5, synonyms))

    condition = "c" if usable else ""
    return replace(difference, parts=tuple(parts), condition=condition, compared_with="o")


def _harmless_sample(sample: Sample) -> Sample:
    attributes = {f"n{n}": "v" for n, _ in enumerate(sample.attributes)}
    return replace(
        sample, message_id="m", body="b" if sample.body.strip() else "", attributes=attributes
    )
