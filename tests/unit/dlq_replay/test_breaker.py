"""The rule of the circuit breaker: when a limit is set, raised and over, and how it reads."""

import pytest

from dlq_replay.rules.breaker import (
    BreakerRules,
    BreakerView,
    Update,
    apply,
    known_minutes,
    rules_for,
)
from dlq_replay.wire.attributes import Attributes
from dlq_replay.wire.message import Message
from tests.support.builders import MAIN_FIFO, context, counter, message

RULES = BreakerRules()
FIFO_RULES = rules_for(MAIN_FIFO, 5)
MINUTE = 29_000_000
NOW = MINUTE * 60
NEWEST = MINUTE - RULES.lag - 1
"""The newest minute for which the metric is complete."""

FULL = {"limit": 90, "since": NOW}
ONE = "limited to 1 replay a minute since 2025-02-19 20:50 UTC; the consumer"
LIMITED = {"limit": 1, "since": NOW - 1800, "full": 20, "usual": 3600, "read": MINUTE - 1}


def per_minute(count: int, minutes: range) -> dict[int, int]:
    return dict.fromkeys(minutes, count)


def deleted(before: int, since: int, minutes: int) -> dict[int, int]:
    """So many deletes a minute, and others in the last *minutes* complete ones."""
    first = NEWEST - minutes + 1
    return per_minute(before, range(MINUTE - 123, first)) | per_minute(
        since, range(first, NEWEST + 1)
    )


def counts(kind: str, count: int, minutes: range) -> dict[str, int]:
    return {f"{kind}{minute}": count for minute in minutes}


def judged(
    numbers: dict[str, int], metric: dict[int, int], rules: BreakerRules = RULES
) -> dict[str, int]:
    """The numbers after a judgment; as before where it changes nothing."""
    changed = apply(numbers, BreakerView(numbers, NOW, rules).judge(metric) or Update())
    assert changed is not None
    return dict(changed)


@pytest.mark.parametrize(
    ("usual", "now", "arrived", "returned", "is_set"),
    [
        (60, 0, 60, 5, True),
        (60, 0, 60, 4, False),
        # More deleted than newly failed, or a third of what is usual: it works.
        (60, 15, 14, 99, False),
        (60, 15, 15, 99, True),
        (60, 20, 40, 99, False),
        (60, 19, 40, 99, True),
        # Where few newly fail, the consumer pauses or has nothing to do: a sixth of what is usual.
        (60, 0, 10, 5, True),
        (60, 0, 9, 5, False),
        (0, 0, 0, 5, False),
        # It deletes nothing, but nothing was usual either: 60 minutes are looked at.
        (0, 0, 3, 5, True),
        (0, 0, 2, 5, False),
    ],
)
def test_a_limit_is_set_where_the_consumer_does_not_work(
    usual: int, now: int, arrived: int, returned: int, *, is_set: bool
) -> None:
    """At 60 deletes a minute, one minute is enough to judge by."""
    numbers = counts("n", arrived, range(NEWEST, MINUTE + 1)) | {f"b{MINUTE}": returned}

    assert ("limit" in judged(numbers, deleted(usual, now, 1))) is is_set


@pytest.mark.parametrize(
    ("arrived", "returned", "full"),
    [
        # Three times the highest ten-minute mean, and the mean of the returns.
        (counts("n", 50, range(MINUTE - 9, MINUTE + 1)), 120, 152),
        (counts("n", 50, range(MINUTE - 40, MINUTE - 30)) | {f"n{NEWEST}": 10}, 60, 151),
        ({f"n{NEWEST}": 10}, 6, 20),
    ],
)
def test_full_is_three_times_the_normal_load_and_the_normal_replays(
    arrived: dict[str, int], returned: int, full: int
) -> None:
    numbers = judged({**arrived, f"b{MINUTE - 1}": returned}, deleted(60, 0, 1))

    assert (numbers["limit"], numbers["full"]) == (1, full)
    assert (numbers["since"], numbers["usual"], numbers["silent_since"]) == (NOW, 3600, NEWEST * 60)
    assert (numbers["began"], numbers["pause"]) == (NOW, 0)


@pytest.mark.parametrize(
    ("now", "arrived", "limit"),
    [(0, 0, 1), (20, 0, 20), (20, 20, 20), (15, 16, 1), (15, 14, 20)],
    ids=["silent", "works", "a third", "less than a third", "more than newly failed"],
)
def test_a_limit_of_1_becomes_full_when_the_consumer_works(
    now: int, arrived: int, limit: int
) -> None:
    """By the last five complete minutes since it was set."""
    numbers = LIMITED | counts("n", arrived, range(NEWEST - 4, NEWEST + 1))
    judgment = judged(numbers, deleted(60, now, 5))

    assert judgment["limit"] == max(limit, 1 if limit == 1 else judgment["full"])
    assert ("silent_since" in judgment) is (now == 0)


