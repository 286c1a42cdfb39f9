from hypothesis import given
from hypothesis import strategies as st

from local_sqs.timers import Timers


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=300))
def test_what_is_not_cancelled_fires_in_order(entries: list[tuple[int, bool]]) -> None:
    timers: Timers[int] = Timers()
    set_timers = [timers.set(due, index) for index, (due, _) in enumerate(entries)]
    for timer, (_, is_cancelled) in zip(set_timers, entries, strict=True):
        if is_cancelled:
            timers.cancel(timer)
    kept = [(due, i) for i, (due, is_cancelled) in enumerate(entries) if not is_cancelled]

    assert timers.next_due_ms() == min((due for due, _ in kept), default=None)
    assert list(timers.fire(25)) == [i for due, i in sorted(kept) if due <= 25]
    assert list(timers.fire(50)) == [i for due, i in sorted(kept) if due > 25]


def test_cancelled_timers_do_not_pile_up() -> None:
    timers: Timers[int] = Timers()
    for number in range(10_000):
        timers.cancel(timers.set(1_000_000, number))

    assert len(timers._heap) < 200  # noqa: SLF001 - the size is the point
