import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_cli.simulate.timeline import Timeline, runs_of


def test_a_uniform_draw_is_a_single_run() -> None:
    runs = runs_of(dict.fromkeys(range(901), 1 / 901), step_seconds=1)

    assert [(0, 901)] == [(run.first, run.end) for run in runs]


def test_amounts_fall_due_in_their_steps() -> None:
    timeline = Timeline()
    timeline.add(2, 30.0, runs_of({0: 0.5, 1: 0.25, 2: 0.25}, step_seconds=1))

    assert [0, 0, 15, 7.5, 7.5, 0] == [timeline.take(step) for step in range(6)]
    assert not timeline.is_pending()


def test_amounts_may_be_added_while_others_fall_due() -> None:
    timeline = Timeline()
    timeline.add(0, 4.0, runs_of(dict.fromkeys(range(4), 0.25), step_seconds=1))
    first = timeline.take(0)
    timeline.add(1, 2.0, runs_of({0: 1.0}, step_seconds=1))

    assert (first, timeline.take(1), timeline.take(2)) == (1, 3, 1)


shares = st.dictionaries(st.integers(0, 500), st.floats(0.01, 1), min_size=1, max_size=40)


@given(shares, st.integers(1, 60), st.floats(0.5, 1e9))
def test_all_that_is_added_falls_due(
    weights: dict[int, float], step_seconds: int, amount: float
) -> None:
    total = sum(weights.values())
    runs = runs_of({second: w / total for second, w in weights.items()}, step_seconds)
    timeline = Timeline()
    timeline.add(3, amount, runs)

    assert amount == pytest.approx(sum(timeline.take(step) for step in range(600)))
    assert not timeline.is_pending()
