"""What a heartbeat calls safe is safe, whatever goes wrong: held against the model of SQS."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.consumer.heartbeat import Heartbeat, HeartbeatConfig
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from tests.simulation.ticking import VirtualTicker

EXTEND = "ChangeMessageVisibilityBatch"
MESSAGES = 3

faults = st.builds(
    Fault,
    st.sampled_from(
        [
            Effect.THROTTLE,
            Effect.ERROR,
            Effect.CLOSE,
            Effect.LOSE,
            Effect.HANG,
            Effect.DELAY,
            Effect.FAIL_ENTRIES,
        ]
    ),
    operation=st.just(EXTEND),
    nth=st.integers(1, 12),
    after=st.booleans(),
    entries=st.sampled_from([(), (0,), (1, 2)]),
    seconds=st.sampled_from([0.5, 5.0, 31.0, 61.0, 121.0, 500.0]),
)
configs = st.builds(
    HeartbeatConfig,
    st.sampled_from([120, 30, 600]),
    st.sampled_from([7.0, 15.0]),
    st.sampled_from([5.0, 30.0]),
)
moves = st.lists(
    st.tuples(st.sampled_from(["work", "suspend", "done"]), st.integers(1, 300)), max_size=6
)
peaceful_moves = st.lists(
    st.tuples(st.sampled_from(["work", "done"]), st.integers(1, 400)), max_size=6
)


class Scene:
    """A queue, a heartbeat over its messages, and a rival who takes what he can get.

    Attributes:
        hands_over: whether the rival gives the heartbeat what he received, as a poller of the
            same process does.
    """

    def __init__(
        self, config: HeartbeatConfig, rules: list[Fault], *, hands_over: bool = False
    ) -> None:
        self.hands_over = hands_over
        self.clock = VirtualClock()
        self.front = Front.of(SqsModel(self.clock))
        self.front.faults.add(*rules)
        client = client_for(self.front)
        self.ticker = VirtualTicker(self.clock)
        timeout = int(config.received_timeout_seconds)
        self.queue = Driver(client).queue("q", VisibilityTimeout=timeout)
        for index in range(MESSAGES):
            self.queue.send(str(index))
        received = self.queue.receive()
        self.ids = [one["MessageId"] for one in received]
        self.taken: list[str] = []
        self.done: set[str] = set()
        self.beat = Heartbeat(
            client,
            self.queue.url,
            received,
            config=config,
            now=self.clock.time,
            ticker=self.ticker,
        )

    def look(self) -> None:
        """No message that is called safe may be received by anyone else."""
        safe = {message_id for message_id in self.ids if self.beat.is_safe(message_id)}
        received, received_at = self.queue.receive(), self.clock.time()
        self.taken += [one["MessageId"] for one in received]
        assert not safe & {one["MessageId"] for one in received}
        if self.hands_over:
            for one in received:
                # Handing over one message may take the time of a call for the one before.
                ago = self.clock.time() - received_at
                is_taken = self.beat.replace_receipt(one["MessageId"], one["ReceiptHandle"], ago)
                assert is_taken or one["MessageId"] in self.done

    def _finish(self, message_id: str) -> None:
        self.done.add(message_id)
        self.beat.done(message_id)

    def run(self, plan: list[tuple[str, int]]) -> None:
        with self.beat:
            for move, seconds in plan:
                if move == "suspend":
                    self.clock.advance(seconds)
                    self.look()
                elif move == "done":
                    self._finish(self.ids[seconds % MESSAGES])
                else:
                    self.ticker.pass_time(seconds, self.look)


@given(config=configs, rules=st.lists(faults, max_size=6), plan=moves, hands_over=st.booleans())
def test_safe_message_is_never_received_by_another(
    config: HeartbeatConfig, rules: list[Fault], plan: list[tuple[str, int]], *, hands_over: bool
) -> None:
    Scene(config, rules, hands_over=hands_over).run(plan)


@given(configs, peaceful_moves)
@settings(max_examples=30)
def test_nothing_is_shown_while_sqs_answers_be_it_done_or_not(
    config: HeartbeatConfig, plan: list[tuple[str, int]]
) -> None:
    scene = Scene(config, [])
    scene.run(plan)

    assert not scene.taken


def test_law_catches_a_heartbeat_that_trusts_late_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(receive: Any, _: float, timeout_seconds: int, answered_at: float) -> None:
        receive.hidden_until = answered_at + timeout_seconds
        receive.extend_at = answered_at

    monkeypatch.setattr("dlq_replay.consumer.heartbeat._Receive.confirm", trust)
    late = Fault(Effect.DELAY, EXTEND, nth=2, seconds=500)

    with pytest.raises(AssertionError):
        Scene(HeartbeatConfig(), [late]).run([("work", 90)])
