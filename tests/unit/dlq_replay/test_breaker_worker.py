"""A replay obeys a limit in a shared table, and goes on when the table or the metric fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dlq_replay.replaying.breaker_worker import BreakerReport, BreakerWorker
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.sending import Refused, forever
from dlq_replay.rules.breaker import BreakerView, rules_for
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.message import Message
from tests.support.breaker_tables import FakeBreaker, denied
from tests.support.builders import (
    BODY,
    context,
    context_of,
    counter,
    message,
    policy,
    queue_arn,
    replayer,
    three_queues,
)

MINUTE = 29_000_000
NOW = MINUTE * 60
MOVED = {"DeadLetterQueueSourceArn": queue_arn("main")}
LIMITED = {"limit": 1, "since": NOW - 3600, f"x{MINUTE}": 1, "judged": MINUTE}
SILENT = LIMITED | {"silent_since": NOW - 4000}


@dataclass
class Worker:
    """One execution environment, on a table that it may share."""

    table: FakeBreaker = field(default_factory=FakeBreaker)
    policy: ReplayPolicy = field(default_factory=policy)
    deleted: Mapping[int, int] = field(default_factory=dict)
    max_receive_count: int | None = None
    seconds: float = NOW
    metric_reads: int = 0

    def __post_init__(self) -> None:
        self.main, self.dlq, self.parked = queues = three_queues()
        rules = rules_for(self.policy.main_queue, self.max_receive_count)
        self.breaker = BreakerWorker(self.table, rules, self.read, lambda: self.seconds)
        self.replayer = replayer(
            self.policy,
            *queues,
            now_seconds=lambda: int(self.seconds),
            breakers={self.policy.main_queue: self.breaker},
        )

    def read(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        self.metric_reads += 1
        return {m: n for m, n in self.deleted.items() if start_seconds <= m * 60 < end_seconds}

    def replay(self, *letters: Message) -> BatchOutcome:
        return self.replayer.replay(letters, forever)

    def later(self, seconds: float) -> "Worker":
        self.seconds += seconds
        return self


def on(numbers: Mapping[str, int], **worker: Any) -> Worker:
    return Worker(FakeBreaker(numbers=numbers), **worker)


def letter(name: str, count: int = 0, *, held: int | None = None, **system: Any) -> Message:
    own = {**(counter(str(count)) if count else {}), **(context(held_seconds=held) if held else {})}
    return message(name, attributes=own, **{**MOVED, **system})


def decisions(outcome: BatchOutcome) -> list[str]:
    return [type(planned.decision).__name__ for planned in outcome.outcomes]


def report(outcome: BatchOutcome) -> BreakerReport:
    (only_report,) = outcome.breakers.values()
    return only_report


def test_arrivals_and_returns_are_counted_in_the_minute_in_which_they_come() -> None:
    worker = Worker()
    worker.replay(letter("a"), letter("b", 3), letter("c", held=NOW - 9))
    worker.later(60).replay(letter("d", 1))

    numbers = worker.table.numbers
    assert (numbers[f"n{MINUTE}"], numbers[f"b{MINUTE}"], numbers[f"b{MINUTE + 1}"]) == (1, 2, 1)


def test_a_copy_that_no_queue_takes_counts_when_it_leaves_the_dlq() -> None:
    """It stays, and comes again and again."""
    worker = Worker(policy=policy(max_attempts=1))
    worker.parked.refuses = {BODY: Refused("denied")}
    for _ in range(8):
        assert decisions(worker.later(2).replay(letter("stuck", 1))) == ["Failed"]
    assert f"b{MINUTE}" not in worker.table.numbers

    worker.parked.refuses = {}
    assert decisions(worker.later(2).replay(letter("stuck", 1))) == ["Park"]
    assert worker.table.numbers[f"b{MINUTE}"] == 1


def test_a_dead_letter_of_a_queue_that_is_not_configured_counts_for_none() -> None:
    worker = Worker()
    outcome = worker.replay(message("a", DeadLetterQueueSourceArn=queue_arn("foreign")))

    assert decisions(outcome) == ["Park"]
    assert f"n{MINUTE}" not in worker.table.numbers


def test_what_sqs_did_not_confirm_is_neither_turned_away_nor_granted() -> None:
    worker = on({"limit": 2, "since": NOW - 60}, seconds=NOW + 59)
    for queue in (worker.main, worker.dlq):
        queue.refuses = {BODY: Refused("throttled")}
    outcome = worker.replay(*(letter(name, 1) for name in "abcd"))

    assert decisions(outcome) == ["Failed"] * 4
    assert worker.table.numbers.get(f"x{MINUTE}", 0) == 0
    assert worker.table.numbers[f"g{MINUTE}"] == 0


def test_held_copies_and_what_a_producer_sends_to_the_dlq_count_for_nothing() -> None:
    worker = Worker()
    worker.replay(message("held", attributes=counter("3")), message("sent"))

    assert worker.table.calls == ["read"]


def test_on_fifo_a_copy_is_counted_at_its_first_look() -> None:
    worker = Worker(policy=policy("main.fifo"), max_receive_count=5)
    for receives in ("6", "7", "?"):
        worker.replay(fifo_letter("a", NOW, ApproximateReceiveCount=receives))
        worker.later(2)

    assert worker.table.numbers[f"n{MINUTE}"] == 1


def fifo_letter(name: str, moved_seconds: int, count: int = 0, **system: Any) -> Message:
    system = {"ApproximateReceiveCount": "6", "MessageGroupId": name, **system}
    source = queue_arn("main.fifo")
    moved = str(moved_seconds * 1000)
    return letter(name, count, DeadLetterQueueSourceArn=source, SentTimestamp=moved, **system)


def on_fifo(numbers: Mapping[str, int]) -> Worker:
    return on(
        numbers, policy=policy("main.fifo", dlq_retention_seconds=1_209_600), max_receive_count=5
    )


def test_on_fifo_a_message_that_waited_for_long_has_its_11_hours_from_the_limit() -> None:
    """It waited behind another, or replay was paused; no limit has touched it."""
    worker = on_fifo(SILENT | {"began": NOW - 3600, f"g{MINUTE}": 1})

    assert decisions(worker.replay(fifo_letter("a", NOW - 20 * 3600))) == ["Hold"]


def test_on_fifo_a_message_that_limits_touched_for_12_hours_is_not_held_again() -> None:
    """Nor after its replay came back, though a hold left no mark in it."""
    began = NOW - 13 * 3600
    worker = on_fifo(SILENT | {"began": began, f"g{MINUTE}": 1})

    assert decisions(worker.replay(fifo_letter("a", began - 60))) == ["Replay"]
    assert context_of(worker.main.sent[0]).held_seconds == began


def test_on_fifo_what_was_held_while_the_consumer_was_silent_is_limited_by_full() -> None:
    worker = on_fifo({"limit": 20, "since": NOW - 60, f"g{MINUTE}": 20})
    letters = [
        fifo_letter("held", NOW - 3600, ApproximateReceiveCount="9"),
        fifo_letter("new", NOW - 30),
    ]

    assert decisions(worker.replay(*letters)) == ["Hold", "Replay"]


def test_under_a_limit_of_1_one_goes_a_minute_and_the_others_are_held() -> None:
    worker = on(LIMITED)
    outcome = worker.replay(letter("a", 2), letter("b", 2), letter("c", 2))

    assert decisions(outcome) == ["Replay", "Hold", "Hold"]
    assert report(outcome) == BreakerReport(is_low=True)
    # No attempt of its own: the counter stays.
    assert worker.main.sent[0].attributes[next(iter(counter("2")))].value == "2"
    assert context_of(worker.main.sent[0]).held_seconds == NOW
    assert [context_of(entry).held_seconds for entry in worker.dlq.sent] == [NOW, NOW]
    assert worker.table.numbers[f"x{MINUTE}"] == 3
    assert decisions(worker.later(5).replay(letter("d", 2))) == ["Hold"]
    assert decisions(worker.later(60).replay(letter("e", 2))) == ["Replay"]


def test_a_first_replay_goes_unless_the_consumer_is_silent() -> None:
    spent = {f"g{MINUTE}": 1}

    assert decisions(on(LIMITED | spent).replay(letter("a"))) == ["Replay"]
    assert decisions(on(SILENT | spent).replay(letter("a"))) == ["Hold"]
    assert decisions(on(LIMITED | spent).replay(letter("a", held=NOW - 60))) == ["Hold"]


def test_full_counts_attempts_and_a_replay_without_a_limit_forgets() -> None:
    worker = on({"limit": 90, "since": NOW - 60})
    worker.replay(letter("a", 2, held=NOW - 600))
    worker.table.numbers = {}
    worker.later(3).replay(letter("b", 2, held=NOW - 600))

    values = [entry.attributes[next(iter(counter("1")))].value for entry in worker.main.sent]
    assert values == ["3", "3"]
    assert [context_of(entry).held_seconds for entry in worker.main.sent] == [NOW - 600, None]


def test_what_a_batch_did_not_need_is_given_back() -> None:
    """The second message has been replayed as often as it may be, and is parked."""
    worker = on({"limit": 6, "since": NOW - 60}, seconds=NOW + 59)
    outcome = worker.replay(letter("a", 1), letter("b", 20))

    assert decisions(outcome) == ["Replay", "Park"]
    assert worker.table.numbers[f"g{MINUTE}"] == 1


def test_one_worker_a_minute_reads_the_metric_and_sets_the_limit() -> None:
    silent = dict.fromkeys(range(MINUTE - 124, MINUTE - 9), 60) | dict.fromkeys(
        range(MINUTE - 9, MINUTE), 0
    )
    table = FakeBreaker(
        numbers=dict.fromkeys((f"n{minute}" for minute in range(MINUTE - 9, MINUTE)), 60)
    )
    first = Worker(table, deleted=silent)
    second = Worker(table, deleted=silent)
    outcome = first.replay(*(letter(f"m-{n}", 1) for n in range(5)))
    second.replay(*(letter(f"o-{n}", 1) for n in range(5)))

    assert report(outcome).event == (
        "circuit breaker: limited to 1 replay a minute since 2025-02-19 21:20 UTC; the consumer "
        "has deleted nothing for 9 minutes"
    )
    assert (first.metric_reads, second.metric_reads) == (1, 0)
    assert BreakerView(table.numbers, NOW).limit == 1


def test_a_batch_of_one_queue_says_whether_another_of_the_dlq_is_limited() -> None:
    """It reads that limit every 30 s; where it cannot, it does not know."""
    worker = Worker(policy=policy(others={"invoices": {}}))
    (invoices,) = worker.policy.other_main_queues
    table = FakeBreaker(numbers=SILENT)
    other = BreakerWorker(
        table, rules_for(invoices), worker.read, clock_seconds=lambda: worker.seconds
    )
    breakers = {**worker.replayer.breakers, invoices: other}
    worker.replayer = replace(worker.replayer, breakers=breakers)

    def are_low() -> list[bool | None]:
        return [report.is_low for report in worker.replay(letter("a")).breakers.values()]

    assert are_low() == [False, True]
    worker.later(29)
    assert are_low() == [False, True]
    assert table.calls == ["read"]
    # What was known counts for a minute, as for replays.
    table.faults = denied
    worker.later(25)
    assert are_low() == [False, True]
    worker.later(10)
    assert are_low() == [False, None]


def test_a_table_that_fails_is_asked_for_no_other_queue_of_the_batch() -> None:
    """It may be slow, and the answer must not wait for it."""
    worker = Worker(policy=policy(others={"invoices": {}}))
    (invoices,) = worker.policy.other_main_queues
    table = FakeBreaker()
    other = BreakerWorker(table, rules_for(invoices), worker.read)
    breakers = {**worker.replayer.breakers, invoices: other}
    worker.replayer = replace(worker.replayer, breakers=breakers)
    worker.table.faults = denied

    assert decisions(worker.replay(letter("a"))) == ["Replay"]
    assert table.calls == []


def test_a_metric_that_cannot_be_read_is_told_once_a_minute_and_changes_nothing() -> None:
    worker = Worker()
    letters = [letter(f"m-{n}", 1) for n in range(9)]
    outcomes = [worker.later(61 * n).replay(*letters) for n in range(2)]
    outcomes += [worker.later(5).replay(*letters)]

    assert [bool(report(outcome).fault) for outcome in outcomes] == [True, True, False]
    assert {name for outcome in outcomes for name in decisions(outcome)} == {"Replay"}
    assert worker.table.numbers["unread_since"] == NOW

    worker.deleted = dict.fromkeys(range(MINUTE - 130, MINUTE + 3), 60)
    worker.later(61).replay(*letters)
    assert "unread_since" not in worker.table.numbers


def test_a_table_that_fails_is_as_without_a_breaker_after_a_minute() -> None:
    worker = on(SILENT | {f"g{MINUTE}": 1, f"g{MINUTE + 1}": 1})
    worker.replay(letter("a", 1))
    worker.table.faults = denied

    assert decisions(worker.later(30).replay(letter("b", 1))) == ["Hold"]
    outcomes = [worker.later(31).replay(letter("c", 1)), worker.later(1).replay(letter("d", 1))]
    assert [decisions(outcome) for outcome in outcomes] == [["Replay"], ["Replay"]]
    assert report(outcomes[0]).fault is None, "told 31 seconds ago"


def test_writes_that_fail_are_dropped_and_end_the_breaker_after_a_minute() -> None:
    def fail(call: str) -> None:
        if call == "update":
            denied(call)

    worker = on(SILENT | {f"g{MINUTE}": 1, f"g{MINUTE + 1}": 1})
    worker.table.faults = fail
    outcomes = [worker.later(6).replay(letter(f"m-{n}", 1)) for n in range(12)]

    assert decisions(outcomes[0]) == ["Hold"]
    assert decisions(outcomes[-1]) == ["Replay"]
    worker.table.faults = lambda _: None
    worker.later(6).replay(letter("z", 1))
    assert worker.table.numbers.get(f"b{MINUTE + 1}", 0) <= 2
