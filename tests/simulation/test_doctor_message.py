"""The test message of ``dlq doctor``, on the real use case and the model's virtual clock."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from dlq.aws.clients import DescribedQueue
from dlq.stack.rules import Installation, TriggerFacts
from dlq.stack.trial import Check, Trial
from dlq_replay.replaying.trial_message import TRIAL_ATTRIBUTE
from dlq_replay.settings import ReplaySettings
from dlq_replay.wire.attributes import MessageAttribute
from local_sqs.client import client_for
from local_sqs.model_queue import ModelQueue
from tests.simulation.event_source import EventSource, run
from tests.simulation.stack import Stack
from tests.support.builders import environment
from tests.support.processes import Died
from tests.support.sqs_driver import redrive_policy

REAL = "a-real-message-with-the-marker-of-a-test"


class Client:
    """The SQS client, whose call number *at* does not end well; after a refusal, all that follow.

    Attributes:
        error: what that call raises.
        is_done: whether SQS carries it out.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls = 0
        self.at = 0
        self.error: BaseException = Died()
        self.is_done = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)

        def count(**request: Any) -> Any:
            self.calls += 1
            if isinstance(self.error, Died | ClientError) and 0 < self.at < self.calls:
                raise self.error
            if self.calls != self.at:
                return call(**request)
            if self.is_done:
                call(**request)
            raise self.error

        return count


class TrialStack:
    """An installation with a real message in its parked queue."""

    def __init__(self, *, is_fifo: bool = False, visibility_seconds: int = 30) -> None:
        self.stack = stack = Stack(is_fifo=is_fifo)
        self.client = Client(client_for(stack.front))
        self.sources = [stack.replay_source()]
        marked = {TRIAL_ATTRIBUTE: MessageAttribute("String", "0123456789abcdef").to_api()}
        self.send(stack.parked, REAL, MessageAttributes=marked)

        suffix = ".fifo" if is_fifo else ""
        settings = ReplaySettings.from_env(
            environment(
                MAIN_QUEUE_URL=stack.main.url,
                DLQ_URL=stack.dlq.url,
                PARKED_QUEUE_URL=stack.parked.url,
                MAX_ATTEMPTS="20",
            )
        )
        trigger = TriggerFacts(
            "mapping", "Enabled", stack.dlq.arn, reports_batch_item_failures=True
        )

        self.installation = Installation(
            function_name=f"replay{suffix}",
            timeout_seconds=30,
            settings=settings,
            main=self.facts(stack.main),
            dlq=self.facts(stack.dlq),
            parked=self.facts(stack.parked),
            triggers=(trigger,),
        )

    def send(self, queue: ModelQueue, body: str, **more: Any) -> None:
        group = (
            {"MessageGroupId": "g", "MessageDeduplicationId": body}
            if queue.url.endswith(".fifo")
            else {}
        )
        self.client.client.send_message(QueueUrl=queue.url, MessageBody=body, **group, **more)

    def facts(self, queue: ModelQueue) -> DescribedQueue:
        answer = self.client.client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])
        return DescribedQueue(queue.url, answer["Attributes"])

    def pass_time(self, seconds: float) -> None:
        run(self.stack.model, self.sources, self.stack.clock.now_ms() + round(seconds * 1000))

    def trial(self, trial_id: str = "00000000000000aa", **options: Any) -> Trial:
        return Trial(
            lambda _: self.client,
            options.pop("installation", self.installation),
            trial_id,
            now=self.stack.clock.time,
            sleep=self.pass_time,
            **options,
        )

    def check(self, **options: Any) -> list[Check]:
        return list(self.trial(**options).run())

    def tests_left(self) -> list[str]:
        """The bodies of all messages but the real one; each queue is read to its end."""
        self.pass_time(200)
        bodies = []
        for queue in (self.stack.main, self.stack.dlq, self.stack.parked):
            for _ in range(3):
                client = self.client.client
                answer = client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)
                bodies += [message["Body"] for message in answer.get("Messages", [])]
        assert bodies.count(REAL) == 1
        return [body for body in bodies if body != REAL]


def verdicts(checks: list[Check]) -> dict[str, bool | None]:
    return {check.name: check.works for check in checks}


def way(*, is_fifo: bool = False) -> str:
    return "dlq.fifo → function → parked.fifo" if is_fifo else "dlq → function → parked"


@pytest.mark.parametrize("has_failed", [True, False])
def test_the_consumer_has_to_fail_on_what_is_sent_through_it(*, has_failed: bool) -> None:
    world = TrialStack()
    world.sources.append(
        EventSource(
            world.stack.main, lambda batch: {message.message_id for message in batch if has_failed}
        )
    )

    sent, arrived, *others = world.check(through_consumer=True)

    assert (sent.works, arrived.name) == (True, f"main → consumer → {way()}")
    assert arrived.works is has_failed
    assert [consumer.works for consumer in others] == ([True, True] if has_failed else [None])
    assert [cause.subject for cause in arrived.causes] == ([] if has_failed else ["main"])


