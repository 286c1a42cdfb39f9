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

from spark_reprocess.errors import InputError
from spark_reprocess.plan.located_yaml import (
    LocatedYaml,
    faults_text,
    is_newer,
    read_yaml,
    version_fault,
)
from spark_reprocess.plan.plan import Action

POLICY_VERSION = 1

_POLICY_KEYS = {"version", "rules", "redrive_again"}
_RULE_KEYS = {"name", "when", "action"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: its name in the plan and the summary; unique in its policy.
        when: a Spark SQL condition on a group.
        line: its line in the file, from 1.
    """

    name: str
    when: str
    action: Action
    line: int = field(default=0, compare=False)


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


def read_policy(text: str, sha256_wanted: str | None = None) -> Policy:
    """Read a policy. Its conditions are not checked here, because that needs Spark.

    *sha256_wanted* is the SHA-256 that the file must have, in hex; None for any.

    Raises:
        InputError: the file has another SHA-256, or it has faults; the message lists all of them
            with their lines.
    """
    digest = sha256(text.encode()).hexdigest()
    if sha256_wanted is not None and digest != sha256_wanted.lower():
        raise InputError(
            f"the policy has the SHA-256 {digest} and not {sha256_wanted}, which was asked for: "
            "it was changed, or is another file; look at it, then give its hash"
        )
    try:
        located = read_yaml(text)
    except ValueError as error:
        raise InputError(f"the policy cannot be read: {error}") from error
    if faults := list(_faults(located)):
        raise InputError(faults_text("the policy", faults))
    raw = located.value
    rules = tuple(
        Rule(one["name"], one["when"].strip(), Action(one["action"]), located.line("rules", index))
        for index, one in enumerate(raw["rules"])
    )
    return Policy(rules, raw.get("redrive_again", False), digest)


def _faults(located: LocatedYaml) -> Iterator[tuple[int, str]]:
    raw = located.value
    if not isinstance(raw, dict):
        yield 1, "must be a mapping with version and rules"
        return
    if fault := version_fault(raw.get("version"), POLICY_VERSION):
        yield located.line("version"), fault
    if is_newer(raw.get("version"), POLICY_VERSION):
        return  # Its other keys belong to a format that this program does not know.
    for path, line in located.repeated:
        yield line, f"{path[-1]}: is repeated; remove one"
    for key in set(raw) - _POLICY_KEYS:
        yield located.line(str(key)), f"{key}: is not known in this version; remove it"
    if not isinstance(raw.get("redrive_again", False), bool):
        yield located.line("redrive_again"), "redrive_again: must be true or false"
    rules = raw.get("rules")
    if not isinstance(rules, list) or not rules:
        yield located.line("rules"), "rules: must be a list of at least one rule"
        return
    names: set[str] = set()
    for index, rule in enumerate(rules):
        yield from _rule_faults(located, index, rule, names)


def _rule_faults(
    located: LocatedYaml, index: int, rule: object, names: set[str]
) -> Iterator[tuple[int, str]]:
    def at(key: str = "") -> int:
        return located.line("rules", index, key) if key else located.line("rules", index)

    if not isinstance(rule, dict):
        yield at(), "a rule must be a mapping with name, when and action"
        return
    for key in set(rule) - _RULE_KEYS:
        yield at(str(key)), f"{key}: is not known in this version; remove it"
    name = rule.get("name")
    if not isinstance(name, str) or not name.strip():
        yield at("name"), "name: must be a text that says what the rule is for"
    elif name in names:
        yield at("name"), f"name: {name!r} is another rule's too; each needs its own"
    else:
        names.add(name)
    if not isinstance(rule.get("when"), str) or not rule["when"].strip():
        yield at("when"), "when: must be a Spark SQL condition over the columns of groups.parquet"
    if rule.get("action") not in list(Action):
        yield at("action"), f"action: {rule.get('action')!r}: must be {', '.join(Action)}"
