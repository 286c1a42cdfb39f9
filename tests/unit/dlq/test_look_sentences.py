"""What a look says before and after it, and what it advises."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dlq.aws.clients import DescribedQueue
from dlq.errors import InputError
from dlq.look.look import HiddenMessage, Received
from dlq.look.queue_facts import QueueFacts, require_receives
from dlq.look.receiver import End
from dlq.look.sentences import after, before, next_steps
from tests.support.findings_builder import a_group, some_findings

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/"
MAIN = f"{URL}orders"


def queue(
    visible: int = 5,
    in_flight: int = 0,
    delayed: int = 0,
    *,
    name: str = "orders-dlq",
    max_receive_count: int | None = None,
) -> DescribedQueue:
    attributes = {
        "QueueArn": f"arn:aws:sqs:eu-west-1:123456789012:{name}",
        "ApproximateNumberOfMessages": str(visible),
        "ApproximateNumberOfMessagesNotVisible": str(in_flight),
        "ApproximateNumberOfMessagesDelayed": str(delayed),
    }
    if max_receive_count is not None:
        target = "arn:aws:sqs:eu-west-1:123456789012:orders-moved"
        policy = {"deadLetterTargetArn": target, "maxReceiveCount": max_receive_count}
        attributes["RedrivePolicy"] = json.dumps(policy)
    return DescribedQueue(f"{URL}{name}", attributes)


RECEIVED = Received(
    messages=5,
    size_bytes=100,
    tests=0,
    given_back=5,
    hidden=(),
    faults=(),
    end=End.EMPTY,
    error="",
)
HIDDEN = HiddenMessage("m-1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (QueueFacts(queue()), "orders-dlq: about 5 visible, 0 in flight, 0 delayed"),
        (QueueFacts(queue(1, 2, 3)), "it cannot see the 5 in flight or delayed"),
        (QueueFacts(queue(1, 2, 3, name="d.fifo")), "those that replay holds are in flight"),
        (QueueFacts(queue(name="d.fifo")), "the first ten messages of each message group"),
        (QueueFacts(queue(30)), "it leaves about 20 unseen: --limit"),
        (QueueFacts(queue(max_receive_count=5)), "to orders-moved after 5 receives"),
        (QueueFacts(queue(), readers=("pipe p",)), "pipe p read this queue, too"),
        (
            QueueFacts(queue(), recent_receives=7),
            "received 7 messages of this queue in the last 15",
        ),
        (QueueFacts(queue(), unknown=("pipes not checked: x",)), "pipes not checked: x"),
    ],
)
def test_it_says_before_it_starts_what_it_costs_and_cannot_see(
    facts: QueueFacts, sentence: str
) -> None:
    assert sentence in "\n".join(before(facts, 10))


@pytest.mark.parametrize(
    ("received", "facts", "sentence"),
    [
        (RECEIVED, QueueFacts(queue()), "seen: 5 messages, all given back"),
        (RECEIVED, QueueFacts(queue(900)), "seen: 5 messages of about 900, all given back"),
        (replace(RECEIVED, tests=1), QueueFacts(queue()), "1 test message of dlq doctor"),
        (replace(RECEIVED, end=End.SECONDS), QueueFacts(queue()), "ended after 120 s"),
        (replace(RECEIVED, end=End.BYTES), QueueFacts(queue()), "ended at 256 MiB"),
        (
            replace(RECEIVED, end=End.RECEIVE_COUNT),
            QueueFacts(queue(max_receive_count=5)),
            "ended at a message with 2 receives left",
        ),
        (
            RECEIVED,
            QueueFacts(queue(max_receive_count=5)),
            "messages that had 5 receives before are not seen: SQS has moved them to orders-moved",
        ),
        (
            replace(RECEIVED, end=End.ERROR, error="AccessDenied"),
            QueueFacts(queue()),
            "the look ended early: AccessDenied",
        ),
        (
            replace(RECEIVED, hidden=(HIDDEN,)),
            QueueFacts(queue()),
            "m-1: visible at 2026-01-02 03:04:05 UTC",
        ),
        (
            replace(RECEIVED, hidden=(HIDDEN,) * 12),
            QueueFacts(queue()),
            "and 2 more, the last at 2026-01-02 03:04:05 UTC",
        ),
        (replace(RECEIVED, faults=("m-9: broken",)), QueueFacts(queue()), "m-9: broken"),
        (RECEIVED, QueueFacts(queue(50, name="d.fifo")), "dlq collect takes all"),
    ],
)
def test_it_says_what_it_saw_and_what_is_still_hidden(
    received: Received, facts: QueueFacts, sentence: str
) -> None:
    assert sentence in "\n".join(after(received, facts))


@pytest.mark.parametrize(
    ("facts", "received", "groups", "is_native"),
    [
        (QueueFacts(queue(), sources=(MAIN,)), RECEIVED, 1, True),
        (QueueFacts(queue(), sources=(MAIN,)), RECEIVED, 2, False),
        (QueueFacts(queue(), sources=()), RECEIVED, 1, False),
        (QueueFacts(queue()), RECEIVED, 1, False),
        (QueueFacts(queue(), sources=(MAIN,)), replace(RECEIVED, hidden=(HIDDEN,)), 1, False),
        (QueueFacts(queue(), sources=(MAIN,)), replace(RECEIVED, end=End.ERROR), 1, False),
    ],
)
def test_native_redrive_is_proposed_only_where_it_is_enough(
    facts: QueueFacts, received: Received, groups: int, is_native: bool
) -> None:
    seen = some_findings(*(a_group(group_id=f"g-{number}") for number in range(groups)))

    steps = "\n".join(next_steps(facts, received, seen))

    assert ("start-message-move-task" in steps) is is_native
    assert f"dlq collect {URL}orders-dlq --archive ./dead-letters" in steps


def test_commands_keep_the_region_and_the_profile_of_the_look() -> None:
    facts = QueueFacts(queue(), sources=(MAIN,))
    seen = some_findings(a_group())

    steps = list(next_steps(facts, RECEIVED, seen, ("--profile", "on call"), ("--stack", "")))

    of_aws, *commands = [line for line in steps if line.startswith("  ")]
    assert len(commands) == 2
    assert of_aws.endswith("--profile 'on call'")
    assert all("--stack '' --profile 'on call'" in command for command in commands)


@pytest.mark.parametrize(
    ("max_receive_count", "receives_allowed", "is_refused"),
    [
        (None, None, False),
        (100, None, False),
        (99, None, True),
        (5, 5, False),
        (5, 3, False),
        (5, 6, True),
        (100, 1000, True),
    ],
)
def test_a_queue_that_moves_messages_soon_is_refused(
    max_receive_count: int | None, receives_allowed: int | None, is_refused: bool
) -> None:
    described = queue(max_receive_count=max_receive_count)
    if not is_refused:
        require_receives(described, receives_allowed)
        return

    with pytest.raises(InputError, match="orders-moved after") as refusal:
        require_receives(described, receives_allowed)
    assert f"--receives-allowed {max_receive_count}" in str(refusal.value)
