"""Calls that are begun, and ended later: as whole ones, and several side by side."""

import pytest

from dlq_replay.sending import Confirmed, InDoubt, NotReached, Refused
from tests.fake_gate import FakeGate
from tests.gated_queues import LOST, THROTTLED, Answers, Breaking, FallsSilent, entries, gated


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
    sender = gated(queue, gate)

    begun = [sender.begin(entries(10)) for _ in range(10)]
    results = [one for end in begun for one in end()]
    later = [one for end in [sender.begin(entries(10)) for _ in range(10)] for one in end()]

    assert "messages in a row were not taken" in gate.stopped_by
    assert results.count(LOST) == 60
    assert later == [NotReached()] * 100


@pytest.mark.parametrize("half", ["begin_once", "end"])
def test_bug_in_each_call_leaves_few_in_doubt_and_stops_the_run(half: str) -> None:
    gate = FakeGate()
    breaking = gated(Breaking(half), gate)

    begun = [breaking.begin(entries(10)) for _ in range(10)]
    results = [one for end in begun for one in end()]

    assert results == [InDoubt("RuntimeError in the call")] * 100
    assert breaking.begin(entries(10))() == [NotReached()] * 10
    assert "RuntimeError in the call" in gate.stopped_by
    assert gate.inside == 0


def test_no_call_is_begun_once_the_claim_has_aged_behind_the_gate() -> None:
    times = iter([100.0])
    gate, answers = FakeGate(), Answers()

    assert gated(answers, gate, now=lambda: next(times)).begin(entries(1))() == [NotReached()]
    assert (answers.calls, gate.inside) == ([], 0)
