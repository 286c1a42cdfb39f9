"""The messages of a run, each with number, identity and planned failure.

Generated messages are events of a shop; the user's own come from a file. On FIFO queues each has a
message group.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, islice
from typing import Any

from demo import InputError
from demo.arguments import DEFAULT_MESSAGES, Options
from demo.identity import DEMO_ID, OWN_ATTRIBUTES_FOR_DEMO_ID, Attribute, Content
from demo.input_file import MAX_MESSAGE_BYTES, LineFault, parse_lines

BROKEN_SHARE = 0.4
"""Large enough for the analysis to compare messages."""

FIFO_BROKEN_SHARE = 0.08
"""Smaller, because a message that fails blocks its message group."""

MIN_BROKEN = 4
PAYMENTS_SHARE = 0.4
"""Large enough to open the circuit breaker, which no bug alone does: see ``breakers``."""

_COUNTRIES = {"DE": "EUR", "FR": "EUR", "GB": "GBP", "NL": "EUR", "PL": "PLN", "SE": "SEK"}
_ITEMS = ("kettle", "desk lamp", "rain jacket", "chess set", "garden hose", "notebook", "teapot")
_APPS = ("android", "ios", "web")
_VERSIONS = ("7.0.4", "7.1.0", "7.1.2")
NEW_VERSION = "7.2.0"
"""Of the shop's app: the tax service refuses its orders, and the error does not say why."""

_CARRIERS = ("northline", "parcelo", "blue van")

_Invent = Callable[[random.Random], dict[str, Any]]

MAX_GROUPS = 20
MIN_GROUPS = 3
_MESSAGES_PER_GROUP = 7
_SHARE_WITH_BUG = 4
_FAULTS_SHOWN = 20


class Trait(StrEnum):
    """The planned failure of a message."""

    PLAIN = "needs nothing"
    NEEDS_PAYMENTS = "needs payments"
    BROKEN = "meets a bug"


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """One message to send.

    Attributes:
        number: shown to the user, counted from 1; for a file its line.
        identity: unique within the run.
        group: its message group; None for standard queues.
    """

    number: int
    content: Content
    trait: Trait
    identity: str
    group: str | None = None

    @classmethod
    def of(cls, number: int, content: Content, trait: Trait = Trait.PLAIN) -> "DemoMessage":
        """Add ``demo-id`` to *content* if there is room, so that equal messages differ."""
        marked = replace(
            content,
            attributes={**content.attributes, DEMO_ID: Attribute("String", f"m{number:05d}")},
        )
        has_slots = content.own_attribute_count <= OWN_ATTRIBUTES_FOR_DEMO_ID
        if has_slots and marked.size_bytes <= MAX_MESSAGE_BYTES:
            content = marked
        return cls(number, content, trait, content.identity)


def broken_count(count: int, share: float = BROKEN_SHARE) -> int:
    """Return how many of *count* messages have a bug: the share, but at least a few."""
    return min(count, max(MIN_BROKEN, round(count * share)))


def invent(count: int, rng: random.Random, share: float = BROKEN_SHARE) -> list[DemoMessage]:
    """Generate events of a shop; the same state of *rng* generates the same events.

    Args:
        count: the number of events.
        rng: source of randomness.
        share: the share of events with a bug, 0 to 1.
    """
    # Bugs alternate, so that even a few messages have all of them.
    numbers = rng.sample(range(1, count + 1), broken_count(count, share))
    broken = dict(zip(numbers, cycle(_WITH_BUG)))
    payments_share = PAYMENTS_SHARE / (1 - share)
    return [
        _invent_one(number, broken.get(number), payments_share, rng)
        for number in range(1, count + 1)
    ]