@pytest.mark.parametrize("is_fifo", [False, True])
def test_message_is_parked_compared_and_deleted_and_no_other_is(*, is_fifo: bool) -> None:
    world = TrialStack(is_fifo=is_fifo)

    assert verdicts(world.check()) == {
        "sent": True,
        way(is_fifo=is_fifo): True,
        "as it was sent": True,
        "removed": True,
    }
    assert world.tests_left() == []


UNSENT = [False]
STAYS = [True, False, True]


@pytest.mark.parametrize(
    ("changes", "works", "fault"),
    [
        # Nothing is sent where a rule says that it would stay.
        ({"reserved_concurrency": 0}, UNSENT, "reserved concurrency is 0"),
        ({"triggers": ()}, UNSENT, "nothing is replayed"),
        # What stays in the DLQ is removed.
        ({}, STAYS, "was not parked within 180 s"),
        ({"denied_sends": ("parked",)}, STAYS, "may not send to it"),
        ({"denied_keys": ("key",)}, STAYS, "may not use its KMS key"),
    ],
)
def test_a_function_that_parks_nothing_is_explained_by_a_rule(
    changes: dict[str, Any], works: list[bool], fault: str
) -> None:
    world = TrialStack()
    world.sources.clear()

    checks = world.check(installation=replace(world.installation, **changes))

    assert [check.works for check in checks] == works
    assert any(fault in cause.fault for cause in checks[works.index(False)].causes)
    assert (world.client.calls == 0) is (works == UNSENT)
    assert world.tests_left() == []


def test_send_that_sqs_refuses_names_the_right() -> None:
    world = TrialStack()
    world.client.at = 1
    world.client.error = ClientError(
        {
            "Error": {"Code": "AccessDenied", "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": 403},  # type: ignore[typeddict-item]
        },
        "SendMessageBatch",
    )

    (sent,) = world.check()

    assert sent.works is False
    assert "sqs:SendMessage" in sent.causes[0].fix


def test_copy_that_differs_from_the_wire_format_is_a_fault_of_the_function() -> None:
    world = TrialStack()
    other = replace(world.installation, main=replace(world.installation.main, url="x"))
    attributes = {**other.main.attributes, "QueueArn": world.stack.main.arn + "-2"}
    changed = replace(other, main=replace(other.main, attributes=attributes))

    compared = world.check(installation=changed)[2]

    assert compared.works is False
    assert "source queue is main, not main-2" in compared.causes[0].fault


def fill(world: TrialStack) -> None:
    for number in range(101):
        world.send(world.stack.parked, str(number))


def limit_receives(world: TrialStack) -> None:
    policy = redrive_policy(world.stack.main, 50)
    world.client.client.set_queue_attributes(
        QueueUrl=world.stack.parked.url, Attributes={"RedrivePolicy": policy}
    )


@pytest.mark.parametrize("guard", [fill, limit_receives])
def test_nothing_is_received_where_it_could_harm_and_that_is_said(
    guard: Callable[[TrialStack], None],
) -> None:
    world = TrialStack()
    guard(world)
    before = world.stack.front.log.count("ReceiveMessage")

    sent, arrived, removed = world.check()

    assert (sent.works, arrived.works, removed.works) == (True, None, None)
    assert sent.observed.rpartition(" ")[2] in arrived.observed
    assert "the next drain deletes it" in removed.observed
    received = world.stack.front.log.count("ReceiveMessage") - before
    # Of the function alone.
    assert received <= 2 * len(world.stack.outcomes) + 2


def calls_of_a_test(*, is_fifo: bool) -> int:
    world = TrialStack(is_fifo=is_fifo)
    world.check()
    return world.client.calls


@pytest.mark.parametrize("is_fifo", [False, True])
@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("error", [Died(), ConnectionClosedError(endpoint_url="https://aws")])
def test_whatever_call_does_not_end_well_the_next_test_cleans_up_and_nothing_real_is_lost(
    error: BaseException, *, is_done: bool, is_fifo: bool
) -> None:
    for at in range(1, calls_of_a_test(is_fifo=is_fifo) + 1):
        world = TrialStack(is_fifo=is_fifo)
        world.client.at = at
        world.client.error = error
        world.client.is_done = is_done
        try:
            world.check()
        except Died:
            assert isinstance(error, Died)
        world.client.at = 0
        world.pass_time(200)

        checks = world.check(trial_id="00000000000000bb")

        assert [check.works for check in checks] == [True] * 4, at
        assert world.tests_left() == [], at
