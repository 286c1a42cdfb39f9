from dlq_replay.message import SendEntry
from spark_reprocess.redrive.pacing import Pace, PacedQueue
from tests.builders import FakeQueue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_sends_are_spread_over_time() -> None:
    clock = Clock()
    queue = PacedQueue(FakeQueue(), Pace(5.0, lambda: clock.now, clock.sleep))
    times = []

    for _ in range(3):
        queue.send([SendEntry("x")] * 10)
        times.append(clock.now)

    assert times == [100.0, 102.0, 104.0]


def test_idle_time_is_not_saved_up() -> None:
    clock = Clock()
    pace = Pace(1.0, lambda: clock.now, clock.sleep)

    pace.wait_for(1)
    clock.now += 60
    pace.wait_for(10)
    pace.wait_for(1)

    assert clock.now == 170.0


def test_paced_queue_is_still_that_queue() -> None:
    inner = FakeQueue(url="https://q")
    clock = Clock()

    queue = PacedQueue(inner, Pace(1.0, lambda: clock.now, clock.sleep))

    assert queue.url == "https://q"
    assert queue.send([SendEntry("x")])
    assert [entry.body for entry in inner.sent] == ["x"]
