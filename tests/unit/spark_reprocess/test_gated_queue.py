import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from dlq_replay.message import SendEntry
from dlq_replay.sending import Confirmed, InDoubt, NotReached, Refused, SendResult, Spoiled
from spark_reprocess.redrive.gated_queue import REPEATS, GatedQueue
from spark_reprocess.redrive.refusals import UNANSWERED_MESSAGES, Outlook
from tests.fake_gate import FakeGate

THROTTLED = Refused("RequestThrottled")
LOST = InDoubt("ConnectionClosedError")


@dataclass
class Answers:
    """A queue that gives each body its next answer, and then confirms."""

    url: str = "https://q"
    of: dict[str, list[SendResult]] = field(default_factory=dict)
    spoilt_by: str = ""
    calls: list[list[str]] = field(default_factory=list)

    def send_once(self, entries: Sequence[SendEntry]) -> Sequence[SendResult] | Spoiled:
        bodies = [entry.body for entry in entries]
        self.calls.append(bodies)
        if self.spoilt_by in bodies:
            return Spoiled() if len(bodies) > 1 else [Refused("InvalidMessageContents")]
        return [(self.of.get(body) or [Confirmed(f"copy of {body}")]).pop(0) for body in bodies]

    def begin_once(
        self, entries: Sequence[SendEntry]
    ) -> Callable[[], Sequence[SendResult] | Spoiled]:
        answer = self.send_once(entries)
        return lambda: answer


@dataclass
class FallsSilent:
    """Takes so many calls, and then no answer comes to any."""

    answered_calls: int
    url: str = "https://q"
    calls: Iterator[int] = field(default_factory=itertools.count)

    def send_once(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        is_answered = next(self.calls) < self.answered_calls
        return [Confirmed("copy") if is_answered else LOST] * len(entries)

    def begin_once(self, entries: Sequence[SendEntry]) -> Callable[[], Sequence[SendResult]]:
        results = self.send_once(entries)
        return lambda: results


@dataclass
class Breaking:
    """Has a bug in one of its parts."""

    part: str
    url: str = "https://q"

    def send_once(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        return self._answer("send_once", len(entries))

    def begin_once(self, entries: Sequence[SendEntry]) -> Callable[[], Sequence[SendResult]]:
        self._answer("begin_once", len(entries))
        return lambda: self._answer("end", len(entries))

    def _answer(self, part: str, count: int) -> Sequence[SendResult]:
        if part == self.part:
            raise RuntimeError("a bug")
        return [Confirmed("copy")] * count


@dataclass
class SlowGate(FakeGate):
    """Each call waits 90 s for its turn, as behind 45 others at 0.5 messages a second."""

    now: float = 0.0

    def enter(self, messages: int, seconds: float) -> bool:
        self.now += 90
        return super().enter(messages, seconds)


def gated(
    answers: Answers,
    gate: FakeGate,
    *,
    is_fifo: bool = False,
    now: Callable[[], float] = lambda: 0.0,
) -> GatedQueue:
    return GatedQueue(answers, gate, Outlook(), 100.0, now, lambda _, longest: longest, is_fifo)


def entries(count: int) -> list[SendEntry]:
    return [SendEntry(str(number)) for number in range(count)]


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
    sender = replace(gated(Answers(), gate), queue=queue)

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


def test_call_in_two_halves_enters_and_leaves() -> None:
    gate, answers = FakeGate(), Answers()

    end = gated(answers, gate).begin(entries(10))

    assert (gate.inside, len(answers.calls)) == (10, 1)
    assert end() == [Confirmed(f"copy of {n}") for n in range(10)]
    assert (gate.calls, gate.inside) == ([10], 0)


def test_what_is_refused_for_the_moment_goes_again_in_the_second_half() -> None:
    gate, answers = FakeGate(), Answers(of={"1": [THROTTLED]})

    results = gated(answers, gate).begin(entries(2))()

    assert results == [Confirmed("copy of 0"), Confirmed("copy of 1")]
    assert answers.calls == [["0", "1"], ["1"]]
    assert gate.inside == 0


def test_call_in_two_halves_that_one_entry_spoils_goes_apart() -> None:
    gate, answers = FakeGate(), Answers(spoilt_by="1")

    results = gated(answers, gate).begin(entries(3))()

    refused = Refused("InvalidMessageContents")
    assert results == [Confirmed("copy of 0"), refused, Confirmed("copy of 2")]
    assert answers.calls == [["0", "1", "2"], ["0"], ["1"], ["2"]]
    assert gate.inside == 0


def test_closed_gate_begins_nothing() -> None:
    gate, answers = FakeGate(stopped_by="enough"), Answers()

    assert gated(answers, gate).begin(entries(2))() == [NotReached()] * 2
    assert answers.calls == []


def test_after_silence_a_call_is_begun_when_it_is_waited_for() -> None:
    answers = Answers(of={"0": [LOST]})
    queue = gated(answers, FakeGate())
    assert queue.begin(entries(1))() == [LOST]

    end = queue.begin(entries(1))

    assert len(answers.calls) == 1
    assert end() == [Confirmed("copy of 0")]
    assert len(answers.calls) == 2


def test_calls_in_two_halves_stop_after_as_much_silence_as_was_under_way() -> None:
    gate, queue = FakeGate(), FallsSilent(answered_calls=4)
    sender = replace(gated(Answers(), gate), queue=queue)

    begun = [sender.begin(entries(10)) for _ in range(10)]
    results = [one for end in begun for one in end()]
    later = [one for end in [sender.begin(entries(10)) for _ in range(10)] for one in end()]

    assert "messages in a row were not taken" in gate.stopped_by
    assert results.count(LOST) == 60
    assert later == [NotReached()] * 100


@pytest.mark.parametrize("half", ["begin_once", "end"])
def test_bug_in_each_call_leaves_few_in_doubt_and_stops_the_run(half: str) -> None:
    gate = FakeGate()
    breaking = replace(gated(Answers(), gate), queue=Breaking(half))

    begun = [breaking.begin(entries(10)) for _ in range(10)]
    results = [one for end in begun for one in end()]

    assert results == [InDoubt("RuntimeError in the call")] * 100
    assert breaking.begin(entries(10))() == [NotReached()] * 10
    assert "RuntimeError in the call" in gate.stopped_by
    assert gate.inside == 0


def test_bug_in_each_call_that_is_sent_whole_does_so_too() -> None:
    gate = FakeGate()
    breaking = replace(gated(Answers(), gate), queue=Breaking("send_once"))

    results = [one for _ in range(10) for one in breaking.send(entries(10))]

    assert results.count(InDoubt("RuntimeError in the call")) == 50
    assert results.count(NotReached()) == 50
    assert gate.inside == 0


def test_no_call_is_begun_once_the_claim_has_aged_behind_the_gate() -> None:
    times = iter([100.0])
    gate, answers = FakeGate(), Answers()

    assert gated(answers, gate, now=lambda: next(times)).begin(entries(1))() == [NotReached()]
    assert (answers.calls, gate.inside) == ([], 0)


def test_nothing_is_waited_for_once_the_claim_has_aged() -> None:
    times = iter([99.0, 99.0, 99.0, 99.0, *[100.0] * 9])
    gate, answers = FakeGate(), Answers(of={"0": [THROTTLED]})

    assert gated(answers, gate, now=lambda: next(times)).send(entries(1)) == [THROTTLED]
    assert gate.pauses == []
