"""The edit of a group's messages: a JSON Patch (RFC 6902) on bodies, and attributes. No I/O."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, Self, cast

import jsonpatch
from jsonpointer import EndOfList, JsonPointer, JsonPointerException

from dlq.plan.json_text import Json, JsonTextError, read_json, write_json
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.attributes import Attributes, MessageAttribute
from dlq_replay.wire.message import Message

_NEEDED = {
    **dict.fromkeys(("add", "replace", "test"), "value"),
    **dict.fromkeys(("move", "copy"), "from"),
}
"""The field that an operation must have; the library misses it only when it applies one."""


class EditError(Exception):
    """The edit does not fit this message. The text has the reason, but no part of the message.

    The caller leaves the message where it is, counts it and reports its id.
    """


@dataclass(frozen=True, slots=True)
class Patch:
    """A valid JSON Patch.

    Attributes:
        text: the array of operations as compact JSON; patches with the same text are equal.
    """

    text: str

    @classmethod
    def of(cls, operations: Json) -> Self:
        """Make a patch of operations for which ``patch_faults`` yields nothing."""
        return cls(write_json(operations))

    @property
    def operations(self) -> list[dict[str, Json]]:
        """The operations, as ``read_json`` reads them."""
        operations: Any = read_json(self.text)
        return list(operations)

    def apply(self, body: str) -> str:
        """Return *body* with the patch applied, as compact JSON.

        A patch that changes no value returns *body* itself.

        Raises:
            EditError: *body* is not JSON that can be changed safely, or an operation does not
                apply or makes it larger than a message may be; then no operation takes effect.
        """
        try:
            original = read_json(body)
            unchanged = write_json(original)
            edited = write_json(self._applied(original, _size_bytes(unchanged)))
        except JsonTextError as error:
            raise EditError(f"the body {error}") from error
        return body if edited == unchanged else edited

    def _applied(self, value: Json, size_bytes: int) -> Json:
        """Apply the operations to *value*, whose JSON has *size_bytes*.

        A copy may double the value, so its size is checked after each operation. Other operations
        add only what is in the patch itself.
        """
        for step in _steps_of(self):
            # The library's own messages quote the body.
            try:
                if step.copied is not None:
                    source = step.copied.resolve(value, None)
                    if isinstance(source, EndOfList):
                        raise EditError(f"{step.name}: the body has no such place")
                    size_bytes += _size_bytes(write_json(source))
                value = step.patch.apply(value, in_place=True)
            except jsonpatch.JsonPatchTestFailed:
                raise EditError(f"{step.name}: another value is there, or none") from None
            except (jsonpatch.JsonPatchException, JsonPointerException):
                raise EditError(f"{step.name}: the body has no such place") from None
            except RecursionError:
                raise EditError(f"{step.name}: the body is nested too deeply") from None

            if size_bytes > MAX_MESSAGE_BYTES:
                # The sum is too high if operations removed or replaced something.
                size_bytes = _size_bytes(write_json(value))
            if size_bytes > MAX_MESSAGE_BYTES:
                raise EditError(
                    f"{step.name}: the body would have {size_bytes:,} bytes, more than the "
                    f"{MAX_MESSAGE_BYTES:,} of a message"
                )
        return value


class _Step(NamedTuple):
    """One operation, compiled, and the pointer to the value that it copies."""

    name: str
    patch: jsonpatch.JsonPatch
    copied: JsonPointer | None


@lru_cache
def _steps_of(patch: Patch) -> list[_Step]:
    """Compile each operation separately, so that an error can name the one that failed."""
    steps: list[_Step] = []
    for number, operation in enumerate(patch.operations, start=1):
        name = f"operation {number} ({operation['op']} {operation['path']})"
        copied = None
        if operation["op"] == "copy":
            copied = JsonPointer(cast("str", operation["from"]))
        steps.append(_Step(name, jsonpatch.JsonPatch([operation]), copied))
    return steps


def _size_bytes(text: str) -> int:
    return len(text.encode())


def patch_faults(operations: Json) -> Iterator[tuple[int | None, str]]:
    """Find the faults of a patch, as ``read_json`` returns it.

    Yields:
        The number of the operation, from 0 (None for the whole patch), and the fault.
    """
    if not isinstance(operations, list) or not operations:
        yield None, "must be a list of JSON Patch operations (RFC 6902)"
        return
    values: list[Any] = operations
    for index, operation in enumerate(values):
        try:
            [parsed] = jsonpatch.JsonPatch([operation])
            needed = _NEEDED.get(parsed["op"])
            if needed and needed not in parsed:
                yield index, f"{parsed['op']} needs {needed}"
            if needed == "from":
                JsonPointer(parsed.get(needed, ""))
        except (jsonpatch.InvalidJsonPatch, JsonPointerException) as error:
            yield index, str(error)
        except TypeError:
            yield index, "from: must be text, e.g. /customer/zip"


def read_patch(text: str) -> tuple[Patch | None, list[str]]:
    """Read a patch that a person wrote; an empty text or list is no patch.

    Returns:
        The patch, None if there is none or if it has faults; and the faults, as sentences.
    """
    try:
        operations = read_json(text.rstrip() or "[]")
    except JsonTextError as error:
        fault = f"the text {error}"
        if isinstance(error.__cause__, json.JSONDecodeError):
            fault += f": line {error.__cause__.lineno}, column {error.__cause__.colno}"
        return None, [fault]
    if operations == []:
        return None, []

    faults = []
    for index, fault in patch_faults(operations):
        place = "" if index is None else f"operation {index + 1}: "
        faults.append(f"{place}{fault}")
    return None if faults else Patch.of(operations), faults


AttributeChange = tuple[str, MessageAttribute | None]
"""A name and its new value; None removes the attribute."""

OURS = "sqs-dlq-"
"""Prefix of the product's own attributes, which no edit may change."""

