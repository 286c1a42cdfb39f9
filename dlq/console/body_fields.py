"""The fields of a body that a person may choose for a JSON Patch. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlq.explain.signature.mask import Masks
from dlq.plan.json_text import Json, JsonTextError, read_json, write_json

MOST_FIELDS = 60


@dataclass(frozen=True, slots=True)
class BodyField:
    """One value that is no object and no list.

    Attributes:
        path: its JSON Pointer.
        shown: its value as JSON, masked.
        operation: replaces the value with itself, to be changed; empty where a mask hides some of
            it: ``***`` must not become the value.
    """

    path: str
    shown: str
    operation: str


def body_fields(body: str, masks: Masks) -> list[BodyField]:
    """Return the first fields of a body, ``MOST_FIELDS`` at most; none if it is not JSON."""
    try:
        value = read_json(body)
        shown = masks.tree("body", value)
        fields = _fields("", value, shown)
        return [field for field, _ in zip(fields, range(MOST_FIELDS), strict=False)]
    except (JsonTextError, RecursionError):
        return []


def _fields(path: str, value: Json, shown: Json) -> Iterator[BodyField]:
    """Yield the fields below *path*. Keys that a mask changes are left out."""
    if isinstance(value, dict) and isinstance(shown, dict):
        for key, child in value.items():
            if key in shown:
                token = key.replace("~", "~0").replace("/", "~1")
                yield from _fields(f"{path}/{token}", child, shown[key])
    elif isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        for number, (child, shown_child) in enumerate(zip(value, shown, strict=True)):
            yield from _fields(f"{path}/{number}", child, shown_child)
    else:
        operation = ""
        if not isinstance(value, dict | list) and shown == value:
            operation = write_json({"op": "replace", "path": path, "value": value}, (", ", ": "))
        yield BodyField(path, write_json(shown), operation)
