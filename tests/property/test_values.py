import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.backoff import Backoff, reproducible_draw
from dlq_replay.wire.context import CONTEXT_MAX_BYTES, ReplayContext
from dlq_replay.wire.message import Message
from tests.property.strategies import contexts, messages
from tests.support.builders import lambda_record, received

rates = st.floats(0.001, 43_200)
caps = st.integers(0, 1_209_600)


@given(rates, caps, st.integers(1, 10**6), st.uuids().map(str))
def test_delay_is_within_its_window_at_any_count(
    rate: float, cap: int, number: int, message_id: str
) -> None:
    ceiling = Backoff(rate, cap).ceiling_seconds(number)
    delay = reproducible_draw(message_id, number)(ceiling)

    assert 0 <= delay <= ceiling <= cap


@given(rates, caps, st.integers(1, 2000))
def test_ceiling_never_falls_from_one_replay_to_the_next(
    rate: float, cap: int, number: int
) -> None:
    backoff = Backoff(rate, cap)

    assert backoff.ceiling_seconds(number) <= backoff.ceiling_seconds(number + 1)


@given(messages())
def test_message_survives_the_lambda_event_and_the_receive(message: Message) -> None:
    event = Message.from_received(json.loads(json.dumps(lambda_record(message))))

    assert event == Message.from_received(received(message)) == message


@given(contexts)
def test_context_fits_and_survives_but_for_a_shortened_error(context: ReplayContext) -> None:
    text = context.to_json()
    read = ReplayContext.from_json(text)

    assert text.isascii()
    assert len(text) <= CONTEXT_MAX_BYTES
    assert replace(read, error=None) == replace(context, error=None)


@given(st.text())
def test_any_text_is_a_context_or_a_value_error(text: str) -> None:
    try:
        ReplayContext.from_json(text)
    except ValueError:
        return
    assert json.loads(text)["v"] == 1