def from_input(
    messages: Sequence[tuple[int, Content]], share: float = BROKEN_SHARE
) -> tuple[list[DemoMessage], list[LineFault]]:
    """Convert the messages of a file; the planned failures are the same in every run.

    Returns:
        The messages, and faults for those that are equal to an earlier one.
    """
    distinct, faults = _distinct(DemoMessage.of(line, content) for line, content in messages)
    broken = _broken(distinct, broken_count(len(distinct), share))
    others = [m for m in sorted(distinct, key=_rank) if m.identity not in broken]
    needing = {m.identity for m in others[: round(len(distinct) * PAYMENTS_SHARE)]}
    traits = dict.fromkeys(needing, Trait.NEEDS_PAYMENTS) | dict.fromkeys(broken, Trait.BROKEN)
    return [replace(m, trait=traits.get(m.identity, Trait.PLAIN)) for m in distinct], faults


def _broken(messages: Sequence[DemoMessage], wanted: int) -> set[str]:
    """Select complete kinds of payload if they fit, largest first: a real bug hits a kind."""
    kinds: dict[str, list[str]] = {}
    for message in sorted(messages, key=_rank):
        kinds.setdefault(kind_of(message.content.body), []).append(message.identity)
    broken = set[str]()
    for identities in sorted(kinds.values(), key=len, reverse=True):
        if len(broken) + len(identities) <= wanted:
            broken.update(identities)
    rest = (m.identity for m in sorted(messages, key=_rank) if m.identity not in broken)
    return broken.union(islice(rest, wanted - len(broken)))


def _rank(message: DemoMessage) -> bytes:
    """Return a sort key that is stable and independent of the order in the file."""
    return hashlib.sha256(message.identity.encode()).digest()


