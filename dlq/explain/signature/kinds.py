"""The kind of a job or event that a JSON body names, as frameworks write it. Pure.

Without a recorded error, messages of different kinds are different groups: a queue often carries
several kinds of job, and one of them fails.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dlq.archive.messages.self_description import KIND
from dlq.explain.signature.names import mask_ids

_NAMES = (
    "type",
    "kind",
    "event",
    "eventtype",
    "eventname",
    "messagetype",  # MassTransit: an array
    "detailtype",
    "action",
    "operation",
    "operationname",  # GraphQL
    "jobclass",  # ActiveJob
    "class",  # Sidekiq, Shoryuken; _class of Spring Data
    "wrapped",  # ActiveJob on Sidekiq
    "displayname",  # Laravel
    "commandname",
    "task",  # Celery, first protocol
    "taskname",
    "actorname",  # Dramatiq
    "pattern",  # NestJS: a name or an object
    "typename",  # GraphQL
)
"""Names of fields whose value is a kind: small letters alone, in the order of the title."""

_PATHS = (
    ("headers", "task"),  # Celery
    ("Headers", "NServiceBus.EnclosedMessageTypes"),
    ("data", "commandName"),  # Laravel
    ("payload", "source", "table"),  # Debezium, with and without a schema around it
    ("payload", "op"),
    ("source", "table"),
)
"""Paths of other fields in which frameworks write a kind."""

_LETTERS = re.compile(r"[^a-z]")


def kind_words(value: Mapping[str, Any]) -> list[str]:
    """Return ``NAME=KIND`` for each place of *value* that names its kind; ids are masked."""
    words = []
    for name in _kind_names(tuple(value)):
        field = value[name]
        if name == "pattern" and isinstance(field, dict):
            field = next(iter(field.values()), None)
        kind = _kind(field)
        if kind is not None:
            words.append(f"{name}={kind}")

    for path in _PATHS:
        inner: Any = value
        for name in path:
            inner = inner.get(name) if isinstance(inner, dict) else None
        kind = _kind(inner)
        if kind is not None:
            words.append(f"{path[-1].removeprefix('NServiceBus.')}={kind}")
    return words


# Thousands of messages share a few layouts.
@lru_cache(maxsize=4096)
def _kind_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of *names* whose values are kinds, in the order of ``_NAMES``."""
    ranked = []
    for name in names:
        letters = _LETTERS.sub("", name.lower())
        if letters in _NAMES:
            ranked.append((_NAMES.index(letters), name))
    return tuple(name for _, name in sorted(ranked))


def _kind(value: object) -> str | None:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str):
        return None
    kind = KIND.match(value)
    return mask_ids(kind[0]) if kind else None
