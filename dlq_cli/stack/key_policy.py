"""What a KMS key policy allows to services of AWS. Pure."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

_NEEDED = ("kms:Decrypt", "kms:GenerateDataKey")


def closed_to(policy: Mapping[str, Any], services: Iterable[str]) -> tuple[str, ...]:
    """Return those of *services* that may not use the key.

    Conditions of allowing statements are not evaluated, and denying statements are not read: what
    is returned is closed for certain, and the rest is open as far as its statements name it.

    Args:
        policy: the document of a key policy.
        services: principals, such as ``logs.eu-west-1.amazonaws.com``.
    """
    return tuple(one for one in services if not _is_open_to(policy, one))


def _is_open_to(policy: Mapping[str, Any], service: str) -> bool:
    allowed = [
        action
        for statement in _listed(policy.get("Statement"))
        if statement.get("Effect") == "Allow" and _names(statement.get("Principal"), service)
        for action in _listed(statement.get("Action"))
    ]
    return all(
        any(fnmatchcase(needed.lower(), action.lower()) for action in allowed) for needed in _NEEDED
    )


def _names(principal: Any, service: str) -> bool:  # noqa: ANN401 - JSON
    # A star alone is everybody, services included; that of "AWS" is every account.
    return principal == "*" or (
        isinstance(principal, Mapping) and service in _listed(principal.get("Service"))
    )


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
