from dataclasses import dataclass

from dlq_replay.consumer.heartbeat import AwakeClock


@dataclass
class Machine:
    monotonic: float = 100.0
    time_of_day: float = 1_700_000_000.0

    def clock(self) -> AwakeClock:
        return AwakeClock(lambda: self.monotonic, lambda: self.time_of_day)

    def run(self, seconds: float) -> None:
        self.monotonic += seconds
        self.time_of_day += seconds

    def sleep(self, seconds: float) -> None:
        self.time_of_day += seconds


def test_running_machine_counts_its_seconds() -> None:
    machine = Machine()
    clock = machine.clock()
    began = clock()
    machine.run(60)

    assert clock() - began == 60


def test_sleep_of_the_machine_counts() -> None:
    machine = Machine()
    clock = machine.clock()
    began = clock()
    machine.sleep(3600)
    machine.run(10)

    assert clock() - began == 3610


def test_time_of_day_that_is_set_back_changes_nothing() -> None:
    machine = Machine()
    clock = machine.clock()
    began = clock()
    machine.sleep(100)
    assert clock() - began == 100
    machine.time_of_day -= 7200
    machine.run(5)

    assert clock() - began == 105


def test_real_clock_never_goes_back() -> None:
    clock = AwakeClock()
    readings = [clock() for _ in range(1000)]

    assert readings == sorted(readings)
