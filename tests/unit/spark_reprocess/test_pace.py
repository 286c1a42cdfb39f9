"""What the circuit breakers allow a run: rules, the driver's file, and a task that waits."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlq_replay.breaker import BreakerRules, BreakerState
from dlq_replay.errors import BreakerTableError
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.redrive.pace import Pacer, PaceWatch, messages_per_second
from spark_reprocess.redrive.stop_signals import StopSignals

NOW = 1_800_000_000
RULES = BreakerRules()
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
OPEN = {"opened_at": NOW - 300, "probe_at": NOW - 30}


@pytest.mark.parametrize(
    ("numbers", "probes", "expected"),
    [
        ({}, {}, None),
        ({"closed_at": NOW - 9999}, {}, None),
        (OPEN, {}, 0.0),
        # Three probes stayed away for long enough: the next batch of the function closes it.
        (OPEN, {NOW - 600: "a", NOW - 500: "b", NOW - 400: "c"}, 0.5),
        # Nobody probes any more, because no dead letter is left to probe with.
        ({"opened_at": NOW - 9999, "probe_at": NOW - 601}, {}, 0.5),
        ({"ramp": 120, "ramp_at": NOW - 60, "closed_at": NOW - 60}, {}, 1.0),
        # Nobody was turned away for longer than a hold lasts.
        ({"ramp": 120, "ramp_at": NOW - 961, "closed_at": NOW - 961}, {}, None),
    ],
)
def test_a_run_is_as_fast_as_the_breaker_allows(
    numbers: dict[str, int], probes: dict[int, str], expected: float | None
) -> None:
    assert messages_per_second(BreakerState(numbers, probes), NOW, RULES) == expected


@dataclass
class Table:
    states: dict[str, BreakerState] = field(default_factory=dict)
    error: str = ""

    def read(self, names: Iterable[str]) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        if self.error:
            raise BreakerTableError(self.error)
        return frozenset({"TimeoutError", "KeyError"}), self.states


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@dataclass
class Task:
    """A task's pacer on a clock that only its waits move."""

    archive: Archive
    tasks: int = 1
    now: float = float(NOW)
    on_wait: Callable[[float], object] = lambda _: None

    def __post_init__(self) -> None:
        self.pacer = Pacer(self.archive, "pace", QUEUE, self.tasks, lambda: self.now)
        self.signals = Signals(self)

    def seconds_until_sent(self, *error_types: str | None) -> float | None:
        before = self.now
        may_send = self.pacer.wait(error_types, self.signals)
        return self.now - before if may_send else None


class Signals(StopSignals):
    def __init__(self, task: Task) -> None:
        super().__init__(task.archive, "stop", None)
        self.task = task

    def wait(self, seconds: float) -> None:
        self.task.now += seconds
        self.task.on_wait(self.task.now - NOW)


def watch(archive: Archive, table: Table) -> PaceWatch:
    made = PaceWatch(archive, "pace", {QUEUE: table}, RULES, lambda: NOW)
    made.read()
    made.write()
    return made


def test_messages_of_an_open_breaker_wait_until_it_closes_and_others_do_not(
    archive: Archive,
) -> None:
    table = Table({"TimeoutError": BreakerState(OPEN)})
    driver = watch(archive, table)
    task = Task(archive)

    def close_after_a_minute(seconds: float) -> None:
        if seconds >= 60:
            table.states = {}
            driver.read()
            driver.write()

    task.on_wait = close_after_a_minute

    assert task.seconds_until_sent("KeyError", None) == 0
    assert task.seconds_until_sent("KeyError", "TimeoutError") == pytest.approx(60, abs=4)
    [sentence] = watch(archive, Table({"TimeoutError": BreakerState(OPEN)})).sentences()
    assert sentence.startswith("messages of orders that failed with TimeoutError: its circuit")


def test_errors_without_a_breaker_of_their_own_share_one(archive: Archive) -> None:
    watch(archive, Table({"other": BreakerState(OPEN)}))
    task = Task(archive)
    task.on_wait = lambda _: task.signals.stop_task("stopped")

    assert task.seconds_until_sent("TimeoutError") == 0
    assert task.seconds_until_sent("app.StrangeError") is None


def test_a_ramp_is_shared_among_the_tasks(archive: Archive) -> None:
    watch(
        archive, Table({"unknown": BreakerState({"ramp": 600, "ramp_at": NOW, "closed_at": NOW})})
    )
    task = Task(archive, tasks=4)

    # 5 messages a second over all: 100 of each of 4 tasks take 80 s.
    waits = [task.seconds_until_sent(*[None] * 100) for _ in range(3)]

    assert waits == [0, 80, 80]


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b'{"queues": {"%s": 1}}'])
def test_a_pace_that_cannot_be_read_slows_nothing_down(archive: Archive, content: bytes) -> None:
    archive.write("pace", content.replace(b"%s", QUEUE.encode()))

    assert Task(archive).seconds_until_sent("TimeoutError") == 0


def test_without_the_table_nothing_is_slowed_down_and_the_operator_knows(archive: Archive) -> None:
    table = Table({"unknown": BreakerState(OPEN)})
    driver = watch(archive, table)
    table.error = "AccessDeniedException: no"
    driver.read()
    driver.write()

    assert Task(archive).seconds_until_sent(None) == 0
    assert driver.sentences() == [
        "the circuit breakers are not known, and slow nothing down: AccessDeniedException: no"
    ]
