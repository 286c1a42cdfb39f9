"""Findings for tests: plain ones to vary, hostile ones, very many. See also ``incident``."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from dlq.explain.findings import (
    Difference,
    Findings,
    GroupFinding,
    Part,
    ReplayCount,
    Sample,
    Spread,
    Synonym,
)
from dlq.explain.triage import SeenGroup, Status

ANALYZED_AT = datetime(2025, 11, 20, 10, 30, tzinfo=UTC)
BUCKET_SECONDS = 1800.0
BUCKETS = 72
FIRST_BUCKET = ANALYZED_AT - timedelta(seconds=BUCKET_SECONDS * BUCKETS)
SOURCE = "arn:aws:sqs:eu-central-1:123456789012:orders"


# One of each kind of text that must stay text. None may run, none may change the page's elements,
# and none may hide or reorder what stands beside it.
HOSTILE_TEXTS = (
    "<script>window.hostile = 1; alert(1)</script>",
    "</script><script>window.hostile = 2</script>",
    "</title></style></textarea><img src=x onerror='window.hostile = 3'>",
    '"><svg onload=alert(4)>',
    "' onmouseover='alert(5)' x='",
    "javascript:alert(6)",
    "<!--<script>-->]]>",
    "{{ 7 * 7 }} {% raw %} ${8 * 8} <%= 9 %>",
    "&lt;b&gt; &amp; &#0; &nbsp",
    "\u202egnp.exe \u2066isolated\u2069 \u200bzero\ufeffwidth",
    "line\u2028separator\u2029paragraph\x85next",
    "nul\0 bell\a escape\x1b[31mred\x1b[0m delete\x7f \x9b31m return\r\nline",
    "\ud800 half a pair, \U000e0041\U000e0042 tags, \ue000 private, \uffff none",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 é ﷽ " + "Z͓̍a͓̍l͓̍g͓̍o͓̍" * 20,
    "مرحبا بالعالم (123) שלום",
    "W" * 5_000,
    "%s %(name)s {0} \\x41 `id` $(id) ; rm -rf ~ | & > < ' \"",
    "data:text/html,<script>alert(10)</script>",
    '{"a": "</script><script>window.hostile = 11</script>", "b": [1e999, {"__proto__": "\u202e"}]}',
    "[" * 3_000,
    "",
    " ",
)


def a_difference(
    field: str = "body.customer.region",
    value: str = "eu-west-3",
    group_share: float = 0.97,
    other_share: float = 0.041,
    score: float = 0.929,
    *,
    synonyms: tuple[Synonym, ...] = (),
    **changes: Any,
) -> Difference:
    """Build a difference of one part."""
    part = Part(field, value, group_share, other_share, synonyms)
    return Difference((part,), group_share, other_share, score, **changes)


def a_sample(**changes: Any) -> Sample:
    body = '{"order":{"id":"***","total":12.50}}'
    return replace(Sample("m-1", ANALYZED_AT, body, {"tenant": "acme"}), **changes)


def a_group(**changes: Any) -> GroupFinding:
    group = GroupFinding(
        group_id="g-0123456789",
        title="TimeoutError: no answer after <n> ms",
        count=10,
        share=1.0,
        first_parked_at=FIRST_BUCKET,
        last_parked_at=ANALYZED_AT,
        arrivals=(4, 0, 6),
        trend="steady",
        reasons={"attempts_exhausted": 9, "too_old": 1},
        sources={SOURCE: 10},
        replay_counts=(ReplayCount(None, 1), ReplayCount(6, 9)),
        body_bytes=Spread(120, 340, 900, 1200),
        age_seconds=Spread(60, 7_200, 90_000, 130_000),
        differences=(a_difference(),),
        samples=(a_sample(),),
    )
    return replace(group, **changes)


def bucket_start(number: int) -> datetime:
    """When the bucket of this number begins; the first one is 0."""
    return FIRST_BUCKET + timedelta(seconds=BUCKET_SECONDS * number)


def some_findings(*groups: GroupFinding, **changes: Any) -> Findings:
    """Findings of these groups; counts and shares add up, and each has arrivals in all buckets."""
    total = sum(group.count for group in groups)
    starts = tuple(map(bucket_start, range(BUCKETS)))
    buckets = len(changes.get("bucket_starts", starts))
    filled = []
    for group in groups:
        share = group.count / total if total else 0.0
        missing = [0] * (buckets - len(group.arrivals))
        filled.append(replace(group, share=share, arrivals=(*group.arrivals, *missing)))

    findings = Findings(
        plan_id="20251120T103000-4f2a",
        archive="archive",
        plan_path="archive/reports/20251120T103000-4f2a/plan.yaml",
        analyzed_at=ANALYZED_AT,
        messages=total,
        bucket_starts=starts,
        bucket_seconds=BUCKET_SECONDS,
        groups=tuple(filled),
        where=None,
    )

    return replace(findings, **changes)


def many_findings(number: int) -> Findings:
    """As many groups as an analysis lists at most, each with everything a group can have."""
    chance = random.Random(7)
    body = json.dumps({"order": "x" * 300, "lines": [{"sku": str(n), "n": n} for n in range(20)]})
    groups = []
    for place in range(number):
        value = f"v{place}"
        condition = f"body LIKE '%v{place}%'"
        fields = [f"body.field_{n}" for n in range(5)]
        differences = [a_difference(field, value, condition=condition) for field in fields]
        group = a_group(
            group_id=f"g-{place:010x}",
            title=f"ValidationError {place}: field <text> must be one of <text>, not <text>",
            count=(number - place) * 10,
            arrivals=tuple(chance.choice((0, 0, 1, 3, 9)) for _ in range(BUCKETS)),
            differences=tuple(differences),
            samples=tuple(a_sample(message_id=f"m-{place}-{n}", body=body) for n in range(5)),
        )
        groups.append(group)
    return some_findings(*groups)


def hostile_findings() -> Findings:
    """Every text of every group is hostile, and each hostile text stands in every kind of place."""
    groups = []
    for place in range(len(HOSTILE_TEXTS)):
        texts = HOSTILE_TEXTS[place:] + HOSTILE_TEXTS[:place]
        groups.append(_hostile_group(cycle(texts), place))

    return some_findings(
        *groups,
        plan_id=HOSTILE_TEXTS[0],
        archive=HOSTILE_TEXTS[1],
        plan_path=HOSTILE_TEXTS[16],
        where=HOSTILE_TEXTS[9],
        gone=tuple(gone_group(text, text, 1) for text in HOSTILE_TEXTS),
    )


def gone_group(group_id: str, report_id: str, count: int) -> SeenGroup:
    return SeenGroup(group_id, ANALYZED_AT, ANALYZED_AT, report_id, count, None, Status.KNOWN)


def _hostile_group(texts: Iterator[str], place: int) -> GroupFinding:
    return a_group(
        group_id=next(texts) + str(place),
        title=next(texts),
        arrivals=tuple(range(place, place + BUCKETS)),
        trend=next(texts),
        status=next(texts),
        last_action=next(texts),
        note=next(texts),
        reasons={next(texts): 1 for _ in range(20)},
        sources={next(texts): 1 for _ in range(20)},
        differences=tuple(_hostile_difference(texts) for _ in range(3)),
        samples=tuple(_hostile_sample(texts) for _ in range(4)),
        queue=next(texts),
    )


def _hostile_difference(texts: Iterator[str]) -> Difference:
    return a_difference(
        field=next(texts),
        value=next(texts),
        condition=next(texts),
        compared_with=next(texts),
        synonyms=(Synonym(next(texts), next(texts)),),
    )


def _hostile_sample(texts: Iterator[str]) -> Sample:
    return a_sample(
        message_id=next(texts),
        body=next(texts),
        sent_at=None,
        attributes={next(texts): next(texts) for _ in range(4)},
    )
