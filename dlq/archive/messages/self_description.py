"""Statements of services and frameworks in a message about itself: an error, and its kind. Pure.

Both are read once, when the message is archived, and become columns of their own. No code checks
them, and no code that sends or deletes depends on them.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dlq_replay.rules.failures import ERROR_MESSAGE_CHARACTERS, ERROR_TYPE_CHARACTERS, one_line
from dlq_replay.text.masks import mask_text
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError

_READ_CHARACTERS = 10_000


class _Names(NamedTuple):
    """Names under which a writer puts an error: of attributes, or of fields of a JSON object.

    *beside* is a name that the writer always adds: without it another writer has the same names.
    """

    type: str
    message: str
    beside: str


# Each from its own documentation; "" where the writer has no such name.
_IN_ATTRIBUTES = (
    # Lambda, dead-letter queue of an asynchronous invocation. Its ErrorCode is an HTTP status.
    _Names("", "ErrorMessage", "RequestID"),
    # EventBridge, dead-letter queue of a rule, and of EventBridge Scheduler.
    _Names("ERROR_CODE", "ERROR_MESSAGE", "RULE_ARN"),
    _Names("ERROR_CODE", "ERROR_MESSAGE", "SCHEDULE_ARN"),
    _Names("ERROR_CODE", "ERROR_MESSAGE", "TARGET_ARN"),
    # MassTransit and NServiceBus: their headers.
    _Names("MT-Fault-ExceptionType", "MT-Fault-Message", "MT-Fault-Message"),
    _Names(
        "NServiceBus.ExceptionInfo.ExceptionType",
        "NServiceBus.ExceptionInfo.Message",
        "NServiceBus.ExceptionInfo.ExceptionType",
    ),
)
_IN_BODY = (
    # A custom event bus of EventBridge: a record of an event that it could not deliver.
    _Names("errorCode", "errorMessage", "targetArn"),
    # Sidekiq's job.
    _Names("error_class", "error_message", "jid"),
)
_HEADERS = ("headers", "Headers")
"""Fields of a JSON body with the headers of MassTransit and NServiceBus."""

_MARKS = ("errorMessage", "error_message", "MT-Fault-", "NServiceBus.ExceptionInfo.")
"""A body without any of them has no error, so that most bodies need not be parsed."""

_OF_KIND = {
    "javatype": "Spring Cloud AWS",
    "shoryukenclass": "Shoryuken",
    "messagetypefullname": ".NET",
    "nservicebusenclosedmessagetypes": "NServiceBus",
    "rbs2msgtype": "Rebus",
    "mtmessagetype": "MassTransit",
    "cetype": "CloudEvents",
    "cloudeventstype": "CloudEvents",
    "class": "Spring Data",
    "messagetype": "Wolverine and others",
    "eventtype": "",
    "eventname": "",
    "jobclass": "",
}
"""Attributes with the kind of a message; keys are lower-case letters and digits of their names."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]")
KIND = re.compile(
    r"[A-Za-z_]\w{0,99}(?:\.\w{1,99}){1,9}(?=[,;\[])"
    r"|[A-Za-z@](?:[\w.:/@#$+\\-]{0,127}|[\w .:/@#$+\\-]{0,63})\Z",
    re.ASCII,
)
"""A kind, at the start of a value: the assembly of a .NET type follows its name."""


def stated_error(body: str, attributes: Mapping[str, MessageAttribute]) -> FailureError | None:
    """Return the error that a service or a framework wrote into the message; None without one.

    Its text is masked and cut like that of a recorded error. The type may be empty.
    """
    texts = dict[str, str]()
    for name, attribute in attributes.items():
        if isinstance(attribute.value, str):
            texts[name] = attribute.value

    error = _named(texts, _IN_ATTRIBUTES)
    if error is None and any(mark in body for mark in _MARKS):
        error = _in_body(body)
    return error


def error_fields(names: Collection[str]) -> frozenset[str]:
    """Return those of a message's names of attributes that state its error, as ``stated_error``.

    The names of the top level of a JSON body count, too. Where a group is an error, they say
    nothing more about it.
    """
    fields = set[str]()
    for table in (*_IN_ATTRIBUTES, *_IN_BODY):
        if table.beside in names:
            fields.update((table.type, table.message))
    return frozenset(fields.intersection(names))


def stated_kind(attributes: Mapping[str, MessageAttribute]) -> str | None:
    """Return ``NAME=KIND`` of the first attribute that names the message's kind."""
    for name in sorted(attributes):
        value = attributes[name].value
        if _NOT_IN_NAMES.sub("", name.lower()) in _OF_KIND and isinstance(value, str):
            kind = KIND.match(value)
            if kind is not None:
                return f"{name}={kind[0]}"
    return None


def _in_body(body: str) -> FailureError | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None

    error = _named(value, _IN_BODY)
    for name in _HEADERS:
        headers = value.get(name)
        if error is None and isinstance(headers, dict):
            error = _named(headers, _IN_ATTRIBUTES)

    # A destination of Lambda for failed invocations.
    answer = value.get("responsePayload")
    if error is None and isinstance(answer, dict) and isinstance(value.get("requestContext"), dict):
        error = _named(answer, (_Names("errorType", "errorMessage", "errorMessage"),))
    return error


def _named(texts: Mapping[str, Any], table: tuple[_Names, ...]) -> FailureError | None:
    """Return the first error under one of these names."""
    for names in table:
        error_type = texts.get(names.type)
        message = texts.get(names.message)
        if names.beside not in texts or not (error_type or message):
            continue
        if isinstance(message, str | None) and isinstance(error_type, str | None):
            masked_message = mask_text((message or "")[:_READ_CHARACTERS])
            return FailureError(
                one_line(error_type or "")[-ERROR_TYPE_CHARACTERS:],
                one_line(masked_message)[:ERROR_MESSAGE_CHARACTERS],
            )
    return None
