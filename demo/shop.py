"""A shop: its events, which are the generated messages, and its work, which fails on purpose.

The consumer's own code is the product's example. The work for the user's messages has no meaning:
which of them fail is selected.
"""

import hashlib
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

from demo.messages import DemoMessage, Trait
from demo.world import MAX_ATTEMPTS

_Make = Callable[[random.Random], dict[str, Any]]

BROKEN_SHARE = 0.36
"""Large enough for the analysis to compare messages, and for four steps of a ramp, not five."""

FIFO_BROKEN_SHARE = 0.08
"""Smaller, because a message that fails blocks its message group."""

_PAYMENTS_SHARE = 0.4

_LIMITED_SECONDS = 4

NEW_VERSION = "7.2.0"
"""Of the shop's app: the tax service refuses its orders, and the error does not say why."""

_CURRENCIES = {"DE": "EUR", "FR": "EUR", "GB": "GBP", "NL": "EUR", "PL": "PLN", "SE": "SEK"}
"""Of the countries that have a VAT rate: Croatia is missing."""

_ITEMS = ("kettle", "desk lamp", "rain jacket", "chess set", "garden hose", "notebook", "teapot")


def broken_count(count: int, share: float = BROKEN_SHARE) -> int:
    """Return how many of *count* messages have a bug: the share, but at least a few."""
    return min(count, max(4, round(count * share)))


def invent(count: int, seed: int, share: float = BROKEN_SHARE) -> list[DemoMessage]:
    """Generate *count* events, of which a *share* has a bug; the same ones for the same *seed*."""
    rng = random.Random(seed)
    # Bugs alternate, so that even a few messages have all of them.
    broken_numbers = rng.sample(range(1, count + 1), broken_count(count, share))
    makers = dict(zip(broken_numbers, cycle(_WITH_BUG)))
    return [_invent(number, makers.get(number), rng, share) for number in range(1, count + 1)]


def _invent(number: int, with_bug: _Make | None, rng: random.Random, share: float) -> DemoMessage:
    if with_bug:
        event = with_bug(rng)
    elif rng.random() < _PAYMENTS_SHARE / (1 - share):
        event = _payment(rng)
    else:
        make: _Make = rng.choice((_order, _shipment))
        event = make(rng)

    attributes: dict[str, tuple[str, str | bytes]] = {
        "event-type": ("String", event["type"]),
        "schema-version": ("Number", "2"),
        "signature": ("Binary.hmac", rng.randbytes(16)),
    }
    body = json.dumps({"event_id": f"ev-{rng.randrange(16**8):08x}", **event}, ensure_ascii=False)
    trait = Trait.BROKEN if with_bug else Trait.PLAIN
    return DemoMessage.of(number, body, attributes, trait)


def _order(rng: random.Random) -> dict[str, Any]:
    country = rng.choice(list(_CURRENCIES))

    lines = []
    total_cents = 0
    for name in rng.sample(_ITEMS, rng.randint(1, 3)):
        quantity = rng.randint(1, 3)
        price_cents = rng.randrange(299, 9999)
        lines.append({"item": name, "quantity": quantity, "price_cents": price_cents})
        total_cents += quantity * price_cents

    return {
        "type": "order.placed",
        "order_id": rng.randrange(100_000, 999_999),
        "customer": {"id": rng.randrange(1_000, 9_999), "country": country},
        "client": {
            "app": rng.choice(("android", "ios", "web")),
            "version": rng.choice(("7.0.4", "7.1.0", "7.1.2")),
        },
        "currency": _CURRENCIES[country],
        "lines": lines,
        "total_cents": total_cents,
    }


def _payment(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "payment.captured",
        "payment_id": f"pay-{rng.randrange(16**6):06x}",
        "order_id": rng.randrange(100_000, 999_999),
        "amount_cents": rng.randrange(500, 40_000),
        "method": rng.choice(("card", "transfer")),
    }


def _shipment(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "shipment.ready",
        "order_id": rng.randrange(100_000, 999_999),
        "carrier": rng.choice(("northline", "parcelo", "blue van")),
        "weight_grams": rng.randrange(120, 9_000),
        "note": rng.choice(("", "leave at the door", "Vorsicht, zerbrechlich", "à l'étage")),
    }


