"""What a replay does with circuit breakers in a shared table, and when the table fails."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dlq_replay.breaker import BreakerRules, BreakerState, Phase
from dlq_replay.breaker_worker import MAX_TYPES, BreakerWorker
from dlq_replay.consumer.errors import BehindFailureError
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.decision import Hold, Replay
from dlq_replay.errors import BreakerTableError
from dlq_replay.failures import Failure
from dlq_replay.message import Message, SendEntry
from dlq_replay.plan import Failed
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import BatchOutcome, Replayer
from dlq_replay.sending import InDoubt, Refused, SendResult, forever
from tests.breaker_tables import FakeBreakers, denied
from tests.builders import (
    FakeQueue,
    context,
    context_of,
    counter,
    filler,
    message,
    policy,
    queue_url,
)
from tests.simulation.event_source import InlineExecutor

MINUTE = 29_000_000
NOW = MINUTE * 60
TIMEOUT = "orders.TimeoutError"


@dataclass
class Clock:
    seconds: float = NOW

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Worker:
    """One execution environment, with its own clock, on a table that it may share."""

    table: FakeBreakers = field(default_factory=FakeBreakers)
    clock: Clock = field(default_factory=Clock)
    policy: ReplayPolicy = field(default_factory=policy)
    deleted: Mapping[int, int] = field(default_factory=dict)
    max_receive_count: int | None = None
    skew_seconds: int = 0
    main: FakeQueue = field(default_factory=FakeQueue)
    dlq: FakeQueue = field(default_factory=lambda: FakeQueue(queue_url("dlq")))
    parked: FakeQueue = field(default_factory=lambda: FakeQueue(queue_url("parked")))
    failures: dict[str, Failure] = field(default_factory=dict)
    executor: Executor = field(default_factory=InlineExecutor)
    metric_reads: int = 0
    is_without: bool = False

    def __post_init__(self) -> None:
        self.breakers = BreakerWorker(
            self.table, BreakerRules(), self.read, self.max_receive_count, self.clock
        )
        self.replayer = Replayer(
            self.policy,
            self.main,
            self.dlq,
            self.parked,
            lambda: int(self.clock.seconds) + self.skew_seconds,
            lambda top: top,
            self.executor,
            lambda ids: {i: self.failures[i] for i in ids if i in self.failures},
            {} if self.is_without else {self.policy.main_queue: self.breakers},
        )

    def read(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        self.metric_reads += 1
        return {m: n for m, n in self.deleted.items() if start_seconds <= m * 60 < end_seconds}

    def fail(self, *message_ids: str, error_type: str = TIMEOUT) -> None:
        for message_id in message_ids:
            self.failures[message_id] = Failure(message_id, error_type)

    def replay(self, *letters: Message) -> BatchOutcome:
        return self.replayer.replay(letters, forever)

    def later(self, seconds: float) -> "Worker":
        self.clock.seconds += seconds
        return self


def letters(count: int, start: int = 0) -> list[Message]:
    return [message(f"m-{index}", f"body-{index}") for index in range(start, start + count)]


def opened(seconds_ago: int = 3600, **numbers: int) -> FakeBreakers:
    """A table in which the breaker of messages without an error is open."""
    state = BreakerState({"opened_at": NOW - seconds_ago, **numbers})
    return FakeBreakers(states={"unknown": state})


def between_probes(seconds_ago: int = 3600) -> FakeBreakers:
    return opened(seconds_ago, probe_at=NOW - 1)


def fates(outcome: BatchOutcome) -> list[Any]:
    return [one.fate for one in outcome.outcomes]


def returned(entry: SendEntry, message_id: str, **system: str) -> Message:
    """The copy that was sent, as it comes back to the DLQ."""
    return Message(message_id, entry.body, entry.attributes, system)


def test_first_replays_and_their_returns_are_counted_in_the_minute_of_the_replay() -> None:
    worker = Worker()
    worker.fail("m-0", "m-1")
    worker.replay(*letters(3))
    back = [returned(entry, f"back-{i}") for i, entry in enumerate(worker.main.sent)]
    worker.later(150).replay(*back)

    assert worker.table.states[TIMEOUT].numbers == {
        f"n{MINUTE}": 2,
        f"s{MINUTE}": 2,
        f"b{MINUTE}": 2,
        "t2": 2,
    }
    assert worker.table.states["unknown"].numbers == {
        f"n{MINUTE}": 1,
        f"s{MINUTE}": 1,
        f"b{MINUTE}": 1,
        "t2": 1,
    }


def test_a_copy_is_counted_once_whatever_it_is_held_for() -> None:
    worker = Worker(policy=policy(rate_seconds=5000, cap_seconds=9999))
    worker.replay(message())
    (held,) = worker.dlq.sent
    worker.later(900).replay(returned(held, "copy"))

    assert worker.table.states["unknown"].numbers == {f"n{MINUTE}": 1}


@pytest.mark.parametrize(
    "attributes",
    [context(plan_id="p-1"), counter("2"), counter("junk"), {**counter("1"), **context()}],
    ids=["redriven", "second return", "no number", "replayed by an older version"],
)
def test_what_is_neither_new_nor_a_first_return_is_not_counted(attributes: Any) -> None:
    worker = Worker()
    worker.replay(message(attributes=attributes))

    numbers = worker.table.states.get("unknown", BreakerState()).numbers
    assert {name for name in numbers if name[0] in "nb"} == set()


def test_a_send_that_was_not_confirmed_is_not_counted_as_sent() -> None:
    worker = Worker()
    worker.main.refuses = {"body-0": Refused("x"), "body-1": InDoubt("lost")}
    worker.replay(*letters(3))

    assert worker.table.states["unknown"].numbers == {f"n{MINUTE}": 3, f"s{MINUTE}": 1}


def test_fifo_copy_is_counted_at_its_first_look() -> None:
    worker = Worker(policy=policy("main.fifo"), max_receive_count=5)
    for received in (6, 7):
        letter = message(
            "a",
            MessageGroupId="g",
            SentTimestamp=str(NOW * 1000),
            ApproximateReceiveCount=str(received),
        )
        worker.later(1).replay(letter)

    assert worker.table.states["unknown"].numbers[f"n{MINUTE}"] == 1


def test_fifo_message_behind_a_failed_one_counts_as_one_without_a_recorded_error() -> None:
    worker = Worker()
    worker.failures["m-0"] = Failure.of("m-0", BehindFailureError(), NOW)
    worker.replay(*letters(1))
    worker.later(150).replay(returned(worker.main.sent[0], "back"))

    assert worker.table.types == frozenset()
    assert worker.table.states.keys() == {"unknown"}
    numbers = worker.table.states["unknown"].numbers
    assert (numbers[f"s{MINUTE}"], numbers[f"b{MINUTE}"]) == (1, 1)


def test_an_error_type_opens_its_own_breaker() -> None:
    worker = Worker()
    first = letters(30)
    worker.fail(*(one.message_id for one in first))
    worker.replay(*first)
    back = [returned(entry, f"back-{i}") for i, entry in enumerate(worker.main.sent)]
    outcome = worker.later(150).replay(*back)

    (report,) = outcome.breakers.values()
    assert report.is_open
    (event,) = report.events
    assert event == f"circuit breaker opened for {TIMEOUT}: 100 % of 30 first replays returned"

    worker.fail("new")
    others = worker.later(2).replay(message("new"), message("healthy"))
    assert isinstance(fates(others)[1], Replay)
    assert worker.table.states[TIMEOUT].phase is Phase.OPEN
    assert worker.metric_reads == 0


@pytest.mark.parametrize(
    ("deleted", "opens"),
    [
        (dict.fromkeys(range(MINUTE - 4, MINUTE + 1), 6), True),
        (dict.fromkeys(range(MINUTE - 4, MINUTE + 1), 7), False),
        ({}, False),
    ],
)
def test_messages_without_an_error_need_the_metric_too(
    deleted: Mapping[int, int], *, opens: bool
) -> None:
    worker = Worker(deleted=deleted)
    worker.replay(*letters(30))
    back = [returned(entry, f"back-{i}") for i, entry in enumerate(worker.main.sent)]
    worker.later(150).replay(*back)
    assert worker.metric_reads == 0

    worker.later(90).replay(message("new"))
    assert worker.metric_reads == 1
    assert (worker.table.states["unknown"].phase is Phase.OPEN) is opens


def test_open_breaker_holds_and_the_counter_stays() -> None:
    worker = Worker(between_probes())
    outcome = worker.replay(*letters(2), message("m-2", attributes=counter("2")))

    assert fates(outcome) == [Hold(1, NOW + 900, 900)] * 2 + [Hold(3, NOW + 900, 900)]
    assert (worker.main.sent, worker.parked.sent) == ([], [])
    assert [entry.attributes.get("sqs-dlq-replay-nb") for entry in worker.dlq.sent[:2]] == [
        None
    ] * 2
    assert worker.dlq.sent[2].attributes["sqs-dlq-replay-nb"].value == "2"
    assert {context_of(entry).held_seconds for entry in worker.dlq.sent} == {NOW}
    (report,) = outcome.breakers.values()
    assert report.held == 3


def test_held_copies_keep_error_type_first_replay_and_first_hold() -> None:
    worker = Worker(
        FakeBreakers(
            types=frozenset({TIMEOUT}), states={TIMEOUT: between_probes().states["unknown"]}
        )
    )
    ours = {**counter("1"), **context(first_replay_seconds=NOW - 300, held_seconds=NOW - 5000)}
    worker.fail("a")
    worker.replay(message("a", attributes=ours))
    (held,) = worker.dlq.sent
    worker.later(30).replay(returned(held, "copy without a record"))

    first, second = (context_of(entry) for entry in worker.dlq.sent)
    assert first.error_type == second.error_type == TIMEOUT
    assert first.first_replay_seconds == second.first_replay_seconds == NOW - 300
    assert first.held_seconds == second.held_seconds == NOW - 5000


def test_a_replay_keeps_since_when_it_was_held_and_drops_the_first_replay() -> None:
    worker = Worker()
    ours = {**counter("1"), **context(first_replay_seconds=NOW - 300, held_seconds=NOW - 5000)}
    worker.replay(message("a", attributes=ours))

    sent = context_of(worker.main.sent[0])
    assert (sent.held_seconds, sent.first_replay_seconds, sent.error_type) == (
        NOW - 5000,
        None,
        None,
    )


@pytest.mark.parametrize(("held_for", "is_held"), [(43_199, True), (43_200, False)])
def test_nothing_is_held_for_more_than_twelve_hours(held_for: int, *, is_held: bool) -> None:
    worker = Worker(between_probes())
    ours = context(held_seconds=NOW - held_for, due_seconds=NOW - 1)
    (fate,) = fates(worker.replay(message("a", attributes=ours)))

    assert fate == (Hold(1, NOW + 1, 1) if is_held else Replay(1, 0))


def test_max_age_counts_while_it_is_held() -> None:
    worker = Worker(between_probes(), policy=policy(max_age_seconds=600))
    worker.replay(message("a", attributes=context(first_seen_seconds=NOW - 601)))

    assert context_of(worker.parked.sent[0]).reason == "too_old"


@pytest.mark.parametrize(
    ("letter", "limits"),
    [
        (message("a", attributes=filler(9)), {}),
        (message("a", body="x" * 900), {"max_message_bytes": 1000}),
        (message("a"), {"dlq_retention_seconds": 60}),
    ],
    ids=["no attribute left", "no bytes left", "short retention"],
)
def test_what_cannot_be_held_is_replayed_as_without_a_breaker(
    letter: Message, limits: dict[str, Any]
) -> None:
    worker = Worker(between_probes(), policy=policy(**limits))

    assert fates(worker.replay(letter)) == [Replay(1, 4)]


def test_what_was_read_before_the_environment_was_frozen_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, frozen = time.monotonic(), [0.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: started + frozen[0])
    table = between_probes()
    worker = BreakerWorker(table, BreakerRules(), lambda _, __: {})
    assert worker.look([message("a")], {}, NOW) is not None

    frozen[0], table.faults = 61.0, denied
    assert worker.look([message("a")], {}, NOW + 61) is None


def fifo(message_id: str, group: str, entered: int, **attributes: Any) -> Message:
    system = {"MessageGroupId": group, "SentTimestamp": str(entered * 1000)}
    return message(message_id, attributes=attributes.get("ours"), **system)


def fifo_worker(table: FakeBreakers) -> Worker:
    limits = policy("main.fifo", rate_seconds=1, cap_seconds=0)
    return Worker(table, policy=limits, max_receive_count=5)


def test_fifo_heads_are_held_by_visibility_and_keep_their_order() -> None:
    worker = fifo_worker(between_probes(0))
    outcome = worker.replay(
        fifo("a1", "a", NOW), fifo("b1", "b", NOW), fifo("a2", "a", NOW), fifo("b2", "b", NOW)
    )

    assert worker.main.sent == worker.dlq.sent == []
    assert worker.dlq.visibility == [("a1", 300), ("b1", 300), ("a2", 0), ("b2", 0)]
    assert len(outcome.to_partial_batch_response()["batchItemFailures"]) == 4


@pytest.mark.parametrize(
    ("age", "retention", "is_held"),
    [(43_199, 345_600, True), (43_200, 345_600, False), (3000, 4000, False), (10, 4000, True)],
    ids=["nearly 12 h", "12 h", "would expire", "young"],
)
def test_fifo_head_is_held_no_longer_than_it_may(
    age: int, retention: int, *, is_held: bool
) -> None:
    worker = fifo_worker(between_probes())
    worker.replayer = replace(
        worker.replayer,
        policy=policy("main.fifo", rate_seconds=1, cap_seconds=0, dlq_retention_seconds=retention),
    )
    (fate,) = fates(worker.replay(fifo("a", "a", NOW - age)))

    assert isinstance(fate, Hold) is is_held
    if not is_held:
        assert context_of(worker.main.sent[0]).held_seconds == NOW - age


def test_fifo_head_that_was_held_twelve_hours_in_an_earlier_life_is_not_held_again() -> None:
    worker = fifo_worker(between_probes())
    letter = fifo("a", "a", NOW, ours=context(held_seconds=NOW - 43_200))

    assert fates(worker.replay(letter)) == [Replay(1, 0)]


def test_open_breaker_lets_one_probe_a_minute_through() -> None:
    worker = Worker(opened())
    outcome = worker.replay(*letters(5))
    assert [type(fate) for fate in fates(outcome)] == [Replay, Hold, Hold, Hold, Hold]
    assert worker.table.states["unknown"].probes == {NOW + 4: "copy-1"}

    assert {type(fate) for fate in fates(worker.later(59).replay(*letters(5, 10)))} == {Hold}
    again = worker.later(1).replay(*letters(5, 20))
    assert [type(fate) for fate in fates(again)] == [Replay, Hold, Hold, Hold, Hold]


def test_a_message_that_must_wait_longer_is_no_probe() -> None:
    worker = Worker(opened(), policy=policy(rate_seconds=100))

    assert {type(fate) for fate in fates(worker.replay(*letters(3)))} == {Hold}
    assert "probe_at" not in worker.table.states["unknown"].numbers


def test_a_probe_that_returns_is_recognised_whatever_it_failed_with() -> None:
    worker = Worker(opened())
    worker.replay(message())
    worker.fail("copy-1")
    worker.later(100).replay(returned(worker.main.sent[0], "copy-1"))

    state = worker.table.states["unknown"]
    assert state.probes == {}
    assert state.numbers["returned_at"] == NOW + 4


def two_workers(main: FakeQueue | None = None) -> tuple[Worker, Worker]:
    """Both know an open breaker whose next probe is due now."""
    table, clock, main = opened(probe_at=NOW - 59), Clock(), main or FakeQueue()
    sender, other = (Worker(table, clock, main=main) for _ in range(2))
    for worker in (sender, other):
        worker.replay(message("before"))
    clock.seconds += 1
    return sender, other


def test_a_probe_is_recognised_by_a_worker_that_read_the_table_before_it_was_sent() -> None:
    sender, other = two_workers()
    sender.replay(message())
    other.later(0.5).replay(returned(sender.main.sent[0], "copy-1"))

    state = other.table.states["unknown"]
    assert (state.probes, state.numbers["returned_at"]) == ({}, NOW + 5)


def test_a_probe_is_recognised_while_reads_of_the_table_lag_behind() -> None:
    sender, other = two_workers()
    other.table.lagging = dict(other.table.states)
    sender.replay(message())
    other.later(10).replay(returned(sender.main.sent[0], "copy-1"))

    state = other.table.states["unknown"]
    assert (state.probes, state.numbers["returned_at"]) == ({}, NOW + 5)


@pytest.mark.parametrize("seconds", [2, 100], ids=["soon", "late"])
def test_a_probe_is_recognised_that_returns_before_its_id_is_stored(seconds: int) -> None:
    class SlowQueue(FakeQueue):
        def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
            results = super().send(entries)
            if len(self.sent) == 1:
                other.replay(returned(entries[0], "copy-1"))
            return results

    sender, other = two_workers(SlowQueue())
    sender.replay(message())
    assert other.table.states["unknown"].probes == {NOW + 5: "copy-1"}
    other.later(seconds).replay(message("next"))

    state = other.table.states["unknown"]
    assert "copy-1" not in state.probes.values()
    assert state.numbers["returned_at"] == NOW + 5


def test_probes_that_come_back_at_once_never_close_it() -> None:
    """Two workers in turns, each of which gets the probes of the other half a second later."""
    sender, other = two_workers()
    for minute in range(10):
        sender.replay(message(f"m-{minute}"))
        other.later(0.5).replay(returned(sender.main.sent[-1], f"copy-{minute + 1}"))
        sender, other = other, sender
        other.later(59).replay(message(f"between-{minute}"))
        sender.later(0.5)

    assert len(sender.main.sent) == 10
    assert sender.table.states["unknown"].phase is Phase.OPEN


def test_a_message_costs_one_read_in_two_seconds_while_no_breaker_is_open() -> None:
    calls: list[str] = []
    worker = Worker(FakeBreakers(faults=calls.append))
    back = counter("1")
    for index in range(20):
        worker.later(0.1).replay(message(f"m-{index}", attributes=back))

    assert calls.count("read") == 1


@pytest.mark.parametrize("result", [Refused("Throttled"), InDoubt("lost")])
def test_a_probe_that_is_not_confirmed_counts_as_nothing(result: SendResult) -> None:
    worker = Worker(opened())
    worker.main.refuses = {"body-0": result}
    outcome = worker.replay(*letters(3))

    assert [type(fate) for fate in fates(outcome)] == [Failed, Hold, Hold]
    assert outcome.failed[0].is_left
    state = worker.table.states["unknown"]
    assert (state.probes, state.numbers["probe_at"]) == ({}, NOW)
    assert [type(f) for f in fates(worker.later(60).replay(*letters(2, 9)))] == [Replay, Hold]


def test_a_worker_that_dies_between_claim_and_confirmation_costs_one_minute() -> None:
    table = opened()

    class Dying(FakeQueue):
        def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
            raise SystemExit

    class ExitingExecutor(InlineExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    dying = Worker(table, main=Dying(), executor=ExitingExecutor())
    with pytest.raises(SystemExit):
        dying.replay(message())
    other = Worker(table)

    assert fates(other.later(59).replay(message())) == [Hold(1, NOW + 59 + 900, 900)]
    assert fates(other.later(1).replay(message())) == [Replay(1, 4)]


def test_closes_when_three_probes_stay_away_and_says_so() -> None:
    worker = Worker(opened())
    events: list[str] = []
    for index in range(7):
        outcome = worker.replay(message(f"m-{index}"))
        (report,) = outcome.breakers.values()
        events += report.events
        worker.later(60)

    assert events == ["circuit breaker closed for unknown: 3 probes in a row did not return"]
    assert worker.table.states["unknown"].phase is Phase.RAMP


def fifo_worker_with_good_probes(*deleted: int) -> Worker:
    """Three probes have stayed away; the main queue deleted so many messages in each minute."""
    probes = {NOW - 540: "p-1", NOW - 480: "p-2", NOW - 420: "p-3"}
    state = BreakerState({"opened_at": NOW - 3600, "probe_at": NOW - 1}, probes)
    worker = fifo_worker(FakeBreakers(states={"unknown": state}))
    worker.deleted = {MINUTE - 9 + index: count for index, count in enumerate(deleted)}
    return worker


@pytest.mark.parametrize(
    ("deleted", "phase"),
    [
        ((0, 0, 0, 0, 0, 0), Phase.OPEN),
        ((0, 1, 0, 1, 0, 0, 9, 9, 9), Phase.OPEN),
        ((0, 1, 0, 1, 0, 1), Phase.RAMP),
        ((0, 0, 0), Phase.RAMP),
        ((), Phase.RAMP),
    ],
    ids=["none", "too few that are known for sure", "as many", "half is missing", "not known"],
)
def test_fifo_breaker_closes_once_the_main_queue_deleted_as_many_messages(
    deleted: Sequence[int], phase: Phase
) -> None:
    worker = fifo_worker_with_good_probes(*deleted)
    worker.replay(fifo("a", "a", NOW))

    assert worker.table.states["unknown"].phase is phase


def test_fifo_breaker_that_could_close_asks_the_metric_once_a_minute() -> None:
    worker = fifo_worker_with_good_probes(*[0] * 20)
    for _ in range(12):
        worker.replay(fifo("a", "a", NOW))
        worker.later(10)

    assert worker.metric_reads == 2


def ramp_of(limit: int) -> FakeBreakers:
    numbers = {"ramp": limit, "ramp_at": NOW, "closed_at": NOW}
    return FakeBreakers(states={"unknown": BreakerState(numbers)})


def test_ramp_limits_replays_and_holds_the_others() -> None:
    worker = Worker(ramp_of(600))
    outcome = worker.replay(*letters(30))

    assert [type(fate) for fate in fates(outcome)] == [Replay] * 10 + [Hold] * 20
    assert worker.table.states["unknown"].numbers[f"g{MINUTE}"] == 10
    assert worker.table.states["unknown"].numbers["turned_away_at"] == NOW


def test_ramp_goes_on_while_nothing_but_held_copies_come() -> None:
    worker = Worker(ramp_of(60))
    held = context(due_seconds=NOW - 1, held_seconds=NOW - 900)
    for _ in range(40):
        worker.later(60).replay(*(message(f"m-{index}", attributes=held) for index in range(5)))

    assert worker.table.states["unknown"].phase is Phase.RAMP
    assert worker.table.states["unknown"].numbers["turned_away_at"] == worker.clock.seconds


def test_a_table_that_cannot_be_used_changes_nothing() -> None:
    batch = [
        *letters(3),
        message("b", attributes=counter("2")),
        message("c", attributes=counter("3")),
        message("d", attributes=context(held_seconds=NOW - 9, due_seconds=NOW - 1, error_type="E")),
    ]
    broken, without = Worker(FakeBreakers(faults=denied)), Worker(is_without=True)
    outcome, expected = broken.replay(*batch), without.replay(*batch)

    assert outcome.outcomes == expected.outcomes
    assert (broken.main.sent, broken.dlq.sent) == (without.main.sent, without.dlq.sent)
    assert broken.parked.sent == without.parked.sent
    (report,) = outcome.breakers.values()
    assert report.fault == "AccessDeniedException: not authorized"
    assert not report.is_open


def test_a_fault_of_the_table_is_said_once_until_it_is_over() -> None:
    worker = Worker(FakeBreakers(faults=denied))
    faults = []
    for _ in range(20):
        outcome = worker.later(10).replay(message())
        (report,) = outcome.breakers.values()
        faults.append(report.fault)

    assert faults == ["AccessDeniedException: not authorized", *[None] * 19]


def writes_denied(call: str) -> None:
    if call != "read":
        denied(call)


@pytest.mark.parametrize("fault", [denied, writes_denied], ids=["all calls", "writes"])
def test_the_last_known_state_counts_for_a_minute_and_comes_back(fault: Any) -> None:
    worker = Worker(between_probes())
    worker.replay(message())
    worker.table.faults = fault
    held = [isinstance(fates(worker.later(5).replay(message()))[0], Hold) for _ in range(12)]
    blind = [fates(worker.later(5).replay(message()))[0] for _ in range(12)]
    worker.table.faults = lambda _: None
    worker.later(5).replay(message())
    after = worker.later(5).replay(message())

    assert all(held[:11])
    assert {type(fate) for fate in blind[2:]} == {Replay}
    assert worker.breakers is not None
    assert isinstance(fates(after)[0], Hold | Replay)
    assert context_of(worker.main.sent[-1] if not worker.dlq.sent else worker.dlq.sent[-1])
    assert worker.table.states["unknown"].phase is Phase.OPEN


def test_an_environment_writes_once_a_second() -> None:
    worker = Worker()
    for index in range(100):
        worker.later(0.1).replay(message(f"m-{index}"))

    assert 9 <= len(worker.table.updates) <= 11
    worker.later(1).replay(message("last"))
    numbers = worker.table.states["unknown"].numbers
    assert sum(count for name, count in numbers.items() if name.startswith("n")) == 101


def test_a_batch_writes_four_items_and_keeps_the_rest_for_later() -> None:
    worker = Worker(FakeBreakers(types=frozenset(f"E{n}" for n in range(8))))
    for n in range(8):
        worker.fail(f"m-{n}", error_type=f"E{n}")
    worker.replay(*letters(8))
    assert len(worker.table.updates) == 4

    worker.later(1).replay(message("m-0"))
    worker.later(1).replay(message("m-0"))
    assert worker.table.states.keys() == {f"E{n}" for n in range(8)}


def test_eight_error_types_have_a_breaker_and_the_rest_share_one() -> None:
    worker = Worker()
    for n in range(12):
        worker.fail(f"m-{n}", error_type=f"E{n}")
    for _ in range(9):
        worker.later(1).replay(*letters(12))

    assert worker.table.types == {f"E{n}" for n in range(MAX_TYPES)}
    assert worker.table.states.keys() == {*worker.table.types, "other"}


def crowd_of(
    count: int, table: FakeBreakers, skews: Sequence[int] = (0,)
) -> tuple[Clock, list[Worker]]:
    """So many workers on one table; their clocks differ from it by *skews*, in turn."""
    clock = Clock()
    table.now_seconds = clock
    return clock, [
        Worker(table, clock, skew_seconds=skews[index % len(skews)]) for index in range(count)
    ]


def replay_by_all(crowd: Sequence[Worker], second: int) -> int:
    """Each worker gets a message of its own; how many of them went to the main queue."""
    before = sum(len(worker.main.sent) for worker in crowd)
    for number, worker in enumerate(crowd):
        assert not worker.replay(message(f"{second}-{number}")).failed
    return sum(len(worker.main.sent) for worker in crowd) - before


@pytest.mark.parametrize(("count", "throttled"), [(200, False), (1000, True)])
def test_many_workers_send_one_probe_a_minute_and_count_what_the_item_can_take(
    count: int, *, throttled: bool
) -> None:
    table = opened(**{f"n{MINUTE - index}": 600 for index in range(60)})
    clock, crowd = crowd_of(count, table)
    sent = {}
    for second in (0, 1, 59, 60):
        clock.seconds = NOW + second
        sent[second] = replay_by_all(crowd, second)

    assert sent == {0: 1, 1: 0, 59: 0, 60: 1}
    assert len(table.states["unknown"].probes) == 2
    assert (table.throttled > 0) is throttled
    arrived = table.states["unknown"].count("n", (MINUTE, MINUTE + 1))
    assert arrived > 0.6 * 4 * count


def test_two_hundred_workers_share_a_ramp() -> None:
    clock, crowd = crowd_of(200, ramp_of(600))
    sent = 0
    for second in range(0, 60, 10):
        clock.seconds = NOW + second
        sent += replay_by_all(crowd, second)

    assert 300 <= sent <= 600


def test_clocks_that_differ_by_two_minutes_send_hardly_more_probes() -> None:
    clock, crowd = crowd_of(20, opened(), skews=(0, 120, -120))
    for second in range(0, 180, 5):
        clock.seconds = NOW + second
        replay_by_all(crowd, second)

    claims = [update for _, update in crowd[0].table.updates if "probe_at" in update.put]
    assert 3 <= len(claims) <= 5
    assert all(worker.parked.sent == [] for worker in crowd)


def test_time_that_is_up_asks_nothing_of_the_table() -> None:
    worker = Worker(opened())

    def no_call(_: str) -> None:
        raise BreakerTableError("asked")

    worker.table.faults = no_call
    outcome = worker.replayer.replay([message()], lambda: 0.0)
    assert outcome.breakers == {}
    assert isinstance(fates(outcome)[0], Failed)


def test_contexts_carry_nothing_of_the_breaker_without_one() -> None:
    worker = Worker(is_without=True)
    worker.replay(message())

    assert '"r":' not in str(worker.main.sent[0].attributes[CONTEXT_ATTRIBUTE].value)
