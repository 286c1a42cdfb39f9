"""A policy: ordered rules that choose a plan's actions without an operator. Pure.

::

    version: 1
    rules:
      - name: payments was down
        when: "title LIKE 'TimeoutError: payments%' AND count <= 5000"
        action: redrive
      - name: orders of the old shop
        when: title LIKE '%legacy_shop%'
        action: discard

The first rule whose condition is true for a group sets its action; a group without such a rule is
left. Conditions are Spark SQL over the columns of ``groups.parquet``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.yaml_text import Fault, Keys, key_faults, read_document, refuse


def _is_said(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_POLICY: Keys = {
    "version": None,
    "rules": (
        lambda value: isinstance(value, list) and bool(value),
        "a list of at least one rule",
    ),
    "redrive_again": (lambda value: isinstance(value, bool | None), "true or false"),
}
_RULE: Keys = {
    "name": (_is_said, "a text that says what the rule is for"),
    "when": (_is_said, "a Spark SQL condition over the columns of groups.parquet"),
    "action": (lambda value: value in list(Action), ", ".join(Action)),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: its name in the plan and the summary; unique in its policy.
        when: a Spark SQL condition on a group.
    """

    name: str
    when: str
    action: Action


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy.

    Attributes:
        rules: in their order; the first that matches decides.
        redrive_again: whether messages that came back from an earlier redrive are redriven too.
            Otherwise they are left, so that no schedule sends the same message for ever.
        sha256: of the file, in hex.
    """

    rules: tuple[Rule, ...]
    redrive_again: bool = False
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
    rules = (
        Rule(rule["name"], rule["when"].strip(), Action(rule["action"])) for rule in raw["rules"]
    )
    return Policy(tuple(rules), raw.get("redrive_again") or False, digest)


def _faults(raw: dict[str, Any]) -> Iterator[Fault]:
    yield from key_faults(raw, (), _POLICY)
    names: list[object] = []
    for index, rule in enumerate(raw["rules"] if isinstance(raw.get("rules"), list) else ()):
        yield from key_faults(rule, ("rules", index), _RULE)
        name = rule.get("name") if isinstance(rule, dict) else None
        if name is not None and name in names:
            yield ("rules", index, "name"), f"{name!r} is another rule's too; each needs its own"
        names.append(name)
