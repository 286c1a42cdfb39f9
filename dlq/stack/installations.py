"""The list of the installations of accounts and Regions."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from dlq.cli.terminal import print_answer, print_line, print_table
from dlq.cli.verb import CHECK_FAILED, DONE
from dlq.errors import InputError
from dlq.stack.outputs import StackValues
from dlq.stack.user_files import keep_stack_names


@dataclass(frozen=True, slots=True)
class Place:
    """A Region and a profile to read stacks with; None for that of the environment."""

    region: str | None
    profile: str | None

    @classmethod
    def of_lists(cls, regions: str | None, profiles: str | None) -> "list[Place]":
        """Return every pair of the *regions* and the *profiles*, two lists with commas.

        Region by Region within a profile, each once.
        """
        pairs = []
        for profile in _parts(profiles):
            for region in _parts(regions):
                pairs.append(cls(region, profile))
        return pairs


def _parts(text: str | None) -> list[str] | list[None]:
    if text is None:
        return [None]
    parts = [part.strip() for part in text.split(",")]
    return list(dict.fromkeys(filter(None, parts))) or [None]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read in a place; *fault* is why it could not be, empty if it was.

    *region* is that of the session: the one of *place*, or the default.
    """

    place: Place
    region: str | None
    stacks: Sequence[StackValues] = ()
    fault: str = ""


ReadStacks = Callable[[Place], tuple[str | None, list[StackValues]]]
"""Reads the installations of a place, by name; also returns the Region. Raises InputError."""


def list_installations(places: Sequence[Place], read: ReadStacks) -> int:
    """Print the installations of all *places*; return the exit code.

    One of several places that cannot be read does not stop the others: the answer has the reason,
    and the exit code is 1.

    Raises:
        InputError: the only place cannot be read.
    """
    readings = []
    for place in places:
        try:
            region, stacks = read(place)
            readings.append(_Reading(place, region, stacks))
        except InputError as error:
            if len(places) == 1:
                raise
            readings.append(_Reading(place, place.region, fault=str(error)))

    names = {installation.stack for reading in readings for installation in reading.stacks}
    keep_stack_names(os.environ, sorted(names))
    print_answer(_answer(readings), lambda: _print(readings))
    return CHECK_FAILED if any(reading.fault for reading in readings) else DONE


def _answer(readings: Sequence[_Reading]) -> dict[str, object]:
    stacks = []
    unread = []
    for reading in readings:
        names = {"region": reading.region, "profile": reading.place.profile}
        if reading.fault:
            unread.append({**names, "reason": reading.fault})
        for installation in reading.stacks:
            stacks.append({**asdict(installation), **names})
    return {"stacks": stacks, "unread": unread}


def _print(readings: Sequence[_Reading]) -> None:
    regions = [reading.region for reading in readings]
    profiles = [reading.place.profile for reading in readings]
    rows = list(_rows(readings))
    headings = ["Region", "profile", "stack", "main queue", "archive", "status"]
    # The two columns are there only where they tell rows apart.
    for name, values in (("profile", profiles), ("Region", regions)):
        if len(set(values)) == 1:
            position = headings.index(name)
            del headings[position]
            for row in rows:
                del row[position]

    if not rows:
        print_line("no installation in this account and Region (--region, --profile)")
        return
    is_complete = not any(reading.fault for reading in readings)
    # The reason of a place that cannot be read is its status.
    print_table(headings, rows, spare=("status", "main queue") if is_complete else ("main queue",))
    print_line("next: dlq use STACK, or give one of these names as --stack")


def _rows(readings: Sequence[_Reading]) -> Iterator[list[str]]:
    for reading in readings:
        names = [reading.region or "default", reading.place.profile or "default"]
        if reading.fault:
            yield [*names, "cannot be read", "-", "-", reading.fault]
        for installation in reading.stacks:
            yield [
                *names,
                installation.stack,
                installation.queues_in_words,
                installation.archive or "none",
                installation.status.lower().replace("_", " "),
            ]