FEW = counts("n", 2, range(MINUTE - 20, MINUTE + 1)) | {f"b{MINUTE}": 9}
FAULTY = LIMITED | {"limit": 20, "since": NOW - 3600, f"x{MINUTE}": 9}
FAULTY |= counts("b", 20, range(MINUTE - 30, MINUTE)) | counts("n", 5, range(MINUTE - 30, MINUTE))
RELAPSED = LIMITED | {"limit": 90, "full": 90, f"b{MINUTE}": 9, f"x{MINUTE}": 9}
RELAPSED |= counts("n", 60, range(NEWEST - 60, MINUTE))
RECOVERED = {"usual": 12, "pause": 0, "recovered": NOW - 300, f"b{MINUTE}": 9}
RECOVERED |= counts("n", 60, range(NEWEST - 60, MINUTE))
FAILING = counts("n", 60, range(NEWEST - 60, MINUTE)) | {f"b{MINUTE}": 9}


def late(minutes: int) -> dict[int, int]:
    """A consumer that deletes nothing for an hour, by a metric that is so late."""
    metric = deleted(60, 0, 60)
    return {minute: count for minute, count in metric.items() if minute <= NEWEST - minutes}


@pytest.mark.parametrize(
    ("numbers", "metric", "expected"),
    [
        # At 2 deletes a minute it is judged by the newest 15, in which 30 are usual.
        (FEW, deleted(2, 0, 8), {"limit": None}),
        (FEW, deleted(2, 0, 15), {"limit": 1}),
        # Returns before the judged minutes do not count, and neither does what failed in others.
        (
            counts("n", 60, range(NEWEST, MINUTE)) | {f"b{NEWEST - 1}": 99, f"b{NEWEST}": 4},
            deleted(60, 0, 1),
            {"limit": None},
        ),
        ({f"n{NEWEST - 1}": 60, f"n{NEWEST + 1}": 60, f"b{MINUTE}": 5}, deleted(60, 0, 1), {}),
        # Minutes before the limit say nothing of the recovery.
        (LIMITED | {"since": NEWEST * 60}, deleted(60, 60, 1), {"limit": 1}),
        (LIMITED | {"since": NEWEST * 60 - 60}, deleted(60, 60, 1), {"limit": 20}),
        # Full follows a load that grows while the limit lasts.
        (LIMITED | counts("n", 100, range(MINUTE - 60, MINUTE)), deleted(60, 0, 5), {"full": 300}),
        # It grows where faulty messages come back that did not before; not of an ill consumer.
        (FAULTY, deleted(60, 60, 5), {"limit": 35}),
        (FAULTY | {"since": NOW - 600}, deleted(60, 60, 5), {"limit": 20}),
        (FAULTY, deleted(60, 54, 60), {"limit": 35}),
        (FAULTY, deleted(60, 53, 60), {"limit": 20}),
        (FAULTY | {"usual": 0}, deleted(0, 0, 60), {"limit": 20}),
        # A relapse sets 1 again, by minutes since full alone.
        (RELAPSED | {"since": NOW - 120}, deleted(60, 0, 30), {"limit": 90}),
        (
            RELAPSED | {"since": NOW - 600},
            deleted(60, 0, 30),
            {"limit": 1, "full": 90, "usual": 3600},
        ),
        # When limits began stays known, and no silence is noted of a consumer that works.
        (
            LIMITED | {"began": NOW - 9000},
            deleted(60, 60, 5),
            {"limit": 20, "began": NOW - 9000, "recovered": NOW},
        ),
        (
            RELAPSED | {"since": NOW - 600, "began": NOW - 9000, "usual": 36000},
            deleted(60, 0, 1),
            {"limit": 90, "began": NOW - 9000, "silent_since": None, "read": MINUTE},
        ),
        # So is one that comes soon after full is over; an hour later all is new.
        (RECOVERED, deleted(0, 0, 60), {"limit": None, "usual": 12, "recovered": NOW - 300}),
        (
            RECOVERED | {"usual": 3600, "recovered": NOW - 240},
            deleted(60, 0, 60),
            {"limit": None},
        ),
        (
            RECOVERED | {"usual": 3600},
            deleted(60, 0, 60),
            {"limit": 1, "usual": 3600, "began": NOW},
        ),
        (
            RECOVERED | {"recovered": NOW - 3600},
            deleted(1, 0, 60),
            {"limit": 1, "recovered": None},
        ),
        # A metric that cannot be read sets nothing, and ends a limit after ten minutes.
        ({f"b{MINUTE}": 99}, {}, {"limit": None}),
        (LIMITED | {"read": MINUTE - 9}, {}, {"limit": 1}),
        (LIMITED | {"read": MINUTE - 10}, {}, {"limit": None, "usual": None, "began": None}),
        # Neither does one that is ten minutes late.
        (FAILING, late(10), {"limit": 1}),
        (FAILING, late(11), {"limit": None}),
        (LIMITED | {"read": MINUTE - 10}, late(10), {"read": MINUTE}),
        (LIMITED | {"read": MINUTE - 10}, late(11), {"limit": None}),
    ],
)
def test_a_judgment(
    numbers: dict[str, int], metric: dict[int, int], expected: dict[str, int | None]
) -> None:
    judgment = judged(numbers, metric)

    assert {name: judgment.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("numbers", "metric", "unread_since"),
    [
        # The first judgment that lacks the metric sets the time, which then stays.
        ({}, {}, NOW),
        ({"unread_since": NOW - 600}, {}, NOW - 600),
        (LIMITED, {}, NOW),
        ({}, late(11), NOW),
        ({}, late(10), None),
        ({"unread_since": NOW - 600}, late(10), None),
    ],
)
def test_since_when_the_metric_cannot_be_read_is_known(
    numbers: dict[str, int], metric: dict[int, int], unread_since: int | None
) -> None:
    assert judged(numbers, metric).get("unread_since") == unread_since


