"""Divides the chunks of a run among tasks. Pure."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping

from dlq.archive.messages.message_store import FILE_MESSAGES
from dlq.redrive.sending.rate_limiter import most_tasks

_MOST_TASKS = 30
"""As of a drain: where a cluster may grow, this number of tasks share a large redrive."""


def task_count(
    messages: int, cores: int, *, asked: int | None, rate: float | None, may_grow: bool
) -> int:
    """Return how many tasks send *messages*, at most. Pure.

    Args:
        messages: at least 1.
        cores: of the engine, now.
        asked: what the operator asked for; None for nothing.
        rate: messages a second over all tasks; None for no limit.
        may_grow: whether the engine may get more cores, which it does only for tasks that wait.
            Under a rate none may wait: each task keeps its share for itself.
    """
    slots = asked or cores
    if rate is not None:
        return min(slots, most_tasks(rate))
    if asked or not may_grow:
        return slots
    return max(slots, min(_MOST_TASKS, messages // FILE_MESSAGES))


def divide(
    sizes: Mapping[tuple[str, int], int], most_tasks: int, *, in_order: bool
) -> dict[tuple[str, int], int]:
    """Divide chunks among tasks so that all have about as many messages. Pure, deterministic.

    *sizes* are the messages of each chunk, by unit and number. With *in_order* all chunks of a unit
    are in one task. Tasks are counted from 0, and each has at least one chunk.
    """
    # A part is what one task must send whole: a unit, or a chunk alone.
    chunks_by_part: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    messages_by_part = Counter[tuple[str, int]]()
    for unit, chunk in sorted(sizes):
        part = (unit, 0 if in_order else chunk)
        chunks_by_part[part].append((unit, chunk))
        messages_by_part[part] += sizes[unit, chunk]

    # The largest part first, and each to the task that has the fewest messages so far.
    tasks = [(0, task) for task in range(min(most_tasks, len(chunks_by_part)))]
    task_by_chunk: dict[tuple[str, int], int] = {}
    for part in sorted(chunks_by_part, key=lambda part: (-messages_by_part[part], part)):
        messages, task = heapq.heappop(tasks)
        task_by_chunk |= dict.fromkeys(chunks_by_part[part], task)
        heapq.heappush(tasks, (messages + messages_by_part[part], task))
    return task_by_chunk