def kind_of(body: str) -> str:
    """Return the kind of a payload: its top-level names, and its type and action."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        return "text"
    if not isinstance(raw, dict):
        return type(raw).__name__
    return " ".join([*sorted(raw), *(str(raw.get(name)) for name in ("type", "action"))])


def _distinct(messages: Iterable[DemoMessage]) -> tuple[list[DemoMessage], list[LineFault]]:
    known: dict[str, DemoMessage] = {}
    faults: list[LineFault] = []
    for message in messages:
        first = known.setdefault(message.identity, message)
        if first is not message:
            rule = f"equals line {first.number}, without room for an attribute that makes it differ"
            faults.append(LineFault(message.number, rule))
    return list(known.values()), faults


def _invent_one(
    number: int, with_bug: _Invent | None, payments_share: float, rng: random.Random
) -> DemoMessage:
    if with_bug:
        event, trait = with_bug(rng), Trait.BROKEN
    elif rng.random() < payments_share:
        event, trait = _payment(rng), Trait.NEEDS_PAYMENTS
    else:
        event, trait = rng.choice((_order, _shipment))(rng), Trait.PLAIN
    attributes = {
        "event-type": Attribute("String", event["type"]),
        "schema-version": Attribute("Number", "2"),
        "signature": Attribute("Binary.hmac", rng.randbytes(16)),
    }
    body = json.dumps({"event_id": f"ev-{rng.randrange(16**8):08x}", **event}, ensure_ascii=False)
    return DemoMessage.of(number, Content(body, attributes), trait)


def _order(rng: random.Random) -> dict[str, Any]:
    country = rng.choice(list(_COUNTRIES))
    lines = list(_lines(rng))
    return {
        "type": "order.placed",
        "order_id": rng.randrange(100_000, 999_999),
        "customer": {"id": rng.randrange(1_000, 9_999), "country": country},
        "client": {"app": rng.choice(_APPS), "version": rng.choice(_VERSIONS)},
        "currency": _COUNTRIES[country],
        "lines": lines,
        "total_cents": sum(line["quantity"] * line["price_cents"] for line in lines),
    }


def _lines(rng: random.Random) -> Iterator[dict[str, Any]]:
    for item in rng.sample(_ITEMS, rng.randint(1, 3)):
        yield {"item": item, "quantity": rng.randint(1, 3), "price_cents": rng.randrange(299, 9999)}


def _order_of_new_app(rng: random.Random) -> dict[str, Any]:
    order = _order(rng)
    return {**order, "client": {**order["client"], "version": NEW_VERSION}}


def _order_with_bug(rng: random.Random) -> dict[str, Any]:
    """An order from Croatia, which is missing in the table of VAT rates."""
    order = _order(rng)
    return {**order, "customer": {**order["customer"], "country": "HR"}, "currency": "EUR"}


def _payment(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "payment.captured",
        "payment_id": f"pay-{rng.randrange(16**6):06x}",
        "order_id": rng.randrange(100_000, 999_999),
        "amount_cents": rng.randrange(500, 40_000),
        "method": rng.choice(("card", "transfer")),
    }


def _payment_with_bug(rng: random.Random) -> dict[str, Any]:
    """An invoice; the payments service does not take invoices."""
    return {**_payment(rng), "method": "invoice"}


def _shipment(rng: random.Random) -> dict[str, Any]:
    return {
        "type": "shipment.ready",
        "order_id": rng.randrange(100_000, 999_999),
        "carrier": rng.choice(_CARRIERS),
        "weight_grams": rng.randrange(120, 9_000),
        "note": rng.choice(("", "leave at the door", "Vorsicht, zerbrechlich", "à l'étage")),
    }


def _shipment_with_bug(rng: random.Random) -> dict[str, Any]:
    """A weight as text with a unit; the consumer expects a number."""
    shipment = _shipment(rng)
    return {**shipment, "carrier": "blue van", "weight_grams": f"{shipment['weight_grams']} g"}


_WITH_BUG = (
    *(_order_of_new_app, _order_with_bug, _shipment_with_bug, _payment_with_bug),
    *(_order_of_new_app, _order_with_bug, _order_of_new_app, _order_with_bug),
    *(_order_of_new_app, _order_of_new_app, _order_with_bug, _order_of_new_app),
)
"""Used in turn. Orders fail for two reasons, so that the analysis can compare orders."""


def in_groups(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """Give each message its group: the same one in every run, independent of its position.

    Only a quarter of the groups has messages with a bug: such a message blocks its group, and the
    other groups show that they continue.
    """
    count = min(MAX_GROUPS, max(MIN_GROUPS, len(messages) // _MESSAGES_PER_GROUP))
    return [replace(m, group=f"customer-{_number(m, count):02d}") for m in messages]


def _number(message: DemoMessage, count: int) -> int:
    """Return the number of the group, from 1."""
    rank = int.from_bytes(hashlib.sha256(f"group of {message.identity}".encode()).digest())
    reach = max(1, count // _SHARE_WITH_BUG) if message.trait is Trait.BROKEN else count
    return rank % reach + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """The messages to send, and remarks about lines that are left out."""

    messages: list[DemoMessage]
    remarks: list[str]


def load(options: Options) -> Loaded:
    """Generate or read the messages; for FIFO queues with their groups.

    Raises:
        InputError: the file cannot be read, or has no message.
    """
    loaded = _load(options)
    return replace(loaded, messages=in_groups(loaded.messages)) if options.is_fifo else loaded


def _load(options: Options) -> Loaded:
    share = FIFO_BROKEN_SHARE if options.is_fifo else BROKEN_SHARE
    if options.input_path is None:
        count = options.messages or DEFAULT_MESSAGES
        return Loaded(invent(count, random.Random(options.seed), share), [])
    try:
        lines = options.input_path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{options.input_path} cannot be read: {error.strerror}.") from None
    parsed = parse_lines(lines)
    taken = parsed.messages[: options.message_limit]
    messages, repeats = from_input(taken, share)
    remarks = _remarks([*parsed.faults, *repeats])
    if not messages:
        raise InputError("\n".join([*remarks, f"{options.input_path} holds no message to send."]))
    if len(taken) < len(parsed.messages):
        remarks.append(f"the first {len(taken)} of {len(parsed.messages)} messages are taken")
    return Loaded(messages, remarks)


def _remarks(faults: list[LineFault]) -> list[str]:
    ordered = sorted(faults, key=lambda fault: fault.line)
    remarks = [f"line {fault.line} is left out: {fault.rule}" for fault in ordered[:_FAULTS_SHOWN]]
    if len(faults) > _FAULTS_SHOWN:
        remarks.append(f"{len(faults) - _FAULTS_SHOWN} more lines are left out")
    return remarks
