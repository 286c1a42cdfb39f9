"""What a redrive puts before a queue: every call asks, and what SQS could not take goes again."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from dlq_replay.sending import Confirmed, InDoubt, NotReached, Refused, SendResult
from spark_reprocess.redrive.gated_queue import REPEATS
from spark_reprocess.redrive.refusals import UNANSWERED_MESSAGES
from tests.fake_gate import FakeGate
from tests.gated_queues import LOST, THROTTLED, Answers, Breaking, FallsSilent, entries, gated


@dataclass
class SlowGate(FakeGate):
    """Each call waits 90 s for its turn, as behind 45 others at 0.5 messages a second."""

    now: float = 0.0

    def enter(self, messages: int, seconds: float) -> bool:
        self.now += 90
        return super().enter(messages, seconds)


def test_every_call_enters_and_leaves() -> None:
    gate = FakeGate()

    results = gated(Answers(), gate).send(entries(10))

    assert results == [Confirmed(f"copy of {n}") for n in range(10)]
    assert (gate.calls, gate.inside) == ([10], 0)


def test_calls_are_no_larger_than_the_rate_allows() -> None:
    gate = FakeGate(call_messages=4)
    answers = Answers()

    assert len(gated(answers, gate).send(entries(10))) == 10
    assert answers.calls == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]
    assert gate.calls == [4, 4, 2]


def test_calls_apart_are_asked_for_too() -> None:
    gate = FakeGate()

    results = gated(Answers(spoilt_by="1"), gate).send(entries(3))

    assert results == [
        Confirmed("copy of 0"),
        Refused("InvalidMessageContents"),
        Confirmed("copy of 2"),
    ]
    assert gate.calls == [3, 1, 1, 1]


def test_closed_gate_sends_nothing() -> None:
    answers = Answers()

    assert gated(answers, FakeGate(stopped_by="x")).send(entries(2)) == [NotReached()] * 2
    assert answers.calls == []


def test_gate_that_closes_between_calls_lets_no_more_through() -> None:
    gate = FakeGate(call_messages=1, closes_after=2)

    results = gated(Answers(), gate).send(entries(4))

    assert [type(one) for one in results] == [Confirmed, Confirmed, NotReached, NotReached]


def test_no_call_begins_once_the_claim_has_aged() -> None:
    times = iter([99.0, 99.0, 99.0, 100.0])
    gate, answers = FakeGate(), Answers()

    assert gated(answers, gate, now=lambda: next(times)).send(entries(1)) == [NotReached()]
    assert (answers.calls, gate.inside) == ([], 0)


def test_throttled_messages_go_again_after_a_growing_pause() -> None:
    gate = FakeGate()
    answers = Answers(of={"1": [THROTTLED, THROTTLED]})

    results = gated(answers, gate).send(entries(3))

    assert all(isinstance(one, Confirmed) for one in results)
    assert answers.calls == [["0", "1", "2"], ["1"], ["1"]]
    assert gate.pauses == [0.2, 0.4]


def test_patience_ends() -> None:
    gate = FakeGate()
    answers = Answers(of={"0": [THROTTLED] * 99})

    assert gated(answers, gate).send(entries(1)) == [THROTTLED]
    assert len(answers.calls) == 1 + REPEATS
    assert gate.pauses == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_what_is_refused_for_good_does_not_go_again() -> None:
    answers = Answers(of={"0": [Refused("InvalidMessageContents")]})

    gated(answers, FakeGate()).send(entries(1))

    assert len(answers.calls) == 1


def test_standard_queue_is_not_asked_again_after_a_lost_answer() -> None:
    answers = Answers(of={"0": [LOST]})

    assert gated(answers, FakeGate()).send(entries(1)) == [LOST]
    assert len(answers.calls) == 1


def test_fifo_queue_is_asked_again_because_it_knows_the_message() -> None:
    answers = Answers(of={"0": [LOST, LOST]})

    assert gated(answers, FakeGate(), is_fifo=True).send(entries(1)) == [Confirmed("copy of 0")]


def test_fifo_queue_is_not_asked_again_once_it_may_have_forgotten_the_message() -> None:
    answers = Answers(of={"0": [LOST] * 9})
    gate = SlowGate()
    queue = gated(answers, gate, is_fifo=True, now=lambda: gate.now)

    assert replace(queue, until_seconds=10_000.0).send(entries(1)) == [LOST]
    assert len(answers.calls) == 2


def test_standard_queue_takes_its_time() -> None:
    answers = Answers(of={"0": [THROTTLED] * 5})
    gate = SlowGate()
    queue = replace(gated(answers, gate, now=lambda: gate.now), until_seconds=10_000.0)

    assert queue.send(entries(1)) == [Confirmed("copy of 0")]


@pytest.mark.parametrize("second", [THROTTLED, Refused("ExpiredToken"), NotReached()])
def test_message_in_doubt_stays_so_unless_it_is_confirmed(second: SendResult) -> None:
    answers = Answers(of={"0": [LOST, *[second] * 9]})

    assert gated(answers, FakeGate(), is_fifo=True).send(entries(1)) == [LOST]


def test_stopped_run_does_not_try_again() -> None:
    gate = FakeGate(closes_after=1)
    answers = Answers(of={"0": [THROTTLED] * 9})

    assert gated(answers, gate).send(entries(1)) == [THROTTLED]
    assert len(answers.calls) == 1


def test_queue_that_is_gone_closes_the_gate_at_once() -> None:
    gone = Refused("AWS.SimpleQueueService.NonExistentQueue", "there is no such queue")
    gate = FakeGate()
    queue = gated(Answers(of={"0": [gone]}), gate)

    assert queue.send(entries(1)) == [gone]
    assert gate.stopped_by == "there is no such queue"
    assert queue.send(entries(1)) == [NotReached()]
    assert gate.calls == [1]


def test_silence_puts_few_more_in_doubt_than_were_under_way() -> None:
    """Ten threads, and a queue that takes four calls and says nothing to any other."""
    gate, queue = FakeGate(), FallsSilent(answered_calls=4)
    sender = gated(queue, gate)

    with ThreadPoolExecutor(10) as threads:
        results = [one for call in threads.map(sender.send, [entries(10)] * 100) for one in call]

    assert "messages in a row were not taken" in gate.stopped_by
    assert results.count(Confirmed("copy")) == 40
    assert results.count(LOST) <= 10 * 10 + UNANSWERED_MESSAGES
    assert len(results) == 1000


def test_nobody_waits_for_a_turn_beyond_the_claims_age() -> None:
    gate, answers = FakeGate(), Answers(of={"0": [LOST]})
    queue = gated(answers, gate, now=lambda: 100.0)
    queue.outlook.reason_to_stop([LOST])

    with queue.outlook.turn(0):
        assert queue.send(entries(1)) == [NotReached()]
    assert (answers.calls, gate.calls) == ([], [])


def test_bug_in_each_call_that_is_sent_whole_does_so_too() -> None:
    gate = FakeGate()
    breaking = gated(Breaking("send_once"), gate)

    results = [one for _ in range(10) for one in breaking.send(entries(10))]

    assert results.count(InDoubt("RuntimeError in the call")) == 50
    assert results.count(NotReached()) == 50
    assert gate.inside == 0


def test_nothing_is_waited_for_once_the_claim_has_aged() -> None:
    times = iter([99.0, 99.0, 99.0, 99.0, *[100.0] * 9])
    gate, answers = FakeGate(), Answers(of={"0": [THROTTLED]})

    assert gated(answers, gate, now=lambda: next(times)).send(entries(1)) == [THROTTLED]
    assert gate.pauses == []
