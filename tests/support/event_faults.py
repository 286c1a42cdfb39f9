"""Invented dead letters of many kinds, some of them struck by a fault that only the test knows.

They are as hard to analyze as real events: a few kinds are most of the traffic, ids are unique,
other fields are skewed noise, and several fields name the same tenant. No error is recorded. Beside
what a fault struck there are dead letters of all kinds that failed for reasons of their own.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

TENANTS = ("acme", "initech", "globex", "umbrella", "hooli")
NOUNS = (
    "order",
    "payment",
    "refund",
    "parcel",
    "return",
    "invoice",
    "coupon",
    "review",
    "customer",
    "subscription",
    "product",
    "stock",
    "ticket",
    "price",
    "supplier",
    "basket",
    "wish",
    "claim",
    "account",
    "address",
    "gift",
    "voucher",
    "rental",
    "repair",
    "store",
    "shelf",
    "truck",
    "driver",
    "route",
    "tax",
    "report",
    "budget",
    "contract",
    "campaign",
    "banner",
    "survey",
)
ACTIONS = ("created", "changed", "closed")

Json = dict[str, Any]


@dataclass(slots=True)
class Delivery:
    """A dead letter.

    Attributes:
        fault: the name of the fault that struck it; empty if it failed for a reason of its own.
    """

    tenant: str
    body: Json
    attributes: dict[str, str]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause.

    Attributes:
        nouns: what the events that it strikes are about.
        change: changes a delivery as the fault does.
        claims: the differences, as ``field = value``, of which any names the cause.
        strikes: whether it strikes a delivery.
    """

    name: str
    nouns: tuple[str, ...]
    change: Callable[[Delivery], object]
    claims: tuple[str, ...]
    strikes: Callable[[Delivery], bool] = lambda _: True


@dataclass(slots=True)
class Traffic:
    """Deliveries as they come in; the seed chooses which kinds are frequent."""

    seed: int
    chance: random.Random = field(init=False)
    _nouns: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._nouns = self.chance.sample(NOUNS, k=len(NOUNS))

    def deliveries(self, nouns: Sequence[str] = NOUNS) -> Iterator[Delivery]:
        """Yield deliveries about *nouns* without end."""
        weights = [1 / (1 + self._nouns.index(noun)) for noun in nouns]
        while True:
            yield self._delivery(self.chance.choices(nouns, weights)[0])

    def struck(self, fault: Fault) -> Iterator[Delivery]:
        """Yield those that *fault* strikes, without end."""
        for delivery in self.deliveries(fault.nouns):
            if fault.strikes(delivery):
                fault.change(delivery)
                delivery.fault = fault.name
                yield delivery

    def _delivery(self, noun: str) -> Delivery:
        chance = self.chance
        tenant = chance.choices(TENANTS, (60, 18, 10, 8, 4))[0]
        person = f"{tenant}-{chance.choice(('ann', 'ben', 'cem', 'dot'))}"
        owner = {"login": tenant, "id": 1000 + TENANTS.index(tenant), "url": f"https://x/{tenant}"}
        sender = {"login": person, "url": f"https://x/{person}", "type": "User", "is_admin": False}

        body = {
            "action": ACTIONS[NOUNS.index(noun) % len(ACTIONS)],
            noun: _content(noun, chance),
            "number": chance.randrange(10**6),
            "shop": {"name": f"{tenant}-shop", "owner": owner, "text": f"The shop of {tenant}"},
            "sender": sender,
            "delivery_id": f"{chance.getrandbits(128):032x}",
            "region": chance.choices(("eu", "us", "ap"), (70, 20, 10))[0],
            "shard": min(int(chance.expovariate(0.7)), 15),
        }

        optional: Json = {
            "organization": {"login": tenant, "id": owner["id"]},
            "installation": {"id": 1900 + TENANTS.index(tenant)},
            "changes": {"from": chance.randrange(40)},
        }
        kind = NOUNS.index(noun)
        body |= {name: part for bit, (name, part) in enumerate(optional.items()) if kind >> bit & 1}

        attributes = {
            "trace": f"{chance.getrandbits(64):016x}",
            "schema": chance.choices(("3", "4"), (70, 30))[0],
            "consumer": f"worker-{chance.randrange(6)}",
        }

        return Delivery(tenant, body, attributes)


_FIELDS: dict[str, Callable[[random.Random], object]] = {
    "token": lambda chance: f"{chance.getrandbits(64):016x}",
    "state": lambda chance: chance.choices(("open", "paid", "closed"), (70, 20, 10))[0],
    "count": lambda chance: chance.randrange(40),
    "cents": lambda chance: int(chance.lognormvariate(8, 2)),
    "is_test": lambda chance: chance.random() < 0.2,
    "language": lambda chance: chance.choice(("de", "en", "fr", None)),
    "placed_at": lambda chance: f"2025-11-{chance.randint(1, 28):02d}T09:15:00Z",
    "labels": lambda chance: [chance.choice(("gift", "bulk"))] * chance.randrange(3),
}


def _content(noun: str, chance: random.Random) -> Json:
    """Return the content of an event. The fields depend on the noun, and their values on chance."""
    own = random.Random(noun)

    def some() -> Json:
        return {name: _FIELDS[name](chance) for name in own.sample(sorted(_FIELDS), k=5)}

    return {f"{noun}_id": chance.getrandbits(40), **some(), "origin": {**some(), "head": some()}}


def dead_letters(
    seed: int, healthy: int, faults: Sequence[Fault] = (), of_each: int = 0
) -> list[Delivery]:
    """Return *healthy* that no fault struck, and *of_each* for each noun of each fault."""
    traffic = Traffic(seed)
    letters = list(islice(traffic.deliveries(), healthy))
    for fault in faults:
        letters += islice(traffic.struck(fault), of_each * len(fault.nouns))
    traffic.chance.shuffle(letters)
    return letters


def _bad_text(delivery: Delivery) -> None:
    """The tenant's data is wrong in a way that differs from message to message."""
    delivery.body["shop"]["text"] = f"\x00{delivery.body['delivery_id']}"


def _is_of_globex(delivery: Delivery) -> bool:
    return delivery.tenant == "globex"


_TENANT = (
    "body.shop.owner.login = globex",
    "body.organization.login = globex",
    "body.shop.name = globex-shop",
    "body.shop.text = The shop of globex",
)

FAULTS = (
    Fault(
        "field missing",
        ("order",),
        lambda event: event.body.pop("number"),
        ("body.number is missing",),
    ),
    Fault(
        "field missing inside",
        ("stock",),
        lambda event: event.body["shop"]["owner"].pop("url"),
        ("body.shop.owner.url is missing",),
    ),
    Fault(
        "new kind",
        ("coupon",),
        lambda event: event.body.update(action="archived"),
        ("body.action = archived",),
    ),
    Fault(
        "new value",
        ("payment",),
        lambda event: event.body["sender"].update(type="Robot"),
        ("body.sender.type = Robot",),
    ),
    Fault(
        "tenant's bad field",
        ("parcel", "return"),
        lambda event: event.body.update(sender="n/a"),
        _TENANT,
        _is_of_globex,
    ),
    Fault("tenant's bad text", ("invoice", "ticket"), _bad_text, _TENANT, _is_of_globex),
    Fault(
        "dependency",
        ("price", "supplier"),
        lambda _: None,
        ("body.region = ap",),
        lambda event: bool(event.body["region"] == "ap"),
    ),
)
