"""Strategies for messages that may arrive: any that SQS would accept, and worse."""

import string
from typing import Any

from hypothesis import strategies as st

from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import (
    CONTEXT_ATTRIBUTE,
    SECONDS_MAX,
    FailureError,
    ReplayContext,
    body_digest,
)
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message
from local_sqs.faults import Effect, Fault
from tests.support.builders import BODY, NOW, message, queue_arn
from tests.support.processes import die

# Alphabets rather than patterns or filters: Hypothesis draws such a text at once, not by character.
_NOT_IN_SQS = "".join({chr(code) for code in range(0x20)} - set("\t\n\r")) + "\ufffe\uffff"
_NAME_CHARACTERS = string.ascii_letters + string.digits + "_-"


texts = st.text()


def fault(effect: Effect, **rule: Any) -> Fault:
    """A call back is a death: before SQS has carried out the request, or before it answers."""
    return Fault(effect, callback=die if effect is Effect.CALL else None, **rule)


def json_of(
    leaves: st.SearchStrategy[Any],
    keys: st.SearchStrategy[str] = texts,
    most: int | None = None,
    max_leaves: int = 100,
) -> st.SearchStrategy[Any]:
    """JSON of these leaves; *most* is the size of a list and of an object."""

    def nested(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inside, max_size=most) | st.dictionaries(keys, inside, max_size=most)

    return st.recursive(leaves, nested, max_leaves=max_leaves)


floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = json_of(st.none() | st.booleans() | st.integers() | floats | texts)

# SQSAPI, SendMessage: the characters that a body or a String value may hold.
sqs_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=_NOT_IN_SQS),
    min_size=1,
    max_size=40,
)
names = st.text(_NAME_CHARACTERS, min_size=1, max_size=20).filter(
    lambda name: not name.startswith("sqs-dlq-")
)
labels = st.sampled_from(["", ".custom", ".int"])
text_attributes = st.builds(
    MessageAttribute,
    st.sampled_from(["String", "Number"]).flatmap(
        lambda kind: labels.map(lambda label: kind + label)
    ),
    sqs_text,
)
binary_attributes = st.builds(
    MessageAttribute, labels.map(lambda label: f"Binary{label}"), st.binary(min_size=1, max_size=40)
)
own_attributes = st.dictionaries(names, text_attributes | binary_attributes, max_size=10)

ascii_words = st.text(
    st.characters(min_codepoint=ord("!"), max_codepoint=ord("~")), min_size=1, max_size=128
)
ids = st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True)
moments = st.integers(0, SECONDS_MAX)
queue_names = st.builds(
    "{}{}".format,
    st.text(_NAME_CHARACTERS, min_size=1, max_size=75),
    st.sampled_from(["", ".fifo"]),
)
contexts = st.builds(
    ReplayContext,
    first_id=st.none() | ids,
    first_seen_seconds=st.none() | moments | st.integers(NOW - 9999, NOW + 9999),
    due_seconds=st.none() | moments | st.integers(NOW - 9999, NOW + 9999),
    reason=st.none() | ascii_words,
    error=st.none()
    | st.builds(
        FailureError,
        ascii_words,
        st.text(max_size=300),
        st.none() | st.sampled_from(["c", "c:1"]),
        st.sampled_from(["", "orders/tax.py#rate"]),
    ),
    plan_id=st.none() | ids,
    source_queue=st.none() | queue_names,
    held_seconds=st.none() | moments | st.integers(NOW - 99_999, NOW + 9999),
    body_digest=st.none() | st.just(body_digest(BODY)) | ascii_words,
    group_id=st.none() | ids,
    is_back=st.booleans(),
    in_step=st.booleans(),
    last_id=st.none() | ids,
)
our_attributes = st.fixed_dictionaries(
    {},
    optional={
        REPLAY_COUNT_ATTRIBUTE: st.builds(
            MessageAttribute, st.just("Number"), st.integers(0, 9).map(str)
        )
        | text_attributes
        | binary_attributes,
        CONTEXT_ATTRIBUTE: st.builds(
            MessageAttribute, st.just("String"), contexts.map(ReplayContext.to_json)
        )
        | text_attributes
        | binary_attributes,
    },
)
system_attributes = st.fixed_dictionaries(
    {},
    optional={
        "MessageGroupId": st.sampled_from(["group-a", "group-b", "group-c"]),
        "DeadLetterQueueSourceArn": st.sampled_from([queue_arn("main"), queue_arn("other"), "?"]),
        "AWSTraceHeader": st.sampled_from(["Root=1-5;Lineage=a:1", "Lineage=a:1", "Root=1-5"]),
        "SentTimestamp": st.integers(0, 2**41).map(str),
    },
)


@st.composite
def messages(draw: st.DrawFn, message_id: str = "m-1") -> Message:
    """Copies, some with the context of another body."""
    ours = draw(our_attributes)
    own = dict(list(draw(own_attributes).items())[: 10 - len(ours)])
    body = f"{message_id} {draw(sqs_text)}"
    return message(message_id, body, {**own, **ours}, **draw(system_attributes))


@st.composite
def batches(draw: st.DrawFn) -> list[Message]:
    """Copies with distinct bodies."""
    return [draw(messages(f"m-{index}")) for index in range(draw(st.integers(0, 12)))]


def faults_of(receive: str, batch: str) -> st.SearchStrategy[Fault]:
    """Draw what goes wrong in calls that receive and in calls of a *batch*, by their operations."""
    operations = st.sampled_from([receive, batch])
    effects = st.sampled_from([Effect.LOSE, Effect.CLOSE, Effect.ERROR, Effect.THROTTLE])
    places = st.integers(1, 12)

    return st.one_of(
        st.builds(Fault, effects, operations, nth=places),
        st.builds(Fault, effects, operations, every=st.integers(2, 4)),
        st.builds(
            Fault,
            st.just(Effect.FAIL_ENTRIES),
            st.just(batch),
            nth=places,
            entries=st.just((0, 3)),
        ),
        st.builds(
            Fault,
            st.just(Effect.CALL),
            operations,
            nth=places,
            after=st.booleans(),
            callback=st.just(die),
        ),
    )
