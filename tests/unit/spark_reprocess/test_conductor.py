"""Driver and tasks on one machine, over real sockets."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from spark_reprocess.errors import InputError
from spark_reprocess.redrive.conducted import (
    Address,
    Conducted,
    DriverUnreachableError,
    conducted,
)
from spark_reprocess.redrive.conductor import conducting

SOON = 20.0
"""Seconds that no test takes, unless it fails."""

DISTANT = 0.001
"""Messages a second: after the first, nobody's turn comes in a test's life."""


def until(is_so: Callable[[], object]) -> None:
    waited = threading.Event()
    for _ in range(int(SOON * 100)):
        if is_so():
            return
        waited.wait(0.01)
    raise AssertionError("it never came to pass")


def closed(gate: Conducted) -> str:
    until(lambda: gate.stopped_by)
    return gate.stopped_by


def test_gate_is_open_without_a_rate() -> None:
    with conducting(None) as (_, address), conducted(address) as gate:
        assert all(gate.enter(10, SOON) for _ in range(100))
        assert gate.call_messages == 10


def test_rate_holds_over_all_tasks_together() -> None:
    with (
        conducting(DISTANT) as (_, address),
        conducted(address) as one,
        conducted(address) as other,
    ):
        assert one.call_messages == 1
        assert one.enter(1, SOON)
        one.leave(1)

        assert not other.enter(1, 0.2)


def test_calls_of_all_threads_get_through() -> None:
    passed: list[int] = []

    def send(gate: Conducted, thread: int) -> None:
        for _ in range(20):
            assert gate.enter(10, SOON)
            passed.append(thread)
            gate.leave(10)

    with (
        conducting(100_000.0) as (_, address),
        conducted(address) as one,
        conducted(address) as other,
    ):
        threads = [
            threading.Thread(target=send, args=(gate, n)) for n in range(8) for gate in (one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)

    assert len(passed) == 320


def test_permit_that_comes_too_late_is_given_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with conducted(Address("127.0.0.1", port, "token", is_paced=True)) as gate:
            driver, _ = server.accept()
            with driver, driver.makefile("rb") as lines:
                assert lines.readline() == b'["hello", "token"]\n'
                assert not gate.enter(2, 0.0)
                assert lines.readline() == b'["ask", 1, 2]\n'
                driver.sendall(b'["go", 1, 2]\n')

                assert lines.readline() == b'["end", 2]\n'


def test_stop_reaches_every_task_and_those_who_wait() -> None:
    answers: list[bool] = []
    with (
        conducting(DISTANT) as (conductor, address),
        conducted(address) as one,
        conducted(address) as other,
    ):
        assert one.enter(1, SOON)
        waiting = threading.Thread(target=lambda: answers.append(other.enter(1, SOON)))
        waiting.start()
        conductor.stop("interrupted")

        assert (closed(one), closed(other)) == ("interrupted", "interrupted")
        waiting.join(SOON)
        assert answers == [False]
        assert not one.enter(1, SOON)


def test_task_that_comes_after_the_stop_is_told() -> None:
    with conducting(None) as (conductor, address):
        conductor.stop("interrupted")
        with conducted(address) as late:
            assert closed(late) == "interrupted"


def test_task_can_stop_all_others() -> None:
    with (
        conducting(None) as (conductor, address),
        conducted(address) as one,
        conducted(address) as other,
    ):
        one.stop("the queue is gone")

        assert closed(other) == "the queue is gone"
        assert not one.enter(1, SOON)
        assert conductor.stopped_by == "the queue is gone"


def test_first_reason_to_stop_is_the_one_that_counts() -> None:
    with conducting(None) as (conductor, address), conducted(address) as gate:
        conductor.stop("interrupted")
        closed(gate)
        gate.stop("and so is the rest")

        assert gate.stopped_by == "interrupted"


def test_counts_of_all_tasks_are_added_up() -> None:
    with conducting(None) as (conductor, address):
        for _ in range(3):
            with conducted(address) as gate:
                gate.report({"sent": 98, "failed": 2})

        until(lambda: conductor.counts == {"sent": 294, "failed": 6})


def test_task_without_a_driver_stops() -> None:
    with conducting(None) as (_, address):
        gate = conducted(address)
        task = gate.__enter__()
    try:
        assert closed(task) in ("the driver is gone", "the line to the driver broke")
        assert not task.enter(1, SOON)
    finally:
        gate.__exit__(None, None, None)


def test_run_ends_whoever_says_hello_at_that_moment(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        with ExitStack() as tasks:
            with conducting(None) as (_, address):
                gates = [tasks.enter_context(conducted(address)) for _ in range(3)]
            assert all(map(closed, gates))

    assert caplog.records == []


def test_driver_that_says_nothing_counts_as_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        with conducting(None) as (_, address):
            silent = replace(address, port=mute.getsockname()[1])
        with conducted(silent, silence_seconds=0.1) as gate:
            assert "silent" in closed(gate)


@dataclass
class Clock:
    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("is_paced", [False, True])
def test_machine_that_slept_sends_nothing_before_its_driver_has_spoken(*, is_paced: bool) -> None:
    """Sockets' time-outs do not count the sleep, so only a clock that does can tell."""
    clock = Clock()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1], "token", is_paced=is_paced)
        with conducted(address, 0.2, clock) as gate:
            clock.now += 3600
            driver, _ = server.accept()
            with driver:
                assert not gate.enter(1, SOON)
                assert gate.stopped_by


def test_machine_that_slept_goes_on_once_its_driver_speaks() -> None:
    clock = Clock()
    with conducting(None) as (_, address), conducted(address, SOON, clock) as gate:
        clock.now += 3600

        assert gate.enter(1, SOON)


def test_machine_that_slept_stops_where_its_driver_knows_a_reason() -> None:
    clock, troubles = Clock(), [""]
    with (
        conducting(100.0, trouble=lambda: troubles[0]) as (_, address),
        conducted(address, SOON, clock) as gate,
    ):
        assert gate.enter(1, SOON)
        gate.leave(1)
        clock.now += 3600
        troubles[0] = "another run may have begun"

        assert not gate.enter(1, SOON)
        assert gate.stopped_by == "another run may have begun"


def test_driver_that_cannot_be_reached_is_said() -> None:
    with conducting(None) as (_, address):
        pass

    with pytest.raises(DriverUnreachableError, match=r"cannot reach the driver at 127\.0\.0\.1"):
        conducted(address).__enter__()


def test_stranger_is_turned_away() -> None:
    with conducting(None) as (_, address), conducted(replace(address, token="x")) as stranger:
        assert closed(stranger)


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'["hello"]\n', b"GET / HTTP/1.1\r\n\r\n"])
def test_nonsense_does_not_disturb_the_others(line: bytes) -> None:
    with conducting(None) as (_, address), conducted(address) as gate:
        with socket.create_connection((address.host, address.port), SOON) as stranger:
            stranger.sendall(line)
            assert stranger.recv(1) == b""

        assert gate.enter(1, SOON)


def test_dead_task_frees_its_place_in_the_queue() -> None:
    with conducting(DISTANT) as (_, address), conducted(address) as alive:
        with conducted(address) as dying:
            assert dying.enter(1, SOON)
            assert not dying.enter(1, 0.0)

        assert not alive.enter(1, 0.2)
        assert not alive.stopped_by


def test_host_that_is_not_this_machine_is_named() -> None:
    with pytest.raises(InputError, match=r"spark\.driver\.host 192\.0\.2\.1: cannot be listened"):
        conducting(None, "192.0.2.1").__enter__()
