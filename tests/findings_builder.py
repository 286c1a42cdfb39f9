"""Findings for tests: plain ones to vary, a realistic incident, hostile ones, very many."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_reprocess.findings import Findings, GroupFinding, Lead, Sample, Spread

ANALYZED_AT = datetime(2025, 11, 20, 10, 30, tzinfo=UTC)
BUCKET_SECONDS = 1800.0
BUCKETS = 72
FIRST_BUCKET = ANALYZED_AT - timedelta(seconds=BUCKET_SECONDS * BUCKETS)
SOURCE = "arn:aws:sqs:eu-central-1:123456789012:orders"

Curve = Callable[[float], float]
"""Arrivals at a moment between 0 (the first bucket) and 1 (now), in any unit."""


def a_lead(**changes: Any) -> Lead:
    lead = Lead("body.customer.region", "eu-west-3", 0.97, 0.041, 812.4)
    return replace(lead, **changes)


def a_sample(**changes: Any) -> Sample:
    sample = Sample(
        "m-1", ANALYZED_AT, '{"order":{"id":"***","total":12.50}}', (("tenant", "acme"),)
    )
    return replace(sample, **changes)


def a_group(**changes: Any) -> GroupFinding:
    group = GroupFinding(
        group_id="g-0123456789",
        title="TimeoutError: no answer after <n> ms",
        count=10,
        share=1.0,
        first_sent_at=FIRST_BUCKET,
        last_sent_at=ANALYZED_AT,
        arrivals=(4, 0, 6),
        trend="steady",
        reasons=(("attempts_exhausted", 9), ("too_old", 1)),
        sources=((SOURCE, 10),),
        replay_counts=((None, 1), (6, 9)),
        body_bytes=Spread(120, 340, 900, 1200),
        age_seconds=Spread(60, 7_200, 90_000, 130_000),
        leads=(a_lead(),),
        samples=(a_sample(),),
    )
    return replace(group, **changes)


def some_findings(*groups: GroupFinding, **changes: Any) -> Findings:
    """Findings of these groups; counts and shares are made to add up."""
    total = sum(group.count for group in groups)
    findings = Findings(
        plan_id="20251120T103000-4f2a",
        archive="archive",
        plan_path="archive/reports/20251120T103000-4f2a/plan.yaml",
        analyzed_at=ANALYZED_AT,
        messages=total,
        decided=0,
        bucket_starts=tuple(
            FIRST_BUCKET + timedelta(seconds=BUCKET_SECONDS * number) for number in range(BUCKETS)
        ),
        bucket_seconds=BUCKET_SECONDS,
        groups=tuple(replace(one, share=one.count / total if total else 0.0) for one in groups),
        unlisted_groups=0,
        unlisted_messages=0,
        where=None,
    )
    return replace(findings, **changes)


def many_findings(number: int) -> Findings:
    """As many groups as an analysis lists at most, each with everything a group can have."""
    chance = random.Random(7)
    body = json.dumps({"order": "x" * 300, "lines": [{"sku": str(n), "n": n} for n in range(20)]})
    groups = [
        a_group(
            group_id=f"g-{place:010x}",
            title=f"ValidationError {place}: field <text> must be one of <text>, not <text>",
            count=(number - place) * 10,
            arrivals=tuple(chance.choice((0, 0, 1, 3, 9)) for _ in range(BUCKETS)),
            leads=tuple(
                a_lead(
                    field=f"body.field_{n}", value=f"v{place}", condition=f"body LIKE '%v{place}%'"
                )
                for n in range(5)
            ),
            samples=tuple(a_sample(message_id=f"m-{place}-{n}", body=body) for n in range(5)),
        )
        for place in range(number)
    ]
    return some_findings(*groups)


def demo_findings() -> Findings:
    """An invented shop's morning: one region's payments time out, and the usual rest."""
    chance = random.Random(20251120)
    groups = sorted(_demo_groups(chance), key=lambda group: -group.count)
    return some_findings(
        *groups,
        archive="s3://shop-dead-letters/orders",
        plan_path="/srv/reports/20251120T103000-4f2a/plan.yaml",
        messages=sum(group.count for group in groups) + 1_204,
        decided=1_204,
    )


def _demo_groups(chance: random.Random) -> Iterator[GroupFinding]:
    for number, (title, size, curve, trend, reasons, leads, body) in enumerate(_INCIDENT):
        arrivals = _arrivals(chance, curve, size)
        seen = [place for place, count in enumerate(arrivals) if count]
        first = FIRST_BUCKET + timedelta(seconds=BUCKET_SECONDS * seen[0] + chance.randrange(1800))
        last = FIRST_BUCKET + timedelta(seconds=BUCKET_SECONDS * seen[-1] + chance.randrange(1800))
        count = sum(arrivals)
        yield a_group(
            group_id=f"g-{chance.randrange(16**10):010x}",
            title=title,
            count=count,
            first_sent_at=first,
            last_sent_at=last,
            arrivals=arrivals,
            trend=trend,
            reasons=_split(count, reasons),
            sources=_split(
                count, (SOURCE,) if number != 5 else (SOURCE.replace("orders", "refunds"),)
            ),
            replay_counts=_replays(chance, count, reasons[0]),
            body_bytes=Spread(412, 700 + 90 * number, 2100 + 200 * number, 3900 + 5_000 * number),
            age_seconds=Spread(
                (ANALYZED_AT - last).total_seconds(),
                (ANALYZED_AT - first).total_seconds() / 2,
                (ANALYZED_AT - first).total_seconds() * 0.93,
                (ANALYZED_AT - first).total_seconds(),
            ),
            leads=leads,
            samples=tuple(_samples(chance, body, first, last)),
        )


def _arrivals(chance: random.Random, curve: Curve, size: int) -> tuple[int, ...]:
    weights = [max(0.0, curve(n / BUCKETS)) * chance.uniform(0.75, 1.25) for n in range(BUCKETS)]
    drawn = Counter(chance.choices(range(BUCKETS), weights, k=size))
    return tuple(drawn[place] for place in range(BUCKETS))


def _split(count: int, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    rest = count // 12
    return (
        (names[0], count - rest * (len(names) - 1)),
        *((name, rest) for name in names[1:] if rest),
    )


def _replays(chance: random.Random, count: int, reason: str) -> tuple[tuple[int | None, int], ...]:
    if reason != "attempts_exhausted":
        return ((0, count),)
    odd = min(count // 9, chance.randrange(1, 40))
    return ((5, odd), (6, count - odd))


def _samples(
    chance: random.Random, body: dict[str, Any] | str, first: datetime, last: datetime
) -> Iterator[Sample]:
    for number in range(3):
        sent_at = first + (last - first) * (number / 2)
        identity = f"{chance.randrange(16**8):08x}-5a1e-4c0d-9b7f-{chance.randrange(16**12):012x}"
        if isinstance(body, dict):
            text = json.dumps(
                {
                    **body,
                    "order_id": f"o-{chance.randrange(10**6):06d}",
                    "placed_at": f"{sent_at:%FT%TZ}",
                },
                separators=(",", ":"),
            )
        else:
            text = body
        yield Sample(
            identity,
            sent_at,
            text,
            (
                ("sqs-dlq-replay-nb", "6"),
                ("tenant", chance.choice(("acme", "blue-bottle", "northwind"))),
            ),
        )


def _surge(at: float, width: float) -> Curve:
    return lambda t: math.exp(-(((t - at) / width) ** 2)) + 0.002


def _ramp(start: float) -> Curve:
    return lambda t: (t - start) / (1 - start) if t > start else 0.0


_ORDER = {
    "type": "OrderPlaced",
    "customer": {"id": "***", "region": "eu-west-3", "email": "***"},
    "payment": {"provider": "cartebleue", "amount": 59.9, "currency": "EUR", "attempt": 1},
    "lines": [{"sku": "TEA-114", "quantity": 2}, {"sku": "CUP-020", "quantity": 1}],
}
_US = {**_ORDER, "customer": {"id": "***", "region": "us-east-1", "email": "***"}}
_COUPON = {**_US, "coupon": {"code": "SPRING", "kind": "bundle", "percent": None}}

_INCIDENT: tuple[tuple[str, int, Curve, str, tuple[str, ...], tuple[Lead, ...], Any], ...] = (
    (
        "shop.payments.GatewayTimeout: no answer from <text> within <n> ms",
        7_480,
        _ramp(0.56),
        "rising",
        ("attempts_exhausted", "too_old"),
        (
            a_lead(
                field="body.payment.provider",
                value="cartebleue",
                group_share=0.994,
                other_share=0.031,
                score=9_214.0,
                condition="get_json_object(body, '$.payment.provider') = 'cartebleue'",
            ),
            a_lead(group_share=0.912, other_share=0.118, score=6_030.0),
            a_lead(
                field="attribute.tenant",
                value="northwind",
                group_share=0.41,
                other_share=0.29,
                score=61.2,
            ),
        ),
        _ORDER,
    ),
    (
        "pydantic.ValidationError: coupon.kind: <text> is not one of <text>, <text>",
        2_310,
        lambda t: 1.0 if t > 0.31 else 0.0,
        "steady",
        ("non_retryable",),
        (
            a_lead(
                field="body.coupon.kind",
                value="bundle",
                group_share=1.0,
                other_share=0.0,
                score=8_821.0,
                condition="get_json_object(body, '$.coupon.kind') = 'bundle'",
            ),
        ),
        _COUPON,
    ),
    (
        "KeyError: <text>",
        1_145,
        _surge(0.42, 0.06),
        "over",
        ("attempts_exhausted",),
        (
            a_lead(
                field="body.customer.email",
                value="(missing)",
                group_share=1.0,
                other_share=0.002,
                score=4_411.0,
            ),
        ),
        {**_US, "customer": {"id": "***", "region": "us-east-1"}},
    ),
    (
        "botocore.ConditionalCheckFailedException: the conditional request failed",
        690,
        _surge(0.2, 0.09),
        "falling",
        ("attempts_exhausted", "too_old"),
        (
            a_lead(
                field="attribute.tenant",
                value="blue-bottle",
                group_share=0.88,
                other_share=0.24,
                score=388.0,
            ),
        ),
        _US,
    ),
    (
        "attempts_exhausted: JSON type=StockMoved {at:string, from:string, n:number, sku:string, to:string}",
        402,
        lambda t: 0.6 + 0.4 * math.sin(t * 25),
        "steady",
        ("attempts_exhausted",),
        (),
        {"type": "StockMoved", "sku": "TEA-114", "from": "LYS", "to": "FRA", "n": 40},
    ),
    (
        "foreign_source: JSON type=RefundRequested {amount:number, order:string, reason:string, type:string}",
        268,
        lambda t: 1.0 if t > 0.7 else 0.1,
        "rising",
        ("foreign_source",),
        (
            a_lead(
                field="body.type",
                value="RefundRequested",
                group_share=1.0,
                other_share=0.0,
                score=2_190.0,
            ),
        ),
        {"type": "RefundRequested", "amount": 12.0, "reason": "damaged"},
    ),
    (
        "UnicodeDecodeError: <text> codec can't decode byte <hex> in position <n>",
        94,
        _surge(0.8, 0.05),
        "falling",
        ("attempts_exhausted",),
        (
            a_lead(
                field="attribute.charset",
                value="latin-1",
                group_share=1.0,
                other_share=0.0,
                score=731.0,
            ),
        ),
        "Commande n° 114 confirm\ufffde - merci !",
    ),
    (
        "decimal.InvalidOperation: [<class <text>>]",
        51,
        _surge(0.64, 0.02),
        "over",
        ("attempts_exhausted",),
        (
            a_lead(
                field="body.payment.amount",
                value="12,50",
                group_share=0.53,
                other_share=0.0,
                score=122.0,
            ),
        ),
        {**_US, "payment": {"provider": "worldcard", "amount": "12,50", "currency": "EUR"}},
    ),
    (
        "attempts_exhausted: empty body",
        17,
        lambda t: 1.0 if 0.15 < t < 0.9 else 0.0,
        "",
        ("attempts_exhausted",),
        (),
        "",
    ),
)
