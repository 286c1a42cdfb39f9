"""Adds up the results of a run: by group, by problem, by destination. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.archive.ledger.stop import Stop, foremost
from dlq.plan.plan import Action, PlannedGroup
from dlq.redrive.resolving.resolve import ResolvedPlan
from dlq.redrive.send_run import SendRun
from dlq.redrive.summary import EXAMPLES, GroupResult, RedriveSummary, Sent, Tally

_GO = (Disposition.SEND, Disposition.SENT, Disposition.RESTORED)


def summarize(
    run: SendRun,
    groups: Sequence[PlannedGroup],
    resolved: ResolvedPlan,
    sent: Mapping[str, Sent] | None = None,
) -> RedriveSummary:
    """Add up what became of the messages, or in a dry run what would: by group, and the problems.

    *sent* are the results by destination; None in a dry run.
    """
    run_id = "" if sent is None else run.run_id
    if sent is None:
        sent = {url: Sent(tuple(tallies)) for url, tallies in resolved.work.items()}
    outcomes = [*chain.from_iterable(there.tallies for there in sent.values())]
    ramp = tuple(chain.from_iterable(there.ramp for there in sent.values()))
    destinations = {url: _count_going(there.tallies) for url, there in sent.items()}
    if not destinations and run.destination:
        destinations = {run.destination: 0}
    return RedriveSummary(
        plan_id=run.plan_id,
        run_id=run_id,
        destinations=destinations,
        groups=_group_results(groups, (*_settled_before(resolved.planned), *outcomes)),
        problems=_problems((*resolved.blocked, *outcomes)),
        stopped_by=first_stop(sent.values()),
        ramp=ramp,
        max_rate=run.request.max_rate,
    )


def first_stop(sent: Iterable[Sent]) -> Stop | None:
    """Return the most important reason for which these stopped; None if nothing stopped them."""
    return foremost(there.stopped_by for there in sent if there.stopped_by)


def _count_going(tallies: Iterable[Tally]) -> int:
    """Count the messages that were sent, or would be."""
    return sum(tally.count for tally in tallies if tally.disposition in _GO)


def _settled_before(planned: Iterable[Tally]) -> Iterator[Tally]:
    """Yield what the plan says of messages that make no work in this run."""
    for tally in planned:
        if tally.disposition not in WORK:
            yield tally


def _group_results(
    groups: Sequence[PlannedGroup], tallies: Iterable[Tally]
) -> tuple[GroupResult, ...]:
    """Add up the messages of each group by disposition."""
    counts = defaultdict[str, Counter[str]](Counter)
    for tally in tallies:
        counts[tally.group_id][tally.disposition] += tally.count

    outcomes: list[GroupResult] = []
    for group in groups:
        outcome = GroupResult(
            group_id=group.group_id,
            title=group.title,
            action=group.action,
            counts=dict(counts[group.group_id]),
            is_edited=group.edit is not None and group.action is Action.REDRIVE,
        )
        outcomes.append(outcome)
    return tuple(outcomes)


def _problems(tallies: Iterable[Tally]) -> tuple[Tally, ...]:
    """Add up why messages were not settled, over all groups, with the first few ids."""
    problems: dict[tuple[str, str], Tally] = {}
    for tally in tallies:
        if not Disposition(tally.disposition).is_problem:
            continue
        key = (tally.disposition, tally.detail)
        before = problems.get(key, Tally("", tally.disposition, 0, tally.detail))
        examples = (*before.examples, *tally.examples)[:EXAMPLES]
        problems[key] = replace(before, count=before.count + tally.count, examples=examples)
    return tuple(problems.values())


def not_reached(work: Sequence[Tally], outcomes: Sequence[Tally] = ()) -> list[Tally]:
    """Return by group what of *work* has no outcome."""
    left = Counter[str]()
    for tally in work:
        left[tally.group_id] += tally.count
    for tally in outcomes:
        left[tally.group_id] -= tally.count

    tallies: list[Tally] = []
    for group_id, count in left.items():
        if count > 0:
            tallies.append(Tally(group_id, Disposition.NOT_REACHED, count))
    return tallies
