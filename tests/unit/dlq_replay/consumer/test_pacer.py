"""With real threads. Events order them; no test waits for a time to pass."""

import threading

import pytest

from dlq_replay.consumer.pacer import ThreadPacer

PATIENCE_SECONDS = 30
NEVER = 3600.0


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


def heartbeat_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "sqs-heartbeat"]


def test_step_is_called_again_and_again_in_a_daemon_thread() -> None:
    third = threading.Event()
    threads = []

    def step() -> float:
        threads.append(threading.current_thread())
        if len(threads) == 3:
            third.set()
        return 0.001

    pacer = ThreadPacer()
    pacer.start(step)
    wait(third)
    pacer.stop()

    assert threads[0].daemon
    assert not threads[0].is_alive()
    assert threads[0] is not threading.current_thread()


def test_stop_waits_for_a_step_in_progress() -> None:
    entered, leave = threading.Event(), threading.Event()
    ended = []

    def step() -> float:
        entered.set()
        wait(leave)
        ended.append(True)
        return NEVER

    pacer = ThreadPacer()
    pacer.start(step)
    wait(entered)
    threading.Timer(0.05, leave.set).start()
    pacer.stop()

    assert ended == [True]


def test_wake_calls_the_step_before_its_time() -> None:
    called = [threading.Event(), threading.Event()]
    steps = iter(called)

    def step() -> float:
        next(steps).set()
        return NEVER

    pacer = ThreadPacer()
    pacer.start(step)
    wait(called[0])
    pacer.wake()
    wait(called[1])
    pacer.stop()


def test_thread_ends_with_the_owner_that_never_stopped_it() -> None:
    begun = threading.Event()
    pacer = ThreadPacer()

    def step() -> float:
        begun.set()
        return 0.001

    owner = threading.Thread(target=lambda: pacer.start(step))
    owner.start()
    owner.join()
    wait(begun)
    for thread in heartbeat_threads():
        thread.join(PATIENCE_SECONDS)

    assert heartbeat_threads() == []


def test_step_that_fails_is_logged_and_does_not_end_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = threading.Event()
    steps = iter([True, False])

    def step() -> float:
        if next(steps):
            pacer.wake()
            raise ZeroDivisionError
        second.set()
        return NEVER

    pacer = ThreadPacer()
    pacer.start(step)
    wait(second)
    pacer.stop()

    assert "the heartbeat failed" in caplog.text


def test_step_may_stop_its_own_pacer() -> None:
    stopped = threading.Event()
    pacer = ThreadPacer()

    def step() -> float:
        pacer.stop()
        stopped.set()
        return NEVER

    pacer.start(step)
    wait(stopped)
    pacer.stop()

    assert heartbeat_threads() == []
