import json
import random

import pytest

from demo.business import OUTAGE_SECONDS, Business, OwnMessages, Payments, Shop
from demo.identity import Content
from demo.workload import DemoMessage, Trait, invent
from tests.unit.demo.records import BROKEN, PAYMENT, PLAIN


class World:
    """Payments on a clock of the test's own."""

    def __init__(self) -> None:
        self.now_seconds = 100.0
        self.told: list[str] = []
        self.payments = Payments(self.told.append, lambda: self.now_seconds)

    def end_outage(self) -> None:
        with pytest.raises(TimeoutError):
            self.payments.capture()
        self.now_seconds += OUTAGE_SECONDS


def faults(business: Business, messages: list[DemoMessage]) -> dict[int, Exception]:
    """What stood in the way of each message, by number."""
    found = {}
    for message in messages:
        try:
            business.process(message)
        except Exception as error:  # noqa: BLE001 - whatever stands in the way
            found[message.number] = error
    return found


def shop_event(**fields: object) -> DemoMessage:
    return DemoMessage.of(1, Content(json.dumps(fields)))


def test_payments_recover_by_themselves() -> None:
    world = World()

    with pytest.raises(TimeoutError, match=r"^payments did not answer in 2\d\d\d ms$"):
        world.payments.capture()
    world.now_seconds += OUTAGE_SECONDS
    world.payments.capture()

    assert world.told == [
        "payments is down: every message that needs it fails",
        "payments is back",
    ]


def test_shop_fails_on_exactly_the_invented_messages_that_meet_a_fault() -> None:
    world = World()
    shop, messages = Shop(world.payments), invent(200, random.Random(1))

    down = faults(shop, messages)
    assert down.keys() == {m.number for m in messages if m.trait is not Trait.PLAIN}

    world.now_seconds += OUTAGE_SECONDS
    left = faults(shop, messages)
    assert left.keys() == {m.number for m in messages if m.trait is Trait.BROKEN}
    assert {type(error) for error in left.values()} == {LookupError, ValueError, TimeoutError}

    assert shop.fix()
    assert faults(shop, messages) == {}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            shop_event(type="order.placed", customer={"country": "HR"}, total_cents=1),
            "no VAT rate for HR",
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
    world = World()
    world.end_outage()
    shop = Shop(world.payments)

    with pytest.raises((LookupError, ValueError, TimeoutError), match=reason):
        shop.process(message)
    shop.fix()
    shop.process(message)


def test_own_messages_meet_the_faults_that_were_drawn_for_them() -> None:
    world = World()
    own = OwnMessages(world.payments)
    drawn = [PLAIN, PAYMENT, BROKEN]

    assert faults(own, drawn).keys() == {PAYMENT.number, BROKEN.number}
    world.now_seconds += OUTAGE_SECONDS
    assert faults(own, drawn).keys() == {BROKEN.number}
    own.fix()
    assert faults(own, drawn) == {}


def test_payloads_of_one_kind_meet_the_same_bug() -> None:
    own = OwnMessages(World().payments)
    kinds = [
        [DemoMessage.of(n, Content(json.dumps({kind: n})), Trait.BROKEN) for n in range(1, 6)]
        for kind in ("one", "two", "three", "four", "five", "six")
    ]

    met = [{type(error) for error in faults(own, kind).values()} for kind in kinds]

    assert all(len(types) == 1 for types in met)
    assert set().union(*met) == {LookupError, ValueError}
