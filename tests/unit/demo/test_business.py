import json
import random

import pytest

from demo.business import Business, OwnMessages, Payments, Shop
from demo.environment import MAIN_MAX_RECEIVE_COUNT
from demo.identity import Content
from demo.workload import NEW_VERSION, DemoMessage, Trait, invent
from tests.unit.demo.records import BROKEN, PAYMENT, PLAIN

OTHER = DemoMessage.of(9_999, Content("payment"), Trait.NEEDS_PAYMENTS)


class Environment:
    """Payments, and what the viewer was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.payments = Payments(self.told.append)

    def end_outage(self) -> None:
        for _ in range(MAIN_MAX_RECEIVE_COUNT):
            with pytest.raises(TimeoutError):
                self.payments.capture(OTHER)
        self.payments.capture(OTHER)


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


def test_payments_recover_by_themselves_once_a_message_was_replayed() -> None:
    environment = Environment()

    for _ in range(MAIN_MAX_RECEIVE_COUNT):
        with pytest.raises(TimeoutError, match=r"^payments did not answer in 2\d\d\d ms$"):
            environment.payments.capture(PAYMENT)
    environment.payments.capture(PAYMENT)

    assert environment.told == [
        *["payments is down: every message that needs it fails"] * MAIN_MAX_RECEIVE_COUNT,
        "payments is back",
    ]


def test_shop_fails_on_exactly_the_invented_messages_that_meet_a_fault() -> None:
    environment = Environment()
    shop, messages = Shop(environment.payments), invent(200, random.Random(1))

    down = faults(shop, messages)
    assert down.keys() == {m.number for m in messages if m.trait is not Trait.PLAIN}

    environment.end_outage()
    left = faults(shop, messages)
    assert left.keys() == {m.number for m in messages if m.trait is Trait.BROKEN}
    assert {type(error) for error in left.values()} == {
        LookupError,
        RuntimeError,
        TimeoutError,
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
            r"payments did not answer in \d+ ms",
        ),
    ],
)
def test_shop_says_what_it_met(message: DemoMessage, reason: str) -> None:
    environment = Environment()
    environment.end_outage()
    shop = Shop(environment.payments)

    with pytest.raises((LookupError, RuntimeError, ValueError, TimeoutError), match=reason):
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