def _changed(rng: random.Random, make: _Make, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    event = make(rng)
    for name, change in changes.items():
        event[name] = event[name] | change if isinstance(change, dict) else change
    return event


_new_app = partial(_changed, make=_order, client={"version": NEW_VERSION})
_croatia = partial(_changed, make=_order, customer={"country": "HR"})
_with_unit = partial(_changed, make=_shipment, weight_grams="850 g")
_invoice = partial(_changed, make=_payment, method="invoice")
_WITH_BUG: tuple[_Make, ...] = (
    _new_app,
    _croatia,
    _with_unit,
    _invoice,
    _new_app,
    _croatia,
    _new_app,
    _croatia,
    _new_app,
    _new_app,
    _croatia,
    _new_app,
)
"""Used in turn. Orders fail for two reasons, so that the analysis can compare orders."""


def select_failures(
    messages: Sequence[DemoMessage], share: float = BROKEN_SHARE
) -> list[DemoMessage]:
    """Give the user's messages their planned failures: the same ones in every run.

    Messages whose bodies begin alike have a bug together, because a real bug hits a kind.
    """
    ranked = sorted(messages, key=lambda message: message.content.body)
    count = broken_count(len(messages), share)
    broken_numbers = {message.number for message in ranked[:count]}

    selected = []
    for message in messages:
        trait = Trait.BROKEN if message.number in broken_numbers else Trait.PLAIN
        selected.append(replace(message, trait=trait))
    return selected


def in_groups(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """Give each message its group: the same one in every run, independent of its position.

    About seven messages are a group, and 3 to 20 groups. Only a quarter of the groups has messages
    with a bug: such a message blocks its group, and the other groups show that they continue.
    """
    group_count = min(20, max(3, len(messages) // 7))
    broken_group_count = max(1, group_count // 4)

    grouped = []
    for message in messages:
        body = message.content.body.encode(errors="surrogatepass")
        digest = int.from_bytes(hashlib.sha256(body).digest())
        is_broken = message.trait is Trait.BROKEN
        number = digest % (broken_group_count if is_broken else group_count) + 1
        grouped.append(replace(message, group=f"customer-{number:02d}"))
    return grouped


class Shop:
    """The work of one run, and its database, which is down at first.

    The database is down until the circuit breaker has held messages for a moment, on a machine of
    any speed. With few messages there is no limit: then it is down until a message arrives whose
    last replay it is, so that the outage parks none.
    """

    def __init__(self, notify: Callable[[str], object], *, is_own: bool) -> None:
        self._notify = notify
        self._is_own = is_own
        self._is_fixed = False
        self._is_up_from = math.inf
        self._slowness = random.Random(1)

    def process(self, message: DemoMessage, replay_count: int) -> None:
        """Process a copy of a message, or raise the reason why that is impossible."""
        self._ask_database(replay_count)
        if self._is_own:
            if message.trait is Trait.BROKEN and not self._is_fixed:
                raise LookupError(f"no rule for what message {message.number} holds")
            return

        event: dict[str, Any] = json.loads(message.content.body)
        match event["type"]:
            case "order.placed":
                self._bill(event["client"]["version"], event["customer"]["country"])
            case "payment.captured" if event["method"] == "invoice" and not self._is_fixed:
                raise ConnectionError("payments answered 501 to an invoice")
            case "shipment.ready":
                weight = str(event["weight_grams"])
                int(weight.removesuffix(" g") if self._is_fixed else weight)

    def end_outage_soon(self) -> None:
        """Let the database come back, when the viewer has seen what a limit does."""
        self._is_up_from = min(self._is_up_from, time.monotonic() + _LIMITED_SECONDS)

    def fix(self) -> str:
        """Fix every bug and end the outage; return what was fixed."""
        self._is_fixed = True
        self._is_up_from = 0
        if self._is_own:
            return "the bugs in the consumer are fixed"
        return (
            f"the tax service takes orders of app {NEW_VERSION}, Croatia has a VAT rate, weights "
            "may name their unit, payments takes invoices"
        )

    def _ask_database(self, replay_count: int) -> None:
        if replay_count >= MAX_ATTEMPTS:
            self._is_up_from = 0
        if time.monotonic() < self._is_up_from:
            self._notify("the database is down: every message fails")
            slowness_ms = self._slowness.randint(2000, 2400)
            raise TimeoutError(f"the database did not answer in {slowness_ms} ms")
        self._notify("the database is back")

    def _bill(self, version: str, country: str) -> None:
        if self._is_fixed:
            return
        if version == NEW_VERSION:
            raise RuntimeError("the tax service answered 422")
        if country not in _CURRENCIES:
            raise LookupError(f"no VAT rate for {country}")
