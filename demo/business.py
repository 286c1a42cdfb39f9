"""The work of the consumer, and the services that it uses, which fail on purpose.

The consumer's own code is the product's example.
"""

import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from demo.environment import MAX_ATTEMPTS
from demo.workload import NEW_VERSION, DemoMessage, Trait, kind_of

_SLOWNESS_MS = (2000, 2400)

FIXED = "DEMO_FIXED"
"""The variable with the bugs that ``app`` has fixed."""


class Business(Protocol):
    """The work of one run."""

    def process(self, message: DemoMessage, replay_count: int = 0) -> None:
        """Process one message, or raise the reason why that is impossible.

        *replay_count* is that of the copy.
        """

    def fix(self) -> str:
        """Fix everything that does not recover by itself; return what was fixed."""


@dataclass
class Payments:
    """A service that is down at first and recovers by itself; invoices fail until they are fixed.

    It is down until a probe of the circuit breaker has come back. So the breaker opens, holds
    messages and probes on a machine of any speed. With few messages the breaker does not open: then
    payments is down until a message arrives whose last replay it is, so that the outage parks none.

    Attributes:
        notify: shows an event to the user.
    """

    notify: Callable[[str], object]
    are_invoices_fixed: bool = False
    _is_up: bool = field(default=False, init=False)
    _slowness: random.Random = field(default_factory=lambda: random.Random(1), init=False)

    def capture(self, replay_count: int, method: str = "card") -> None:
        """Capture a payment for a copy of a message.

        Raises:
            TimeoutError: the service did not answer.
        """
        self._is_up = self._is_up or replay_count >= MAX_ATTEMPTS
        if not self._is_up:
            self.notify("payments is down: every message that needs it fails")
            self._time_out()
        if method == "invoice" and not self.are_invoices_fixed:
            # An error type of its own: as a probe it would hold up the messages that may go back.
            raise ConnectionError("payments answered 501 to an invoice")
        self.notify("payments is back")

    def note_probe_return(self, error_type: str) -> None:
        """End the outage if the probe was one for it. Invoices still fail."""
        self._is_up = self._is_up or error_type == TimeoutError.__name__

    def fix(self) -> None:
        """End every outage."""
        self._is_up = self.are_invoices_fixed = True

    def _time_out(self) -> None:
        raise TimeoutError(f"payments did not answer in {self._slowness.randint(*_SLOWNESS_MS)} ms")


class Bug(StrEnum):
    """A bug of the shop."""

    VAT = "vat"
    UNITS = "units"
    NEW_APP = "new_app"
    INVOICES = "invoices"


class Shop:
    """The work for the generated events."""

    def __init__(self, payments: Payments) -> None:
        self._payments = payments
        self._vat_percent = {"DE": 19, "FR": 20, "GB": 20, "NL": 21, "PL": 23, "SE": 25}
        self._knows_units = False
        self._accepts_new_app = False

    def process(self, message: DemoMessage, replay_count: int = 0) -> None:
        """Bill an order, capture a payment or read the weight of a shipment."""
        event: dict[str, Any] = json.loads(message.content.body)
        match event["type"]:
            case "order.placed":
                self._tax(event["client"]["version"])
                self._bill(event["customer"]["country"], event["total_cents"])
            case "payment.captured":
                self._payments.capture(replay_count, event["method"])
            case "shipment.ready":
                self._weigh(event["weight_grams"])

    def fix_bug(self, bug: Bug) -> None:
        """Fix one bug."""
        match bug:
            case Bug.VAT:
                self._vat_percent["HR"] = 25
            case Bug.UNITS:
                self._knows_units = True
            case Bug.NEW_APP:
                self._accepts_new_app = True
            case Bug.INVOICES:
                self._payments.are_invoices_fixed = True

    def fix(self) -> str:
        """Fix every bug."""
        for bug in Bug:
            self.fix_bug(bug)
        self._payments.fix()
        return (
            f"the tax service takes orders of app {NEW_VERSION}, Croatia has a VAT rate, weights "
            "may name their unit, payments takes invoices"
        )

    def _tax(self, version: str) -> None:
        if version == NEW_VERSION and not self._accepts_new_app:
            raise RuntimeError("the tax service answered 422")

    def _bill(self, country: str, cents: int) -> int:
        percent = self._vat_percent.get(country)
        if percent is None:
            raise LookupError(f"no VAT rate for {country}")
        return cents * (100 + percent) // 100

    def _weigh(self, weight: int | str) -> int:
        return int(str(weight).removesuffix(" g")) if self._knows_units else int(weight)


class OwnMessages:
    """The work for the user's messages: their meaning is unknown, so failures are selected."""

    def __init__(self, payments: Payments) -> None:
        self._payments = payments
        self._is_fixed = False

    def process(self, message: DemoMessage, replay_count: int = 0) -> None:
        """Raise the message's failure, if any. Payloads of one kind have the same bug."""
        if message.trait is Trait.NEEDS_PAYMENTS:
            self._payments.capture(replay_count)
        if message.trait is Trait.BROKEN and not self._is_fixed:
            if zlib.crc32(kind_of(message.content.body).encode("utf-8", "replace")) % 2:
                raise LookupError(f"no rule for what message {message.number} holds")
            raise ValueError(f"message {message.number} has a field of an unexpected type")

    def fix(self) -> str:
        """Fix every bug."""
        self._is_fixed = True
        self._payments.fix()
        return "the bugs in the consumer are fixed"
