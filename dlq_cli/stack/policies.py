"""Whether a resource policy lets a service of AWS do something. Pure.

IAM has no simulation of resource policies for the principal of a service, so this reads what such
policies consist of in practice. What it does not know (a condition, NotAction, NotPrincipal) counts
as fulfilled in a statement that allows, and as not fulfilled in one that denies: what it reports as
denied is denied.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

_KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")


def may_use_key(policy: str, service: str, account: str, source_arn: str = "") -> bool:
    """Whether the policy of a KMS key, a JSON document, lets a service encrypt and decrypt with it.

    See ``ServiceCall`` for the other arguments.
    """
    calls = (ServiceCall(service, action, account, source_arn) for action in _KEY_ACTIONS)
    return all(call.is_allowed(policy) for call in calls)


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call that a service makes on its own behalf.

    Attributes:
        service: such as ``cloudwatch.amazonaws.com``.
        action: such as ``sns:Publish``.
        account: of what the service acts for.
        source_arn: of what the service acts for; empty if that is not known.
    """

    service: str
    action: str
    account: str
    source_arn: str = ""

    @property
    def _keys(self) -> dict[str, str]:
        return {
            "aws:sourceaccount": self.account,
            "aws:sourceowner": self.account,
            "aws:sourcearn": self.source_arn,
            "aws:securetransport": "true",
            "aws:principalisawsservice": "true",
        }

    def is_allowed(self, policy: str) -> bool:
        """Whether *policy*, a JSON document, allows the call and does not deny it."""
        document = json.loads(policy)
        statements = _listed(document.get("Statement"))
        allows = any(
            one.get("Effect") == "Allow" and self._is_meant(one, unknown=True) for one in statements
        )
        denies = any(
            one.get("Effect") == "Deny" and self._is_meant(one, unknown=False) for one in statements
        )
        return allows and not denies

    def _is_meant(self, statement: Mapping[str, Any], *, unknown: bool) -> bool:
        if {"NotPrincipal", "NotAction"} & statement.keys():
            return unknown
        return self._is_named(statement) and self._holds(statement, unknown=unknown)

    def _is_named(self, statement: Mapping[str, Any]) -> bool:
        principal = statement.get("Principal")
        if isinstance(principal, Mapping):
            services = _listed(principal.get("Service"))
            is_principal = self.service in services or "*" in _listed(principal.get("AWS"))
        else:
            is_principal = principal == "*"
        actions = (str(one).lower() for one in _listed(statement.get("Action")))
        return is_principal and any(fnmatchcase(self.action.lower(), one) for one in actions)

    def _holds(self, statement: Mapping[str, Any], *, unknown: bool) -> bool:
        return all(
            self._fulfils(operator, key.lower(), _listed(values), unknown=unknown)
            for operator, keys in (statement.get("Condition") or {}).items()
            for key, values in keys.items()
        )

    def _fulfils(self, operator: str, key: str, values: Iterable[object], *, unknown: bool) -> bool:
        # SNS's own name of the key in its default policy.
        actual = self._keys.get(key.replace("sns:", "aws:")) or None
        name = operator.removesuffix("IfExists").lower()
        if actual is None or name not in _OPERATORS:
            return unknown
        is_equal = any(fnmatchcase(actual, str(value)) for value in values)
        if name == "bool":
            is_equal = any(actual == str(value).lower() for value in values)
        return is_equal == _OPERATORS[name]


_OPERATORS = {
    "stringequals": True,
    "stringequalsignorecase": True,
    "stringlike": True,
    "arnequals": True,
    "arnlike": True,
    "bool": True,
    "stringnotequals": False,
    "stringnotlike": False,
    "arnnotequals": False,
    "arnnotlike": False,
}
"""Whether an operator wants a value to match."""


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - JSON: one value or a list of them
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
