import json

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.wire.context import CONTEXT_MAX_BYTES, ReplayContext
from dlq_replay.wire.message import Message
from tests.property.strategies import contexts, messages
from tests.support.builders import lambda_record, received


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
    assert read._replace(error=None) == context._replace(error=None)


@given(st.text())
def test_any_text_is_a_context_or_a_value_error(text: str) -> None:
    try:
        ReplayContext.from_json(text)
    except ValueError:
        return
    assert json.loads(text)["v"] == 1
