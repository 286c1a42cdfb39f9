"""The answers that a rehearsal may give to reads: a file of stubs. Pure.

A stub names an operation, says on which parameters it answers, and what: the shape that boto3
returns, or an error. The first that matches answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from dlq_cli.rehearse.aws_answers import Answer, failure, success, value_faults
from dlq_cli.rehearse.aws_requests import Call, operation_named
from spark_reprocess.errors import InputError

_KEYS = {"call", "match", "answer", "error"}
_ERROR_KEYS = {"code", "message", "status"}


@dataclass(frozen=True, slots=True)
class Stub:
    """One answer.

    Attributes:
        call: ``service:Operation``.
        match: parameters that the call must have, nested ones included; others may be there.
        answer: in the shape that boto3 returns; None for an error.
        error: its code, message and HTTP status.
    """

    call: str
    match: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    error: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, call: Call) -> bool:
        """Whether it answers *call*."""
        return self.call == call.name and _is_part(self.match, call.parameters)

    def to_answer(self, call: Call) -> Answer:
        """Return the HTTP answer."""
        if self.answer is not None:
            return success(call, self.answer)
        error = self.error
        text = str(error.get("message", ""))
        return failure(call, str(error["code"]), text, int(error.get("status", 400)))


def read_stubs(text: str, name: str) -> tuple[Stub, ...]:
    """Read a file of stubs, in YAML or JSON.

    Args:
        text: of the file.
        name: of the file, for faults.

    Raises:
        InputError: it has faults; the text names each.
    """
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"--stub {name}: is neither YAML nor JSON: {error}") from error
    if not isinstance(raw, list):
        raise InputError(f"--stub {name}: must be a list of stubs, each with call and answer")
    faults = [
        f"stub {number}: {fault}"
        for number, one in enumerate(raw, start=1)
        if (fault := _fault(one))
    ]
    if faults:
        raise InputError("\n".join([f"--stub {name}: has faults", *(f"  {one}" for one in faults)]))
    return tuple(
        Stub(one["call"], one.get("match") or {}, one.get("answer"), one.get("error") or {})
        for one in raw
    )


def _fault(raw: object) -> str:
    """Return what is wrong with one stub; empty where nothing is."""
    if not isinstance(raw, dict) or not isinstance(raw.get("call"), str):
        return "needs call: SERVICE:Operation"
    if unknown := sorted(map(str, raw.keys() - _KEYS)):
        return f"has unknown keys: {', '.join(unknown)}"
    if not isinstance(raw.get("match") or {}, dict):
        return "match must be a mapping of parameters"
    if ("answer" in raw) == ("error" in raw):
        return "needs either answer or error"
    try:
        operation = operation_named(raw["call"])
    except ValueError as error:
        return str(error)
    found = (
        value_faults(operation, raw["answer"]) if "answer" in raw else _error_fault(raw["error"])
    )
    return found and f"{raw['call']}: {found}"


def _error_fault(raw: object) -> str:
    has_code = isinstance(raw, dict) and isinstance(raw.get("code"), str)
    is_error = isinstance(raw, dict) and has_code and not raw.keys() - _ERROR_KEYS
    return "" if is_error else "error must have code, and may have message and status"


def _is_part(wanted: object, found: object) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _is_part(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        is_list = isinstance(found, list) and len(found) == len(wanted)
        return is_list and all(map(_is_part, wanted, cast("list[Any]", found)))
    # A form or a query has texts alone.
    return wanted == found or str(wanted) == found
