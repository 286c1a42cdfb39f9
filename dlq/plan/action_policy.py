"""A policy: ordered rules that choose a plan's actions without an operator. Pure.

The first rule whose condition is true for a group sets its action; a group without such a rule is
left. Conditions are Spark SQL over the columns of ``groups.parquet``. ``run`` has options of the
verb ``run``, for a schedule without options. docs/schedule.md has an example.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from dlq.errors import InputError
from dlq.plan.plan import Action
from dlq.plan.yaml_text import Fault, Keys, key_faults, read_document, refuse

ALLOWED_RETURNS = re.compile(r"([0-9]{1,9})|((?:[0-9]{1,2}(?:\.[0-9]{1,6})?|100)%)")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_above_0(value: Any) -> bool:  # noqa: ANN401 - of a file
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def _are_texts(value: Any) -> bool:  # noqa: ANN401 - of a file
    if not isinstance(value, list | None):
        return False
    return all(isinstance(text, str) for text in value or ())


_TRUE_OR_FALSE = (lambda value: isinstance(value, bool | None), "true or false")
_ABOVE_0 = (_is_above_0, "a number above 0")
_POLICY: Keys = {
    "version": None,
    "rules": (lambda value: isinstance(value, list) and value != [], "a list of at least one rule"),
    "redrive_again": _TRUE_OR_FALSE,
    "run": None,
}
_RULE: Keys = {
    "name": (_is_text, "a text that says what the rule is for"),
    "when": (_is_text, "a Spark SQL condition over the columns of groups.parquet"),
    "action": (lambda value: value in list(Action), ", ".join(Action)),
    "overrides_people": _TRUE_OR_FALSE,
}
_RUN: Keys = {
    "max_rate": _ABOVE_0,
    "time_budget_seconds": _ABOVE_0,
    "mask": (_are_texts, "a list of fields or regular expressions"),
    "ramp": _TRUE_OR_FALSE,
    "allow_returns": (
        lambda value: value is None or ALLOWED_RETURNS.fullmatch(str(value)) is not None,
        "a whole number of messages, or a percentage from 0% to 100%",
    ),
}


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Options of the verb ``run`` by their names; None where the policy does not set one."""

    max_rate: float | None = None
    time_budget_seconds: float | None = None
    mask: Sequence[str] | None = None
    ramp: bool | None = None
    allow_returns: int | str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the *action* for a group for which the Spark SQL condition *when* is true.

    With *overrides_people* it decides although a person last decided otherwise about a group.
    """

    name: str
    when: str
    action: Action
    overrides_people: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy.

    Attributes:
        rules: in their order; the first that matches decides.
        redrive_again: whether messages that failed again after an earlier redrive are redriven too.
            Otherwise they are left, so that no schedule sends the same message for ever.
        run: options of the verb ``run``.
        sha256: digest of the file, in hex.
    """

    rules: tuple[Rule, ...]
    redrive_again: bool = False
    run: RunSettings = RunSettings()
    sha256: str = field(default="", compare=False)


def read_policy(text: str, sha256_wanted: str | None = None, name: str = "the policy") -> Policy:
    """Read the policy *name*. Its conditions are not checked here, because that needs Spark.

    *sha256_wanted* is the SHA-256 that the file must have, in hex; None for any.

    Raises:
        InputError: the file has another SHA-256, or it has faults; the message lists all of them
            with their places.
    """
    digest = sha256(text.encode()).hexdigest()
    if sha256_wanted is not None and digest != sha256_wanted.lower():
        raise InputError(
            f"{name} has the SHA-256 {digest} and not {sha256_wanted}, which was asked for: "
            "it was changed, or is another file; look at it, then give its hash"
        )

    raw = read_document(name, text)
    refuse(name, _faults(raw))
    return Policy(
        rules=tuple(map(_rule, raw["rules"])),
        redrive_again=raw.get("redrive_again") or False,
        run=RunSettings(**(raw.get("run") or {})),
        sha256=digest,
    )


def _rule(raw: dict[str, Any]) -> Rule:
    return Rule(**{**raw, "action": Action(raw["action"])})


def _faults(raw: dict[str, Any]) -> Iterator[Fault]:
    yield from key_faults(raw, (), _POLICY)
    if isinstance(raw.get("rules"), list):
        for index, rule in enumerate(raw["rules"]):
            yield from key_faults(rule, ("rules", index), _RULE)
    if raw.get("run") is not None:
        yield from key_faults(raw["run"], ("run",), _RUN)
