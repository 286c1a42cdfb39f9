"""An invented shop's morning, as an analysis would find it: for looking at, and for pictures."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dlq.explain.findings import Difference, Findings, GroupFinding, Synonym
from tests.support.findings_builder import (
    BUCKETS,
    SOURCE,
    a_difference,
    a_group,
    a_sample,
    bucket_start,
    some_findings,
)

Curve = Callable[[float], float]
"""Arrivals at a moment between 0 (the first bucket) and 1 (now), in any unit."""

QUEUES = (
    "orders",
    "invoices",
    "refunds.fifo",
    "shipment-notifications-of-the-eu-central-1-warehouse-production",
    "stock",
    "returns",
)


@dataclass(frozen=True)
class Failure:
    """A failure, from which one group is made."""

    title: str
    size: int
    curve: Curve
    trend: str
    body: dict[str, Any] | None
    differences: tuple[Difference, ...] = ()
    reason: str = "attempts_exhausted"
    source: str = SOURCE


def incident_findings() -> Findings:
    """One region's payments time out, and there is the usual rest."""
    chance = random.Random(20251120)
    groups = sorted(
        (_group(chance, failure) for failure in _FAILURES), key=lambda group: -group.count
    )
    return some_findings(
        *groups,
        archive="s3://shop-dead-letters/orders",
        plan_path="/srv/reports/20251120T103000-4f2a/plan.yaml",
    )


def fleet_findings() -> Findings:
    """The same morning in six source queues, and a group of which no queue is known."""
    chance = random.Random(20251121)
    groups = []
    for place, queue in enumerate(QUEUES):
        for number, group in enumerate(incident_findings().groups):
            own = replace(
                group,
                group_id=f"g-{place}{number:09x}",
                count=max(1, int(group.count * chance.uniform(0.05, 1))),
                status=chance.choice(("new", "known", "regressed")),
                queue=queue,
            )
            groups.append(own)
    groups.sort(key=lambda group: -group.count)
    rest = replace(groups[-1], group_id="g-ffffffffff", title="everything else", queue="")
    return replace(some_findings(*groups, rest), archive="s3://shop-dead-letters/all")


def _group(chance: random.Random, failure: Failure) -> GroupFinding:
    weights = []
    for number in range(BUCKETS):
        height = max(0.0, failure.curve(number / BUCKETS))
        weights.append(height * chance.uniform(0.75, 1.25))

    arrivals = Counter(chance.choices(range(BUCKETS), weights, k=failure.size))
    first = bucket_start(min(arrivals))
    last = bucket_start(max(arrivals))

    body = json.dumps(failure.body) if failure.body else ""
    samples = []
    for number in range(3):
        message_id = f"m-{failure.size}-{number}"
        samples.append(a_sample(message_id=message_id, sent_at=first, body=body))

    return a_group(
        group_id=f"g-{chance.randrange(16**10):010x}",
        title=failure.title,
        count=failure.size,
        first_parked_at=first,
        last_parked_at=last,
        arrivals=tuple(arrivals[place] for place in range(BUCKETS)),
        trend=failure.trend,
        reasons={failure.reason: failure.size},
        sources={failure.source: failure.size},
        differences=failure.differences,
        samples=tuple(samples),
    )


def _around(at: float, width: float) -> Curve:
    return lambda t: math.exp(-(((t - at) / width) ** 2)) + 0.002


_PAYMENT = {"provider": "worldcard", "amount": 59.9, "currency": "EUR", "attempt": 1}
_ORDER = {
    "type": "OrderPlaced",
    "customer": {"id": "***", "region": "us-east-1", "email": "***"},
    "payment": _PAYMENT,
    "lines": [{"sku": "TEA-114", "quantity": 2}, {"sku": "CUP-020", "quantity": 1}],
}

_FAILURES = (
    Failure(
        title="shop.payments.GatewayTimeout: no answer from '<text>' within <n>",
        size=7_480,
        curve=lambda t: (t - 0.56) / 0.44 if t > 0.56 else 0.0,
        trend="rising",
        differences=(
            a_difference(
                "body.payment.provider",
                "cartebleue",
                0.994,
                0.031,
                4.71,
                condition="get_json_object(body, '$.payment.provider') = 'cartebleue'",
                synonyms=(
                    Synonym("body.payment.acquirer", "CB-2"),
                    Synonym("body.payment.endpoint.host", "gw2.cartebleue.example"),
                ),
            ),
            a_difference("body.customer.region", "eu-west-3", 0.912, 0.118, 2.12),
            a_difference("attribute.tenant", "northwind", 0.41, 0.29, 0.16),
        ),
        body={
            **_ORDER,
            "customer": {"id": "***", "region": "eu-west-3", "email": "***"},
            "payment": {**_PAYMENT, "provider": "cartebleue"},
        },
    ),
    Failure(
        title="pydantic.ValidationError: coupon.kind: '<text>' is not one of '<text>', '<text>'",
        size=2_310,
        curve=lambda t: 1.0 if t > 0.31 else 0.0,
        trend="steady",
        reason="non_retryable",
        differences=(
            a_difference(
                "body.coupon.kind",
                "bundle",
                1.0,
                0.0,
                5.9,
                condition="get_json_object(body, '$.coupon.kind') = 'bundle'",
            ),
        ),
        body={**_ORDER, "coupon": {"code": "SPRING", "kind": "bundle", "percent": None}},
    ),
    Failure(
        title="KeyError: 'email'",
        size=1_145,
        curve=_around(0.42, 0.06),
        trend="ended",
        differences=(a_difference("body.customer.email", "(missing)", 1.0, 0.002, 6.3),),
        body={**_ORDER, "customer": {"id": "***", "region": "us-east-1"}},
    ),
    Failure(
        title="attempts_exhausted: JSON type=StockMoved {from:string, n:number, sku:string, "
        "to:string, type:string}",
        size=402,
        curve=lambda t: 1.1 - t,
        trend="falling",
        body={"type": "StockMoved", "sku": "TEA-114", "from": "LYS", "to": "FRA", "n": 40},
    ),
    Failure(
        title="foreign_source: JSON type=RefundRequested {amount:number, order:string, "
        "reason:string, type:string}",
        size=268,
        curve=lambda t: 1.0 if t > 0.7 else 0.1,
        trend="rising",
        reason="foreign_source",
        source=SOURCE.replace("orders", "refunds"),
        differences=(a_difference("body.type", "RefundRequested", 1.0, 0.0, 7.02),),
        body={"type": "RefundRequested", "amount": 12.0, "reason": "damaged"},
    ),
    Failure(
        title="decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]",
        size=51,
        curve=_around(0.64, 0.02),
        trend="ended",
        differences=(a_difference("body.payment.amount", "12,50", 0.53, 0.0, 3.3),),
        body={**_ORDER, "payment": {"provider": "worldcard", "amount": "12,50"}},
    ),
    Failure(
        title="attempts_exhausted: empty body",
        size=17,
        curve=lambda t: 1.0 if 0.15 < t < 0.9 else 0.0,
        trend="",
        body=None,
    ),
)