def every(minutes: int, per_minute: int, *, but: int = 0) -> dict[int, int]:
    """So many deletes in one minute of so many, the newest of them *but* minutes ago."""
    deletes = dict.fromkeys(range(MINUTE - 123, NEWEST + 1), 0)
    for minute in deletes:
        if minute % minutes == (NEWEST - but) % minutes:
            deletes[minute] = per_minute
    return deletes


@pytest.mark.parametrize(
    ("metric", "is_set"),
    [
        # One minute of five, then longer than twice the four without a delete.
        (every(5, 300, but=8), False),
        (every(5, 300, but=9) | {NEWEST - 4: 0}, True),
        # After pauses of an hour, a silence of an hour tells nothing but that.
        (every(70, 3000, but=59), False),
        # A few deletes between bursts are a pause, too.
        (every(30, 600, but=29) | per_minute(1, range(NEWEST - 28, NEWEST + 1)), False),
        # What is not known is neither a delete nor a pause.
        ({m: n for m, n in every(5, 300, but=9).items() if m % 7 or n} | {NEWEST - 4: 0}, True),
    ],
)
def test_a_pause_is_not_an_outage(metric: dict[int, int], *, is_set: bool) -> None:
    """Though every minute has as many new dead letters as messages are usual."""
    numbers = counts("n", 60, range(NEWEST - 60, MINUTE)) | {f"b{MINUTE}": 9}

    assert ("limit" in judged(numbers, metric)) is is_set


@pytest.mark.parametrize(
    ("before", "is_set"), [(31, False), (32, True)], ids=["29 minutes known", "30 minutes known"]
)
def test_a_queue_of_which_little_is_known_is_not_judged(before: int, *, is_set: bool) -> None:
    metric = {m: n for m, n in deleted(60, 0, 2).items() if m > NEWEST - before}

    assert ("limit" in judged(FAILING, metric)) is is_set


@pytest.mark.parametrize(
    ("failed_for", "minutes", "is_set"),
    [(5, 5, True), (4, 5, False), (5, 3, False), (60, 60, True)],
)
def test_on_fifo_a_limit_is_set_after_five_minutes(
    failed_for: int, minutes: int, *, is_set: bool
) -> None:
    """Holds are long there from the first: an outage of a few minutes costs less without them."""
    numbers = counts("n", 60, range(NEWEST - failed_for + 1, MINUTE)) | {f"b{MINUTE}": 9}

    assert ("limit" in judged(numbers, deleted(60, 0, minutes), FIFO_RULES)) is is_set


@pytest.mark.parametrize(
    ("deleted", "active", "expected"),
    [
        ({1: 5}, [1, 2, 3], {1: 5, 2: 0, 3: 0}),
        ({1: 5, 2: 0, 3: 0}, [1, 2, 3], {1: 5, 2: 0, 3: 0}),
        # A minute that neither has, and what is newer than the newest of the second.
        ({1: 5, 3: 2}, [1, 4], {1: 5, 3: 2, 4: 0}),
        ({1: 5, 2: 5}, [1], {1: 5}),
        ({1: 5}, [], {}),
        ({}, [], {}),
    ],
)
def test_a_minute_that_is_missing_is_not_a_minute_of_0(
    deleted: dict[int, int], active: list[int], expected: dict[int, int]
) -> None:
    assert known_minutes(deleted, active) == expected


