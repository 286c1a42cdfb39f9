import json
import random

import pytest

from demo.business import Business, OwnMessages, Payments, Shop
from demo.environment import MAX_ATTEMPTS
from demo.identity import Content
from demo.workload import NEW_VERSION, DemoMessage, Trait, invent
from tests.unit.demo.records import BROKEN, PAYMENT, PLAIN


class Environment:
    """Payments, and what the viewer was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.payments = Payments(self.told.append)

    def end_outage(self) -> None:
        self.payments.note_probe_return("TimeoutError")


def faults(business: Business, messages: list[DemoMessage]) -> dict[int, Exception]:
    """What stood in the way of each message, by number."""
    found = {}
    for message in messages:
        try:
            business.process(message)
        except Exception as error:  # noqa: BLE001 - whatever stands in the way
            found[message.number] = error
    return found


ORDER: dict[str, object] = {"type": "order.placed", "total_cents": 1}


def shop_event(**fields: object) -> DemoMessage:
    return DemoMessage.of(1, Content(json.dumps(fields)))


def test_payments_recover_once_a_probe_for_them_came_back() -> None:
    environment = Environment()

    for error_type in ("LookupError", "RuntimeError"):
        with pytest.raises(TimeoutError, match=r"^payments did not answer in 2\d\d\d ms$"):
            environment.payments.capture(0)
        environment.payments.note_probe_return(error_type)
    with pytest.raises(TimeoutError):
        environment.payments.capture(0)
    environment.payments.note_probe_return("TimeoutError")
    environment.payments.capture(0)

    assert environment.told == [
        *["payments is down: every message that needs it fails"] * 3,
        "payments is back",
    ]


def test_payments_recover_before_the_outage_parks_a_message() -> None:
    payments = Environment().payments

    for replay_count in range(MAX_ATTEMPTS):
        with pytest.raises(TimeoutError):
            payments.capture(replay_count)
    payments.capture(MAX_ATTEMPTS)
    payments.capture(0)


def test_end_of_the_outage_does_not_fix_invoices() -> None:
    environment = Environment()
    environment.end_outage()

    with pytest.raises(ConnectionError):
        environment.payments.capture(MAX_ATTEMPTS, "invoice")
    environment.payments.fix()
    environment.payments.capture(0, "invoice")


def test_shop_fails_on_exactly_the_invented_messages_that_meet_a_fault() -> None:
    environment = Environment()
    shop, messages = Shop(environment.payments), invent(200, random.Random(1))

    down = faults(shop, messages)
    assert down.keys() == {m.number for m in messages if m.trait is not Trait.PLAIN}

    environment.end_outage()
    left = faults(shop, messages)
    assert left.keys() == {m.number for m in messages if m.trait is Trait.BROKEN}
    assert {type(error) for error in left.values()} == {
        ConnectionError,
        LookupError,
        RuntimeError,
        ValueError,
    }

    assert shop.fix()
    assert faults(shop, messages) == {}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            shop_event(**ORDER, customer={"country": "HR"}, client={"version": "7.1.0"}),
            "no VAT rate for HR",
        ),
        (
            shop_event(**ORDER, customer={"country": "DE"}, client={"version": NEW_VERSION}),
            "the tax service answered 422",
        ),
        (
            shop_event(type="shipment.ready", weight_grams="120 g"),
            r"invalid literal for int\(\) with base 10: '120 g'",
        ),
        (
            shop_event(type="payment.captured", method="invoice"),
            "payments answered 501 to an invoice",
        ),
    ],
)
def test_shop_says_what_it_met(message: DemoMessage, reason: str) -> None:
    environment = Environment()
    environment.end_outage()
    shop = Shop(environment.payments)

    with pytest.raises((ConnectionError, LookupError, RuntimeError, ValueError), match=reason):
        shop.process(message)
    shop.fix()
    shop.process(message)


def test_own_messages_meet_the_faults_that_were_drawn_for_them() -> None:
    environment = Environment()
    own = OwnMessages(environment.payments)
    drawn = [PLAIN, PAYMENT, BROKEN]

    assert faults(own, drawn).keys() == {PAYMENT.number, BROKEN.number}
    environment.end_outage()
    assert faults(own, drawn).keys() == {BROKEN.number}
    own.fix()
    assert faults(own, drawn) == {}


def test_payloads_of_one_kind_meet_the_same_bug() -> None:
    own = OwnMessages(Environment().payments)
    kinds = [
        [DemoMessage.of(n, Content(json.dumps({kind: n})), Trait.BROKEN) for n in range(1, 6)]
        for kind in ("one", "two", "three", "four", "five", "six")
    ]

    met = [{type(error) for error in faults(own, kind).values()} for kind in kinds]

    assert all(len(types) == 1 for types in met)
    assert set().union(*met) == {LookupError, ValueError}
