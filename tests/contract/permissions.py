"""Whether a role's statements allow a call, as IAM decides it: as far as the template needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.contract.template import as_list


@dataclass(frozen=True)
class Call:
    """One call to AWS.

    Attributes:
        action: as policies spell it, ``sqs:SendMessage``.
        resource: the ARN of what it touches; ``*`` where AWS knows none.
        context: condition keys and their values in this call.
    """

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict, hash=False)


def is_allowed(call: Call, statements: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a statement allows *call*; none of the template's identity policies denies."""
    return any(_covers(statement, call) for statement in statements)


def _covers(statement: Mapping[str, Any], call: Call) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        any(fnmatchcase(call.action, one) for one in as_list(statement["Action"]))
        and any(fnmatchcase(call.resource, one) for one in as_list(statement["Resource"]))
        and _holds(statement.get("Condition", {}), call.context)
    )


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    return all(
        _matches(operator, context.get(key, ""), expected)
        for operator, keys in condition.items()
        for key, values in keys.items()
        for expected in [as_list(values)]
    )


def _matches(operator: str, value: str, expected: list[str]) -> bool:
    if operator == "StringEquals":
        return value in expected
    assert operator == "StringLike"
    return any(fnmatchcase(value, one) for one in expected)
