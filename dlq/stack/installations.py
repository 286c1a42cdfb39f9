"""The list of the installations of accounts and Regions."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict

from dlq.cli.terminal import print_answer, print_line, print_table
from dlq.cli.verb import CHECK_FAILED, DONE
from dlq.errors import InputError
from dlq.stack.outputs import StackValues
from dlq.stack.user_files import keep_stack_names

Place = tuple[str | None, str | None]
"""A Region and a profile to read stacks with; None for that of the environment."""

ReadStacks = Callable[[Place], tuple[str | None, list[StackValues]]]
"""Reads the installations of a place, by name; also returns its Region. Raises InputError."""


def places_of(regions: str | None, profiles: str | None) -> list[Place]:
    """Return every pair of the *regions* and the *profiles*, two lists with commas."""
    return [(region, profile) for profile in _parts(profiles) for region in _parts(regions)]


def _parts(text: str | None) -> list[str] | list[None]:
    parts = [part.strip() for part in (text or "").split(",")]
    return list(dict.fromkeys(filter(None, parts))) or [None]


def list_installations(places: Sequence[Place], read: ReadStacks) -> int:
    """Print the installations of all *places*; return the exit code.

    One of several places that cannot be read does not stop the others: the answer has the reason,
    and the exit code is 1.

    Raises:
        InputError: the only place cannot be read.
    """
    stacks: list[tuple[Place, StackValues]] = []
    unread: dict[Place, str] = {}
    for place in places:
        try:
            region, values_of_place = read(place)
            stacks += [((region, place[1]), values) for values in values_of_place]
        except InputError as error:
            if len(places) == 1:
                raise
            unread[place] = str(error)

    keep_stack_names(os.environ, sorted({values.stack for _, values in stacks}))
    answer = {
        "stacks": [asdict(values) | _fields(place) for place, values in stacks],
        "unread": [{**_fields(place), "reason": reason} for place, reason in unread.items()],
    }
    print_answer(answer, lambda: _print(places, stacks, unread))
    return CHECK_FAILED if unread else DONE


def _fields(place: Place) -> dict[str, str | None]:
    return dict(zip(("region", "profile"), place, strict=True))


def _print(
    places: Sequence[Place],
    stacks: Sequence[tuple[Place, StackValues]],
    unread: dict[Place, str],
) -> None:
    rows: list[tuple[str, ...]] = []
    for (region, profile), values in stacks:
        status = values.status.lower().replace("_", " ")
        archive = values.archive or "none"
        names = (region or "", profile or "")
        rows.append((*names, values.stack, values.queues_in_words, archive, status))
    for (region, profile), reason in unread.items():
        rows.append((region or "", profile or "", "unread", "", "", reason))
    if not rows:
        print_line("no installation in this account and Region (--region, --profile)")
        return

    headings = ("Region", "profile", "stack", "main queue", "archive", "status")
    # Region and profile are there only where several were given, or where rows differ in them.
    positions = list(range(2, len(headings)))
    for position in (1, 0):
        given = {place[position] for place in places}
        if len(given) > 1 or len({row[position] for row in rows}) > 1:
            positions.insert(0, position)
    # The reason of a place that cannot be read is its status.
    spare = ("archive", "main queue") if unread else ("status", "main queue")
    print_table(_at(positions, headings), [_at(positions, row) for row in rows], spare=spare)
    print_line("next: dlq use STACK, or give one of these names as --stack")


def _at(positions: Sequence[int], cells: Sequence[str]) -> list[str]:
    return [cells[position] for position in positions]
