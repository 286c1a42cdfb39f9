"""The breaker's rules on single states: when it opens, what it lets through, when it closes."""

import pytest

from dlq_replay.breaker import (
    BreakerRules,
    BreakerState,
    Phase,
    Update,
    Window,
    apply,
    closing,
    complete_windows,
    confirmed_by_metric,
    hold_seconds,
    metric_claim,
    opening,
    probe_claim,
    probe_returned,
    probe_sent,
    ramp_step,
    release_claim,
    return_time_counter,
    stale_names,
    tripping_windows,
)

RULES = BreakerRules()
MINUTE = 29_000_000
NOW = MINUTE * 60


def closed(**numbers: int) -> BreakerState:
    return BreakerState(numbers)


def counted(kind: str, *counts: int, last_minute: int = MINUTE) -> dict[str, int]:
    """So many in each minute, the last count in *last_minute*."""
    first = last_minute - len(counts) + 1
    return {f"{kind}{first + index}": count for index, count in enumerate(counts)}


def is_tripped(*, sent: tuple[int, ...], returned: tuple[int, ...], **numbers: int) -> bool:
    state = closed(**counted("s", *sent), **counted("b", *returned), **numbers)
    return any(tripping_windows(state, NOW, RULES))


def done(state: BreakerState, update: Update | None) -> BreakerState:
    assert update is not None
    changed = apply(state, update)
    assert changed is not None
    return changed


@pytest.mark.parametrize(
    ("sent", "returned", "trips"),
    [
        ((20,), (16,), True),
        ((19,), (19,), False),
        ((20,), (15,), False),
        ((10, 0, 10), (8, 0, 8), True),
        ((10, *[0] * 8, 10), (10, *[0] * 8, 10), True),
        ((10, *[0] * 9, 10), (10, *[0] * 9, 10), False),
        ((20, 600), (20, 0), True),
        ((0,), (40,), False),
        ((20, *[0] * 60), (20, *[0] * 60), True),
        ((20, *[0] * 61), (20, *[0] * 61), False),
    ],
    ids=[
        "80 %",
        "19 of 19",
        "75 %",
        "over three minutes",
        "over ten minutes",
        "over eleven minutes",
        "a later minute has not returned yet",
        "returns of what was sent before the hour",
        "an hour ago",
        "more than an hour ago",
    ],
)
def test_opens_when_nearly_all_first_replays_return(
    sent: tuple[int, ...], returned: tuple[int, ...], *, trips: bool
) -> None:
    assert is_tripped(sent=sent, returned=returned) is trips


def test_what_was_sent_before_the_last_closing_does_not_open_it() -> None:
    assert not is_tripped(sent=(20, 0, 0), returned=(20, 0, 0), closed_at=NOW - 120)
    assert is_tripped(sent=(20, 0, 0), returned=(20, 0, 0), closed_at=NOW - 180)


def test_only_one_worker_opens_it() -> None:
    state = closed(ramp=60, ramp_at=NOW - 5, closed_at=NOW - 5, **counted("s", 20))
    change = opening(state, Window(range(1), 20, 21, 3), NOW)

    opened = done(state, change)
    judged = {"judged_sent": 20, "judged_returned": 20}
    assert opened == BreakerState({"opened_at": NOW, "closed_at": NOW - 5, **judged})
    assert apply(opened, change) is None


def window(first: int, length: int, arrived: int) -> Window:
    return Window(range(first, first + length), 20, 20, arrived)


@pytest.mark.parametrize(
    ("deleted", "is_confirmed"),
    [
        ([0, 0, 0, 0, 50, 50], True),
        ([0, 0, 0, 0, 50, 51], False),
        ([101, 0, 0, 0, 0, 0], False),
        ([0, 0, 0, 0, 0], False),
        ([], False),
    ],
    ids=["as many", "more", "more before", "a minute is missing", "nothing is published"],
)
def test_metric_confirms_only_where_it_is_known(deleted: list[int], *, is_confirmed: bool) -> None:
    known = {MINUTE - 4 + index: count for index, count in enumerate(deleted)}

    assert (confirmed_by_metric([window(MINUTE, 2, 100)], known, RULES) is not None) is is_confirmed


def test_metric_is_complete_three_minutes_after_a_window() -> None:
    windows = [window(MINUTE - 5, 2, 9), window(MINUTE - 4, 2, 9)]

    assert complete_windows(windows, NOW, RULES) == windows[:1]
    assert complete_windows(windows, NOW + 60, RULES) == windows