@pytest.mark.parametrize(
    ("numbers", "limit"),
    [
        ({}, None),
        (LIMITED, 1),
        (LIMITED | {"since": NOW - 3600}, None),
        (LIMITED | {"since": NOW - 9999, f"x{MINUTE - 59}": 1}, 1),
        ({"limit": 90, "since": NOW - 120}, 90),
        ({"limit": 90, "since": NOW - 180}, None),
        ({"limit": 90, "since": NOW - 999, f"x{MINUTE - 2}": 1}, 90),
        # Nobody of ours wrote these.
        ({"limit": 1}, None),
        ({"limit": 0, "since": NOW}, None),
        ({"limit": 1, "since": NOW + 9999}, None),
        ({"limit": 1, "since": NOW + 120}, None),
        ({"limit": 1, "since": NOW + 60}, 1),
    ],
)
def test_a_limit_lasts_while_it_turns_somebody_away(
    numbers: dict[str, int], limit: int | None
) -> None:
    assert BreakerView(numbers, NOW).limit == limit


@pytest.mark.parametrize(
    ("limit", "is_silent", "attributes", "applies"),
    [
        (None, True, counter("3"), False),
        (1, False, {}, False),
        (1, True, {}, True),
        (1, False, context(held_seconds=NOW), True),
        (90, False, counter("1"), True),
    ],
)
def test_the_first_replay_of_what_no_limit_touched_goes_unless_the_consumer_is_silent(
    limit: int | None, attributes: Attributes, *, is_silent: bool, applies: bool
) -> None:
    numbers = ({"limit": limit} if limit else {}) | ({"silent_since": 1} if is_silent else {})
    view = BreakerView({"since": NOW, **numbers}, NOW)

    assert view.applies_to(message(attributes=attributes)) is applies


def fifo(sent_seconds: float, receives: str, attributes: Attributes | None = None) -> Message:
    return message(
        attributes=attributes,
        SentTimestamp=str(int(sent_seconds * 1000)),
        ApproximateReceiveCount=receives,
    )


@pytest.mark.parametrize(
    ("letter", "applies"),
    [
        (fifo(NOW - 10, "6"), False),
        # Before the limit; looked at before; replayed before; not known how often it was looked at.
        (fifo(NOW - 601, "6"), True),
        (fifo(NOW - 10, "7"), True),
        (fifo(NOW - 10, "6", counter("1")), True),
        (fifo(NOW - 10, "?"), True),
    ],
)
def test_on_fifo_what_was_there_before_may_have_been_held(
    letter: Message, *, applies: bool
) -> None:
    """A hold leaves no mark there: the message waits in place."""
    numbers = {"limit": 90, "since": NOW - 600, f"x{MINUTE}": 1}

    assert BreakerView(numbers, NOW, FIFO_RULES).applies_to(letter) is applies


HOUR = 3600


@pytest.mark.parametrize(
    ("letter", "rules", "since"),
    [
        (message(), RULES, NOW),
        (message(attributes=context(held_seconds=NOW - 60)), RULES, NOW - 60),
        # Any producer can write a time of the future.
        (message(attributes=context(held_seconds=NOW + 9 * HOUR)), RULES, NOW),
        # On FIFO from when it came, or from when limits began: what waited longer was not held.
        (fifo(NOW - 60, "6"), FIFO_RULES, NOW - 60),
        (fifo(NOW - 12 * HOUR, "6"), FIFO_RULES, NOW - 2 * HOUR),
        (fifo(NOW + 5, "6"), FIFO_RULES, NOW),
        (fifo(NOW - 60, "6", context(held_seconds=NOW - 9 * HOUR)), FIFO_RULES, NOW - 9 * HOUR),
    ],
)
def test_limits_apply_from_the_first_that_touched_the_message(
    letter: Message, rules: BreakerRules, since: int
) -> None:
    numbers = {"limit": 1, "since": NOW - HOUR, "began": NOW - 2 * HOUR, f"x{MINUTE}": 1}

    assert BreakerView(numbers, NOW, rules).held_since_seconds(letter) == since


