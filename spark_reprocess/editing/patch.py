"""JSON Patch (RFC 6902) on message bodies. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from spark_reprocess.editing.json_text import COMPACT, Json, JsonTextError, Style, read_json

_MEMBERS = {
    "add": {"value"},
    "replace": {"value"},
    "test": {"value"},
    "remove": set[str](),
    "move": {"from"},
    "copy": {"from"},
}


class EditError(Exception):
    """The edit does not fit this message; the text says why, without a part of the message.

    The caller leaves the message where it is, counts it and reports its id.
    """


@dataclass(frozen=True, slots=True)
class Patch:
    """A valid JSON Patch.

    Attributes:
        text: the array of operations as compact JSON; patches with the same text are equal.
    """

    text: str
    _steps: tuple[tuple[str, jsonpatch.JsonPatch], ...] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Compile each operation separately, so that an error can name the one that failed."""
        steps = tuple(
            (f"operation {number} ({one['op']} {one['path']})", jsonpatch.JsonPatch([one]))
            for number, one in enumerate(self.operations, start=1)
        )
        object.__setattr__(self, "_steps", steps)

    @classmethod
    def of(cls, operations: Json) -> Self:
        """Make a patch of operations for which ``patch_faults`` yields nothing."""
        return cls(COMPACT.write(operations))

    @property
    def operations(self) -> list[dict[str, Json]]:
        """The operations, as ``read_json`` reads them."""
        found: Any = read_json(self.text)
        return list(found)

    def apply(self, body: str) -> str:
        """Return *body* with the patch applied; what the patch does not change keeps its text.

        A patch that changes no value returns *body* itself.

        Raises:
            EditError: *body* is not JSON that can be changed safely, or an operation does not
                apply; then no operation takes effect.
        """
        try:
            original = read_json(body)
            style = Style.of(body, original)
            unchanged = style.write(original)
            edited = style.write(self._applied(original))
        except JsonTextError as error:
            raise EditError(f"the body {error}") from error
        return body if edited == unchanged else edited

    def _applied(self, value: Json) -> Json:
        for name, step in self._steps:
            # The library's own messages quote the body.
            try:
                value = step.apply(value, in_place=True)
            except jsonpatch.JsonPatchTestFailed:
                raise EditError(f"{name}: another value is there, or none") from None
            except (jsonpatch.JsonPatchException, JsonPointerException):
                raise EditError(f"{name}: the body has no such place") from None
            except RecursionError:
                raise EditError(f"{name}: the body is nested too deeply") from None
        return value


def patch_faults(operations: Json) -> Iterator[tuple[int | None, str]]:
    """Find what is wrong with a patch.

    Args:
        operations: the patch, as ``read_json`` returns it.

    Yields:
        The number of the operation, from 0 (None for the whole patch), and what is wrong.
    """
    if not isinstance(operations, list) or not operations:
        yield None, "must be a list of JSON Patch operations (RFC 6902)"
        return
    for index, operation in enumerate(operations):
        yield from ((index, fault) for fault in _operation_faults(operation))


def _operation_faults(operation: Json) -> Iterator[str]:
    if not isinstance(operation, dict) or "op" not in operation:
        yield "must be a mapping with op and path"
        return
    op = operation["op"]
    if not isinstance(op, str) or op not in _MEMBERS:
        yield f"op must be one of {', '.join(_MEMBERS)}"
        return
    needed = {"path", *_MEMBERS[op]}
    yield from (f"{op} needs {name}" for name in sorted(needed - operation.keys()))
    for name in operation.keys() - needed - {"op"}:
        yield f"{op} takes no {name}"
    for name in ("path", "from"):
        if name in operation and name in needed:
            yield from (f"{name}: {fault}" for fault in _pointer_faults(operation[name]))
    if op == "remove" and operation.get("path") == "":
        yield "path: the whole body cannot be removed"


def _pointer_faults(pointer: Json) -> Iterator[str]:
    if not isinstance(pointer, str):
        yield "must be text, e.g. /customer/zip"
        return
    try:
        JsonPointer(pointer)
    except JsonPointerException:
        yield f"{pointer!r} is not a JSON Pointer: it begins with / (and ~ is ~0, / in a name ~1)"