def test_one_worker_a_minute_reads_the_metric() -> None:
    claimed = done(closed(), metric_claim(closed(), NOW, RULES))

    assert metric_claim(claimed, NOW + 59, RULES) is None
    second = metric_claim(claimed, NOW + 60, RULES)
    assert second is not None
    assert apply(done(claimed, second), second) is None


@pytest.mark.parametrize(
    ("open_for", "is_fifo", "shortest", "longest"),
    [
        (0, False, 1, 1),
        (100, False, 1, 100),
        (899, False, 1, 899),
        (900, False, 450, 900),
        (99_999, False, 450, 900),
        (0, True, 300, 300),
        (400, True, 300, 400),
        (900, True, 450, 900),
        (-120, False, 1, 1),
    ],
)
def test_holds_are_drawn_up_to_the_time_since_the_opening(
    open_for: int, shortest: int, longest: int, *, is_fifo: bool
) -> None:
    state = closed(opened_at=NOW - open_for)

    def hold(draw: float) -> int:
        return hold_seconds(state, NOW, RULES, lambda top: round(draw * top), is_fifo=is_fifo)

    assert (shortest, longest) == (hold(0), hold(1))


@pytest.mark.parametrize(("is_fifo", "shortest", "longest"), [(False, 225, 450), (True, 60, 120)])
def test_holds_are_short_during_the_ramp(shortest: int, longest: int, *, is_fifo: bool) -> None:
    state = closed(ramp=60, ramp_at=NOW, closed_at=NOW)

    assert shortest == hold_seconds(state, NOW, RULES, lambda _: 0, is_fifo=is_fifo)
    assert hold_seconds(state, NOW, RULES, lambda top: top, is_fifo=is_fifo) == longest


def test_fifo_head_is_not_received_so_often_that_sqs_moves_it() -> None:
    """The DLQ's redrive policy moves what is received 1,000 times."""
    state = closed(ramp=60, ramp_at=NOW, closed_at=NOW)
    shortest = hold_seconds(state, NOW, RULES, lambda _: 0, is_fifo=True)

    assert RULES.hold_limit_seconds // shortest < 800


def test_one_probe_a_minute() -> None:
    state = closed(opened_at=NOW)
    claim = probe_claim(state, NOW, RULES)
    claimed = done(state, claim)

    assert claim is not None
    assert apply(claimed, claim) is None
    assert probe_claim(claimed, NOW + 59, RULES) is None
    assert probe_claim(claimed, NOW + 60, RULES) is not None
    assert probe_claim(closed(), NOW, RULES) is None


def probed(*sent: int) -> BreakerState:
    """Open for an hour, with probes sent so many seconds ago."""
    probes = {NOW - seconds: f"m-{seconds}" for seconds in sent}
    return BreakerState({"opened_at": NOW - 3600, "probe_at": NOW}, probes)


@pytest.mark.parametrize(
    ("sent", "closes"),
    [((210, 270, 330), True), ((209, 270, 330), False), ((270, 330), False), ((), False)],
)
def test_closes_after_three_probes_that_did_not_return(
    sent: tuple[int, ...], *, closes: bool
) -> None:
    assert (closing(probed(*sent), NOW, RULES) is not None) is closes


def test_a_probe_that_returns_ends_the_row() -> None:
    state = probed(300, 360, 420, 480)
    returned = done(state, probe_returned(state, NOW - 420))

    assert returned.probes.keys() == {NOW - 300, NOW - 360}
    assert closing(returned, NOW, RULES) is None
    assert closing(done(returned, probe_sent(returned, "m", NOW - 240)), NOW, RULES) is not None


def test_probes_that_become_visible_in_the_same_second_are_both_kept() -> None:
    state = probed()
    first = done(state, probe_sent(state, "a", NOW))
    second = done(first, probe_sent(first, "b", NOW))

    assert second.probes == {NOW: "a", NOW + 1: "b"}


def test_an_older_probe_that_returns_late_does_not_shorten_the_row_before() -> None:
    state = probed(300, 360)
    later = done(state, probe_returned(state, NOW - 300))

    assert done(later, probe_returned(later, NOW - 360)).numbers["returned_at"] == NOW - 300