@pytest.mark.parametrize(
    ("limit", "age", "rules", "shortest", "longest"),
    [
        (1, 0, RULES, 1, 60),
        (1, 600, RULES, 1, 600),
        (1, 900, RULES, 450, 900),
        (90, 9999, RULES, 1, 300),
        (1, 0, FIFO_RULES, 300, 300),
        (1, 600, FIFO_RULES, 300, 600),
        (1, 9999, FIFO_RULES, 450, 900),
        (90, 0, FIFO_RULES, 300, 450),
    ],
)
def test_holds(limit: int, age: int, rules: BreakerRules, shortest: int, longest: int) -> None:
    view = BreakerView({"limit": limit, "since": NOW - age, f"x{MINUTE}": 1}, NOW, rules)

    assert view.hold_seconds(lambda _: 0) == shortest
    assert view.hold_seconds(lambda top: top) == longest


@pytest.mark.parametrize(("quiet_minutes", "limit"), [(8, 90), (9, None)])
def test_full_lasts_longer_than_a_hold_on_fifo(quiet_minutes: int, limit: int | None) -> None:
    numbers = {"limit": 90, "since": NOW - 9999, f"x{MINUTE - quiet_minutes}": 1}

    assert BreakerView(numbers, NOW, FIFO_RULES).limit == limit


def test_a_limit_is_granted_once_a_minute() -> None:
    count, claim = BreakerView(FULL, NOW + 59).grant_claim(60)
    granted = apply(FULL, claim)
    assert count == 60
    assert granted is not None
    # A worker that saw the numbers before is refused, and asks again with what it is told.
    assert apply(granted, claim) is None
    assert BreakerView(granted, NOW + 59).grant_claim(60)[0] == 30
    assert BreakerView(granted, NOW + 119).grant_claim(60)[0] == 60


def test_a_limit_is_spread_over_its_minute() -> None:
    views = [BreakerView(FULL, NOW + second) for second in (0, 1, 29, 59)]

    assert [view.grant_claim(99)[0] for view in views] == [2, 3, 45, 90]
    assert BreakerView({"limit": 1, "since": NOW}, NOW).grant_claim(99)[0] == 1


@pytest.mark.parametrize(
    ("numbers", "is_due"),
    [
        ({}, False),
        ({f"b{MINUTE - 3}": 4}, False),
        ({f"b{MINUTE - 60}": 2, f"b{MINUTE}": 3}, True),
        ({f"b{MINUTE}": 5, "judged": MINUTE}, False),
        ({f"b{MINUTE}": 5, "judged": MINUTE - 1}, True),
        ({"limit": 1}, True),
    ],
)
def test_one_worker_a_minute_judges_where_there_is_a_need(
    numbers: dict[str, int], *, is_due: bool
) -> None:
    assert (BreakerView(numbers, NOW).judgment_claim() is not None) is is_due


def test_old_counters_go() -> None:
    fresh = {f"n{MINUTE - 63}": 1, f"g{MINUTE - 3}": 1, "limit": 1, "name": 1}
    old = {f"n{MINUTE - 64}": 1, f"b{MINUTE - 99}": 1, f"x{MINUTE - 64}": 1, f"g{MINUTE - 4}": 1}

    assert BreakerView({}, NOW).stale(fresh | old) == old.keys()


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({}, ""),
        (LIMITED | {"silent_since": NOW - 1200}, f"{ONE} has deleted nothing for 20 minutes"),
        (LIMITED, f"{ONE} deletes less than a third of what is usual"),
        (
            LIMITED | {"since": NOW - 86_400, f"x{MINUTE}": 1},
            f"{ONE} deletes less than a third of what is usual".replace("19 20:50", "18 21:20"),
        ),
        (
            {"limit": 1745, "since": NOW},
            f"{ONE} works again".replace("1 replay ", "1,745 replays ").replace("20:50", "21:20"),
        ),
    ],
)
def test_the_limit_in_words(numbers: dict[str, int], words: str) -> None:
    assert BreakerView(numbers, NOW).in_words == words


@pytest.mark.parametrize(
    ("numbers", "until"),
    [
        ({"judged": MINUTE}, "21:20"),
        # A judgment of another clock, or none that is known.
        ({"judged": MINUTE - 99}, "20:50"),
        ({}, "20:50"),
    ],
)
def test_a_consumer_that_cannot_be_judged_in_words(numbers: dict[str, int], until: str) -> None:
    unread = {"unread_since": NOW - 1800}

    assert BreakerView(numbers, NOW).unjudged_in_words == ""
    assert BreakerView(numbers | unread, NOW).unjudged_in_words == (
        "cannot judge the consumer, and sets no limit: the metric NumberOfMessagesDeleted of the "
        f"main queue was needed from 2025-02-19 20:50 to 2025-02-19 {until} UTC, and could not be "
        "read or was not there"
    )
