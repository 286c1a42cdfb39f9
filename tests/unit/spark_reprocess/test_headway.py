from collections import Counter

from spark_reprocess.redrive.headway import Headway


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_line_says_how_far_how_fast_and_how_long() -> None:
    counts, clock = Counter[str](), Clock()
    headway = Headway(1000, lambda: counts, clock)

    clock.now += 10
    counts["sent"] = 200

    assert headway() == "200 of 1,000 messages, 20/s, 40 s left"


def test_trouble_is_named() -> None:
    counts, clock = Counter(sent=90, failed=3, in_doubt=5, busy=2), Clock()
    headway = Headway(100, lambda: counts, clock)

    clock.now += 10

    assert headway() == "100 of 100 messages, 10/s, 90 sent, 3 failed, 5 in doubt, 2 busy"


def test_task_that_runs_again_does_not_count_beyond_the_total() -> None:
    counts, clock = Counter(sent=120), Clock()
    headway = Headway(100, lambda: counts, clock)

    clock.now += 10

    assert headway() == "100 of 100 messages, 10/s"


def test_rate_is_that_of_late() -> None:
    counts, clock = Counter[str](), Clock()
    headway = Headway(100_000, lambda: counts, clock)
    for _ in range(60):
        clock.now += 1
        counts["sent"] += 100
        headway()
    for _ in range(60):
        clock.now += 1
        counts["sent"] += 5
        line = headway()

    assert "6,300 of 100,000 messages, 5/s" in line


def test_nothing_yet_promises_nothing() -> None:
    assert Headway(10, dict, Clock())() == "0 of 10 messages, 0/s"