def test_return_times_say_when_a_probe_is_good() -> None:
    slow = {return_time_counter(1000, RULES): 95, return_time_counter(9000, RULES): 5}
    row = probed(2100, 2000, 1920).probes
    numbers = {"opened_at": NOW - 3600, **slow}

    assert closing(BreakerState(numbers, row), NOW, RULES) is not None
    assert closing(BreakerState(numbers, probed(2100, 2000, 1919).probes), NOW, RULES) is None
    few = {name: count // 10 for name, count in slow.items()}
    assert closing(BreakerState({"opened_at": NOW, **few}, row), NOW, RULES) is not None


@pytest.mark.parametrize(
    ("seconds", "counter"),
    [(0, "t0"), (60, "t0"), (61, "t1"), (120, "t1"), (121, "t2"), (240, "t2"), (10**9, "t11")],
)
def test_return_times_are_counted_in_powers_of_two(seconds: int, counter: str) -> None:
    assert counter == return_time_counter(seconds, RULES)


def test_closing_forgets_the_outage_and_begins_a_ramp() -> None:
    old = {**counted("s", 9, 9), **counted("b", 9, 9), **counted("n", *[600] * 60, 0), "t2": 40}
    state = BreakerState({**probed().numbers, **old}, probed(300, 360, 420).probes)
    ramp = done(state, closing(state, NOW, RULES))

    assert ramp.phase is Phase.RAMP
    assert ramp == closed(closed_at=NOW, ramp=1200, ramp_max=1800, ramp_at=NOW)


def test_good_probes_are_forgotten_but_for_those_that_close() -> None:
    state = probed(100, 210, 270, 330, 390, 450)

    assert stale_names(state, NOW, RULES) == {f"p{NOW - 390}", f"p{NOW - 450}"}
    assert closing(done(state, Update(remove=stale_names(state, NOW, RULES))), NOW, RULES)


def test_a_ramp_allows_at_least_sixty_a_minute() -> None:
    state = probed(300, 360, 420)

    assert done(state, closing(state, NOW, RULES)).numbers["ramp"] == 60


def test_a_ramp_spreads_its_limit_over_the_minute() -> None:
    state = closed(ramp=120, ramp_at=NOW, closed_at=NOW)
    first, claim = release_claim(state, 50, NOW, RULES)
    claimed = done(state, claim)

    assert first == 2
    assert release_claim(claimed, 50, NOW, RULES)[0] == 0
    assert release_claim(claimed, 50, NOW + 29, RULES)[0] == 50
    assert release_claim(claimed, 500, NOW + 59, RULES)[0] == 118
    assert release_claim(claimed, 50, NOW + 60, RULES)[0] == 2
    assert apply(claimed, claim) is None


def test_a_ramp_grows_while_few_return() -> None:
    ramp = {
        "ramp": 60,
        "ramp_max": 70,
        "ramp_at": NOW - 300,
        "closed_at": NOW - 400,
        "turned_away_at": NOW,
    }
    few = closed(**ramp, **counted("s", 100), **counted("b", 20))
    many = closed(**ramp, **counted("s", 100), **counted("b", 21))

    grown = done(few, ramp_step(few, NOW, RULES))
    assert grown.numbers["ramp"] == 66
    assert done(grown, ramp_step(grown, NOW + 300, RULES)).numbers["ramp"] == 70
    assert ramp_step(few, NOW - 1, RULES) is None
    assert ramp_step(many, NOW, RULES) is None


def test_a_ramp_ends_when_nobody_was_turned_away_for_longer_than_a_hold() -> None:
    state = closed(ramp=60, ramp_at=NOW, closed_at=NOW - 9000, turned_away_at=NOW - 961)
    recent = closed(ramp=60, ramp_at=NOW, closed_at=NOW - 9000, turned_away_at=NOW - 960)

    assert done(state, ramp_step(state, NOW, RULES)) == closed(closed_at=NOW - 9000)
    assert ramp_step(recent, NOW, RULES) is None


def test_a_ramp_ends_when_nothing_may_be_held_any_longer() -> None:
    state = closed(ramp=60, ramp_at=NOW, closed_at=NOW - 43_201, turned_away_at=NOW)

    assert done(state, ramp_step(state, NOW, RULES)).phase is Phase.CLOSED


def test_counts_of_the_last_hour_are_kept() -> None:
    counts = {**counted("s", *[1] * 70), **counted("n", *[1] * 70), "t3": 1}
    state = closed(opened_at=1, **counts)
    left = state.numbers.keys() - stale_names(state, NOW, RULES)

    assert left == {
        "opened_at",
        "t3",
        *(f"{kind}{minute}" for kind in "sn" for minute in range(MINUTE - 60, MINUTE + 1)),
    }
