"""Shorten and mask a body for a sample, so that its structure stays visible. Pure.

JSON stays JSON: long texts, long arrays and deep objects inside it are shortened. A long text is
cut behind the part that is shown, then masked, then shortened: half a secret matches no pattern,
and masking a megabyte takes long.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.masks import mask_start
from spark_reprocess.analysis.mask import MASKED, Masks, shorten
from spark_reprocess.analysis.payload import NOT_JSON, in_base64, parse_container, parse_json

SAMPLE_CHARACTERS = 1500

_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
"""JSON can contain half of a surrogate pair (``\\ud83d``), which UTF-8 cannot encode."""


_CUTS = (
    (12, 200, 20, 400),
    (6, 60, 5, 200),
    (4, 30, 3, 100),
    (3, 15, 2, 60),
    (2, 12, 2, 60),
    (2, 6, 1, 40),
    (1, 30, 1, 40),
    (1, 8, 1, 40),
)
"""How much of a body is shown: levels, fields of an object, elements, characters of a text."""

_SHRINKS = 4
"""Each cut leaves about a fourth of what the previous one leaves of a large body."""


def excerpt(body: str, masks: Masks, characters: int = SAMPLE_CHARACTERS) -> str:
    """Return *body* masked and in at most so many characters."""
    value = parse_json(body)
    if value is not NOT_JSON:
        return _json_excerpt(value, masks, characters, len(body))
    packed = in_base64(body)
    if packed is None:
        return masks.start(body, characters)
    word, held = packed
    if isinstance(held, bytes):
        return f"{word} {len(held):,} bytes"
    return f"{word} {excerpt(held, masks, characters - len(word) - 1)}"


def _json_excerpt(value: object, masks: Masks, characters: int, size: int) -> str:
    first = sum(size > characters * _SHRINKS**power for power in range(1, 4))
    for cut in _CUTS[first:]:
        shown = _Shortener(masks, *cut).value(value, "body", 0)
        text = _HALF_PAIR.sub(_escaped, json.dumps(shown, ensure_ascii=False))
        if len(text) <= characters:
            return text
    return shorten(text, characters)


def _escaped(half: re.Match[str]) -> str:
    return f"\\u{ord(half[0]):04x}"


@dataclass(frozen=True, slots=True)
class _Shortener:
    masks: Masks
    levels: int
    fields: int
    elements: int
    characters: int

    def value(self, value: object, field: str, level: int) -> object:
        if field and self.masks.hides(field):
            return MASKED
        match value:
            case str():
                return self._text(value, field, level)
            case dict():
                return self._object(value, field, level)
            case list():
                return self._array(value, field, level)
            case bool() | None:
                return value
        shown = self.masks.text(str(value))
        return value if shown == str(value) else shown

    def _text(self, text: str, field: str, level: int) -> str:
        if (container := parse_container(text)) is not NOT_JSON:
            return json.dumps(self.value(container, field, level), ensure_ascii=False)
        if (secret := self._secret_inside(text, field, level)) is not None:
            return secret
        most = self.characters
        masked, is_cut = mask_start(text, most, self.masks.text)
        return f"{masked[: most - 1]}…" if is_cut or len(masked) > most else masked

    def _secret_inside(self, text: str, field: str, level: int) -> str | None:
        """Return the masked content of base64 text, None if nothing in it needs a mask."""
        word, held = in_base64(text) or ("", b"")
        if isinstance(held, bytes):
            return None
        shown = self._text(held, field, level)
        return None if shown == held else f"{word} {shown}"

    def _object(self, value: Mapping[str, Any], field: str, level: int) -> object:
        if value and level >= self.levels:
            return "{…}"
        shown: dict[str, object] = {}
        for name, inside in list(value.items())[: self.fields]:
            key = self.masks.start(name, 80)
            shown[key] = self.value(inside, f"{field}.{name}", level + 1)
        if len(value) > self.fields:
            shown["…"] = f"{len(value) - self.fields} more"
        return shown

    def _array(self, value: list[Any], field: str, level: int) -> object:
        if value and level >= self.levels:
            return "[…]"
        shown = [self.value(one, f"{field}[]", level + 1) for one in value[: self.elements]]
        if len(value) > self.elements:
            shown.append(f"… {len(value) - self.elements} more")
        return shown