_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?=.{1,256}\Z)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class Edit:
    """A valid edit.

    Attributes:
        patch: the change of a JSON body; None keeps every body, JSON or not.
        set_attributes: attribute names, and for each a Spark SQL expression over the columns of the
            archived message. None, and an expression that is null, removes the attribute.
    """

    patch: Patch | None = None
    set_attributes: tuple[tuple[str, str | None], ...] = ()

    @property
    def text(self) -> str:
        """The whole edit as JSON, the same for the same edit."""
        patch_text = self.patch.text if self.patch else None
        return json.dumps({"edit": patch_text, "set_attributes": self.set_attributes})

    @property
    def digest(self) -> str:
        """The edit's name in the ledger: the first 16 hex digits of the text's SHA-256."""
        return sha256(self.text.encode()).hexdigest()[:16]

    def apply(self, message: Message, changes: Sequence[AttributeChange]) -> Message:
        """Return *message* with the edit applied.

        *changes* are the values of ``set_attributes`` for this message.

        Raises:
            EditError: the edit does not fit this message; leave the message as it is.
        """
        body = message.body if self.patch is None else self.patch.apply(message.body)
        attributes = changed(message.attributes, changes)
        edited = replace(message, body=body, attributes=attributes, md5_of_body="")
        # It remains the same message: its context is written again, for the new body.
        return edited.with_history(message.history)


def name_fault(name: object) -> str | None:
    """Return why an edit cannot set an attribute with this name, None where it can.

    The rules are those of SQSDeveloperGuide, "Amazon SQS message metadata".
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            "must be 1 to 256 letters, digits, _, - and single dots between them, and not begin "
            "with AWS. or Amazon."
        )
    if name.lower().startswith(OURS):
        return f"names that begin with {OURS} are this product's own"
    return None


def changed(attributes: Attributes, changes: Sequence[AttributeChange]) -> Attributes:
    """Return *attributes* with *changes* applied; the others keep their values and their order.

    A custom label (``Number.int``) is kept if the new value has the same type.

    Raises:
        EditError: a new value is empty.
    """
    result = dict(attributes)
    for name, new in changes:
        if new is None:
            result.pop(name, None)
            continue
        if not new.value:
            raise EditError(
                f"attribute {name}: its new value is empty, which SQS refuses; null removes it"
            )

        old = result.get(name)
        if old is not None and old.data_type.split(".")[0] == new.data_type:
            result[name] = MessageAttribute(old.data_type, new.value)
        else:
            result[name] = new
    return result
