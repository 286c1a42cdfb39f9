"""The limit for what gathered while replay was paused, and to which messages it applies."""

import pytest

from dlq_replay.rules.breaker import BreakerView, Update, apply
from dlq_replay.wire.attributes import MessageAttribute
from tests.support.builders import context, counter, message

NOW = 1_740_000_000
MINUTE = NOW // 60
HOURS = 3600


def changed(numbers: dict[str, int], update: Update | None, now_seconds: int = NOW) -> BreakerView:
    """The breaker after an update, which must be possible."""
    after = apply(numbers, update or Update())
    assert after is not None
    return BreakerView(after, now_seconds)


def resumed(numbers: dict[str, int], gathered: int = 600, paused_seconds: int = 60) -> BreakerView:
    return changed(numbers, BreakerView(numbers, NOW).after_pause(gathered, paused_seconds))


@pytest.mark.parametrize(
    ("gathered", "paused_seconds", "limit"),
    [
        # Ten a second, in any time.
        (600, 60, 1_800),
        (36_000, HOURS, 1_800),
        # Shorter than a minute counts as a minute.
        (600, 5, 1_800),
        (600, 0, 1_800),
        (100, 7 * 60, 43),
        # Few: what the breaker allows at least.
        (100, 12 * HOURS, 20),
        (0, HOURS, 20),
    ],
)
def test_the_limit_is_three_times_what_gathered_in_a_minute(
    gathered: int, paused_seconds: int, limit: int
) -> None:
    view = resumed({}, gathered, paused_seconds)

    assert (view.limit, view.numbers["full"]) == (limit, limit)


@pytest.mark.parametrize(
    ("numbers", "limit", "full"),
    [
        # The consumer did not work when replay was paused: the breaker goes on by what it sees.
        ({"limit": 1, "since": NOW - 9 * HOURS, "full": 90, "usual": 7}, 1, 90),
        ({"limit": 1, "since": NOW - 9 * HOURS, "full": 30}, 1, 60),
        # A full limit that is not over.
        ({"limit": 90, "since": NOW - 60, "full": 90}, 90, 90),
        # One that is over tells nothing of today.
        ({"limit": 90, "since": NOW - HOURS, "full": 90}, 60, 60),
    ],
)
def test_a_limit_that_there_was_goes_on(numbers: dict[str, int], limit: int, full: int) -> None:
    view = resumed(numbers, gathered=20)

    assert (view.limit, view.numbers["full"]) == (limit, full)
    assert view.numbers["since"] == NOW
    assert view.numbers.get("usual") == numbers.get("usual")


def test_nothing_is_limited_that_somebody_changed_meanwhile() -> None:
    update = BreakerView({}, NOW).after_pause(600, 60)

    assert apply({"limit": 1, "since": NOW - 5}, update) is None


def test_the_limit_holds_for_all_that_was_sent_before_the_resume() -> None:
    """On standard queues SentTimestamp is that of the first send, on FIFO of the move here."""
    view = resumed({})

    def is_limited(sent_seconds: int, **attributes: MessageAttribute) -> bool:
        letter = message("a", attributes=attributes, SentTimestamp=f"{sent_seconds}000")
        return view.applies_to(letter)

    assert is_limited(NOW - 12 * HOURS)
    assert is_limited(NOW - 1)
    # A first replay shows whether the consumer works.
    assert not is_limited(NOW)
    assert is_limited(NOW, **counter("1"))
    assert is_limited(NOW, **context(held_seconds=NOW - 5))


def test_the_limit_begins_again_when_replay_goes_on_and_only_then() -> None:
    view = resumed({})
    later = NOW + 150

    renewed = changed(
        dict(view.numbers), BreakerView(view.numbers, later).renewed_after_pause(), later
    )
    assert renewed.limit == view.limit
    assert renewed.numbers["since"] == renewed.numbers["resumed"] == later
    # Otherwise it would be over before the first message is looked at.
    assert BreakerView(view.numbers, NOW + 240).limit is None

    assert BreakerView({}, NOW).renewed_after_pause() is None
    set_since = {**view.numbers, "since": NOW + 60, "limit": 1}
    assert BreakerView(set_since, later).renewed_after_pause() is None


def test_an_outage_soon_after_a_resume_is_seen_within_minutes() -> None:
    """By what was usual before: the resume itself asked for no metric."""
    view = resumed({})
    later = MINUTE + 20
    last = range(later - 8, later - 3)
    metric = dict.fromkeys(range(later - 130, last.start), 60) | dict.fromkeys(last, 0)
    failed = {f"n{minute}": 60 for minute in last} | {f"b{later - 4}": 5, f"x{later}": 1}
    before = BreakerView(dict(view.numbers) | failed, later * 60)
    after = changed(dict(before.numbers), before.judge(metric), later * 60)

    assert before.limit == 1_800
    assert after.limit == 1


def test_the_limit_reads_as_what_it_is() -> None:
    words = resumed({}).in_words

    assert words == (
        "limited to 1,800 replays a minute since 2025-02-19 21:20 UTC, when replay went on after "
        "a pause"
    )
