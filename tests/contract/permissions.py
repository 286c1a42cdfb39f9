"""IAM's decision on a call by a role's statements: as far as the template needs it."""

from collections.abc import Callable, Iterable, Mapping
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
        context: condition keys and their values in this call; several values where a key has them.
    """

    action: str
    resource: str
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)


def is_allowed(call: Call, statements: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a statement allows *call*; none of the template's identity policies denies."""
    return any(_covers(statement, call) for statement in statements)


def _covers(statement: Mapping[str, Any], call: Call) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        any(fnmatchcase(call.action, pattern) for pattern in as_list(statement["Action"]))
        and any(fnmatchcase(call.resource, pattern) for pattern in as_list(statement["Resource"]))
        and _holds(statement.get("Condition", {}), call.context)
    )


def _holds(
    condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, str | tuple[str, ...]]
) -> bool:
    for operator, keys in condition.items():
        for key, expected in keys.items():
            actual = context.get(key, "")
            values = [actual] if isinstance(actual, str) else list(actual)
            if not _matches(operator, values, as_list(expected)):
                return False
    return True


def _matches(operator: str, values: list[str], expected: list[str]) -> bool:
    for_all, _, plain = operator.rpartition(":")
    assert for_all in {"", "ForAllValues"}
    assert for_all or len(values) == 1
    return all(_OPERATORS[plain](value, expected) for value in values)


def _is_like(value: str, expected: list[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in expected)


_OPERATORS: Mapping[str, Callable[[str, list[str]], bool]] = {
    # A call without the key has it as an empty string here.
    "ArnLikeIfExists": lambda value, expected: not value or _is_like(value, expected),
    "Null": lambda value, expected: [str(not value).lower()] == expected,
    "StringEquals": lambda value, expected: value in expected,
    "StringLike": _is_like,
    "StringNotLike": lambda value, expected: not _is_like(value, expected),
}
