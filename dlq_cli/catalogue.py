"""All verbs of ``dlq``, in the groups of its help."""

from collections.abc import Mapping
from importlib import import_module

from spark_reprocess.command_line import cli
from spark_reprocess.command_line.verb import Verb

_OWN = {
    "console": "a web page on this machine: see, decide, edit, put back",
    "stacks": "installations in this account and Region",
    "doctor": "check queues, function and trigger; say what to change",
    "gameday": "send a test message through all of it and watch each joint",
    "pause": "stop automatic replay; dead letters stay in the DLQ",
    "resume": "start automatic replay again",
    "simulate": "what a replay policy would do in an outage",
    "rehearse": "would your code take the messages of a group now? sends nothing",
}
"""The verbs of this package, each in a module of ``dlq_cli.verbs``."""

_NAMES = {
    "See what is there": ("console", "status", "groups", "show", "export"),
    "Decide and put back": ("decide", "rehearse", "redrive", "restore", "erase", "expire"),
    "Remember": ("resolve", "note", "snooze"),
    "Collect and analyze": ("drain", "analyze", "run"),
    "Maintain an installation": ("stacks", "doctor", "gameday", "pause", "resume", "simulate"),
}

LINES: Mapping[str, str] = {**cli.VERBS, **_OWN}
"""The line of each verb in the help."""

GROUPS: Mapping[str, Mapping[str, str]] = {
    title: {name: LINES[name] for name in names} for title, names in _NAMES.items()
}
"""The verbs and lines of each group, by its title."""


def load(name: str) -> Verb:
    """Return a verb of ``LINES``; see ``cli.load``."""
    if name not in _OWN:
        return cli.load(name)
    verb: Verb = import_module(f"dlq_cli.verbs.{name}").VERB
    return verb


def is_of_the_job(name: str) -> bool:
    """Return whether a verb is one of the Spark job, which all take ``--archive``."""
    return name in cli.VERBS
