from dataclasses import replace

import pytest

from dlq_replay.replaying.measures import Metric, measure_batch, measure_dlq
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.trial_message import TRIAL_ATTRIBUTE, trial_entry, trial_id_of
from dlq_replay.rules.batch_plan import PlannedRecord
from dlq_replay.rules.decision import Park, ParkReason, decide
from dlq_replay.rules.outgoing import parked_entry, redriven_entry
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry
from tests.support.builders import MAIN, NOW, context, policy, queue_arn, text

RUN = "0123456789abcdef"


def sent(rules: ReplayPolicy | None = None, trial_id: str = RUN, **system: str) -> Message:
    """The test message as it is received; *system* are SQS's attributes."""
    entry = trial_entry(trial_id, rules or policy())
    group = {"MessageGroupId": entry.message_group_id} if entry.message_group_id else {}
    return Message("copy-1", entry.body, entry.attributes, {**group, **system})


@pytest.mark.parametrize(
    "rules",
    [
        policy(max_attempts=20),
        policy(max_attempts=0),
        policy(max_attempts=1000),
        policy(main="main.fifo", max_attempts=3),
        policy(others={"invoices": {}}),
        policy(max_age_seconds=1),
    ],
)
def test_the_function_parks_it_at_once_and_never_replays_it(rules: ReplayPolicy) -> None:
    decision = decide(sent(rules), rules.of(None), NOW, lambda top: top)

    assert decision == Park(ParkReason.ATTEMPTS_EXHAUSTED)


def test_it_is_recognised_as_it_is_sent_and_as_it_is_parked() -> None:
    for rules in (policy(), policy(main="main.fifo")):
        first = sent(rules)
        entry = parked_entry(first, "attempts_exhausted", NOW, rules)
        parked = Message("copy-2", entry.body, entry.attributes, first.system)

        assert trial_id_of(first) == trial_id_of(parked) == RUN
        assert parked.first_id == "copy-1"


def without(message: Message, name: str) -> Message:
    others = {key: value for key, value in message.attributes.items() if key != name}
    return replace(message, attributes=others)


def with_attribute(message: Message, name: str, value: MessageAttribute) -> Message:
    return replace(message, attributes={**message.attributes, name: value})


MARKER = sent().attributes[TRIAL_ATTRIBUTE]
REAL = Message("m", '{"order": 1}', {"tenant": text("a")})


@pytest.mark.parametrize(
    "real",
    [
        REAL,
        # A consumer that copies the attributes of what it received to what it sends.
        replace(REAL, attributes=sent().attributes),
        with_attribute(REAL, TRIAL_ATTRIBUTE, MARKER),
        # Somebody forges the marker, with an id that is none or with another's body.
        replace(sent(), body=sent(trial_id="ffffffffffffffff").body),
        replace(sent(), body=sent().body + " "),
        replace(sent(), body=""),
        sent(trial_id="anything"),
        sent(trial_id=f"{RUN}\n"),
        sent(trial_id=f'{RUN}"'),
        # A body with content of its own in attributes.
        with_attribute(sent(), "tenant", text("a")),
        with_attribute(sent(), TRIAL_ATTRIBUTE, MessageAttribute("Binary", RUN.encode())),
        with_attribute(sent(), TRIAL_ATTRIBUTE, MessageAttribute("String.id", RUN)),
        without(sent(), TRIAL_ATTRIBUTE),
        with_attribute(sent(), CONTEXT_ATTRIBUTE, text("a note of somebody else")),
        with_attribute(sent(), CONTEXT_ATTRIBUTE, context(plan_id="p")[CONTEXT_ATTRIBUTE]),
        sent(MessageGroupId="orders"),
    ],
)
def test_a_real_message_is_never_taken_for_one(real: Message) -> None:
    assert trial_id_of(real) is None


def test_a_copy_that_a_redrive_sent_is_real() -> None:
    entry = redriven_entry(sent(), "plan", MAIN)

    assert trial_id_of(Message("m", entry.body, entry.attributes)) is None


@pytest.mark.parametrize("name", [REPLAY_COUNT_ATTRIBUTE, CONTEXT_ATTRIBUTE])
def test_it_is_recognised_without_what_a_copy_may_lose(name: str) -> None:
    assert trial_id_of(without(sent(), name)) == RUN


def test_it_counts_as_parked_but_not_as_a_dead_letter_that_arrived() -> None:
    dead = sent(DeadLetterQueueSourceArn=queue_arn("main"))
    without_counter = without(dead, REPLAY_COUNT_ATTRIBUTE)
    for message in (dead, without_counter):
        park = Park(ParkReason.ATTEMPTS_EXHAUSTED)
        main = policy().main_queue
        copy = SendEntry(message.body)
        outcome = BatchOutcome(
            (PlannedRecord(message, message.message_id, main, park, entry=copy),)
        )
        measured = measure_batch(outcome)
        measured |= measure_dlq(outcome, [measured], NOW, 60)

        assert measured[Metric.PARKED] == [1]
        assert measured[Metric.ARRIVED] == measured[Metric.ARRIVED_TOTAL] == [0]
        assert measured[Metric.REPLAY_COUNT] == []
