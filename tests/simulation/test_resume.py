"""Replay goes on after a pause, message by message, over the function's own code."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.breaker import BreakerRules, BreakerView
from dlq_replay.rules.decision import Replay
from dlq_replay.wire.message import Message, SendEntry
from tests.support.breaker_tables import FakeBreaker
from tests.support.builders import policy, queue_arn, replayer, three_queues

HOUR = 3600
START = 29_000_000 * 60
"""When replay goes on, epoch seconds, at the start of a minute."""

RULES = BreakerRules()
BATCH = 100


def replays_by_minute(gathered: int, paused_seconds: int, *, is_limited: bool) -> Counter[int]:
    """Replays by the minute after a resume, until nothing waits any more.

    So many dead letters came at an even rate during the pause, and go on coming, for an hour at
    most. Each is processed when it is replayed.
    """
    table = FakeBreaker()
    second = 0
    draws = random.Random(7)
    if is_limited:
        table.update(BreakerView({}, START).after_pause(gathered, paused_seconds))

    def read_metric(start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        return dict.fromkeys(range(start_seconds // 60, end_seconds // 60), 600)

    ours = policy(max_attempts=20, rate_seconds=10)
    worker = BreakerWorker(table, RULES, read_metric, clock_seconds=lambda: second)
    main, dlq, parked = three_queues()
    made = replayer(
        ours,
        main,
        dlq,
        parked,
        now_seconds=lambda: START + second,
        breakers={ours.main_queue: worker},
    )
    made = replace(made, draw_up_to=lambda top: draws.randint(0, top))

    due: defaultdict[int, list[Message]] = defaultdict(list)
    for number in range(gathered + gathered * min(HOUR, paused_seconds) // paused_seconds):
        sent = number * paused_seconds // gathered - paused_seconds
        due[max(0, sent)].append(dead_letter(f"m-{number}", sent))

    replays: Counter[int] = Counter()
    while due:
        second = min(due)
        waiting = due.pop(second)
        for start in range(0, len(waiting), BATCH):
            outcome = made.replay(waiting[start : start + BATCH], forever)
            replayed = [plan for plan in outcome.outcomes if isinstance(plan.decision, Replay)]
            replays[second // 60] += len(replayed)
        for entry in dlq.sent:
            back = second + max(1, entry.delay_seconds or 0)
            due[back].append(held(entry, second))
        for queue in (main, dlq, parked):
            queue.sent.clear()
            queue.calls.clear()
    assert not parked.sent
    return replays


def dead_letter(name: str, sent: int) -> Message:
    system = {"SentTimestamp": f"{START + sent}000", "DeadLetterQueueSourceArn": queue_arn("main")}
    return Message(name, name, {}, system)


def held(entry: SendEntry, sent: int) -> Message:
    system = {"SentTimestamp": f"{START + sent}000"}
    return Message(f"{entry.body}-{sent}", entry.body, entry.attributes, system)


def test_what_gathered_in_hours_comes_with_three_times_the_load() -> None:
    """2,400 in four hours are ten a minute, and ten a minute go on coming."""
    limited = replays_by_minute(2_400, 4 * HOUR, is_limited=True)
    at_once = replays_by_minute(2_400, 4 * HOUR, is_limited=False)

    assert at_once.total() == limited.total() == 3_000
    assert at_once[0] > 2_000
    # 30 of what gathered, and those that come now.
    assert max(limited.values()) <= 45
    # All of it at 30 a minute: 80 minutes, and the last holds.
    assert max(limited) <= 2 * 80


def test_what_gathered_in_a_flood_is_not_slower_than_it_came() -> None:
    """Ten a second for five minutes, at 1,800 a minute."""
    limited = replays_by_minute(3_000, 300, is_limited=True)

    assert limited.total() == 6_000
    assert max(limited.values()) <= 1_800 + 2 * 600
    assert max(limited) <= 15
