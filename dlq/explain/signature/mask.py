"""Mask texts that no sample, title or difference may show: by pattern, key and ``--mask``. Pure.

``dlq_replay.text.masks`` has the patterns. Masks cannot recognize names, addresses and free text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlq.errors import InputError
from dlq.explain.differences.features import COLUMNS
from dlq.explain.signature.payload import NOT_JSON, in_base64
from dlq.figures import truncate
from dlq.plan.json_text import (
    Json,
    JsonTextError,
    Number,
    read_json,
    write_json,
)
from dlq_replay.text.masks import MASKED, mask_start, mask_text
from dlq_replay.text.secret_names import is_secret_name

_PATH = re.compile(r"(?:body|attribute)(?:\.[^\s.()*+?|^$\\]+)+")


@dataclass(frozen=True, slots=True)
class Masks:
    """The texts to hide. Picklable, because it is sent to tasks.

    Attributes:
        patterns: texts that the caller wants hidden wherever they are, besides our own patterns.
        fields: paths of fields that are hidden with all that is below them, without ``[]``.
        shows_values: False hides every value, whatever it is, and all bodies.
    """

    patterns: tuple[re.Pattern[str], ...] = ()
    fields: tuple[str, ...] = ()
    shows_values: bool = True

    def text(self, text: str) -> str:
        """Return *text* with everything that a pattern finds replaced by ``***``."""
        text = mask_text(text)
        for pattern in self.patterns:
            text = pattern.sub(MASKED, text)
        return text

    def start(self, text: str, characters: int) -> str:
        """Return the masked start of a text of any length, up to *characters*, on one line."""
        masked, is_cut = mask_start(text, characters, self.text)
        return shorten(f"{masked}…" if is_cut else masked, characters)

    def value(self, field: str, value: str | bytes, characters: int | None = None) -> str:
        """Return a field's value as it may be shown: all of it, parts, or ``***``.

        What is shown of messages, wherever it is, comes from here: bodies, attributes, differences.
        JSON stays JSON, with ``***`` in place of each field that is not to be shown. JSON in a
        text, and text in base64, is masked likewise. Of bytes only their number is shown.

        With *characters* the value is shortened to this number: long texts, long arrays and deep
        objects within JSON, and other texts to one line.
        """
        if not self.shows_values or self.hides(field):
            return MASKED
        if isinstance(value, bytes):
            return f"{len(value):,} bytes"
        if characters is None:
            return _Masker(self).whole(field, value)

        # A larger body needs more cuts, so do not try the first ones.
        first_cut = 0
        while first_cut < _MOST_SKIPPED and len(value) > characters * _SHRINKS ** (first_cut + 1):
            first_cut += 1
        for limits in _CUTS[first_cut:]:
            shown = _Masker(self, characters, *limits).whole(field, value)
            if len(shown) <= characters:
                return shown
        return shorten(shown, characters)

    def tree(self, field: str, value: Json) -> Json:
        """Return what ``read_json`` returns, masked as by ``value``."""
        return _Masker(self).value(field, value, 0)

    def hides(self, field: str) -> bool:
        """Return whether *field* (``body.customer.name``) must not be shown, whatever its value."""
        path = field.replace("[]", "")
        for hidden_path in self.fields:
            if path == hidden_path or path.startswith(f"{hidden_path}."):
                return True
        return any(map(is_secret_name, path.split(".")))


def compile_masks(masks: Sequence[str], *, shows_values: bool = True) -> Masks:
    """Compile the masks of a caller, in addition to our own.

    A mask that looks like the path of a field (``body.customer.name``, ``attribute.tenant``) is
    one; any other is a regular expression.

    Raises:
        InputError: a mask is no regular expression; the message names it.
    """
    fields = []
    patterns = []
    try:
        for mask in masks:
            if _is_path(mask):
                fields.append(mask.replace("[]", ""))
            else:
                patterns.append(re.compile(mask))
    except re.error as error:
        raise InputError(f"--mask {error.pattern!r}: is no regular expression: {error}") from error
    return Masks(tuple(patterns), tuple(fields), shows_values)


def _is_path(mask: str) -> bool:
    return mask in COLUMNS or _PATH.fullmatch(mask) is not None


def shorten(text: str, characters: int) -> str:
    """Cut *text* to this number of characters, on one line, marked where it was cut."""
    return truncate(" ".join(text.split()), characters)


SAMPLE_CHARACTERS = 1500
"""Length of a body in a sample."""

_LEVELS = 100
"""Values that are nested more deeply are not shown: Python could not write them."""

_CUTS = ((12, 200, 20, 400), (6, 60, 5, 200), (4, 30, 3, 100), (3, 15, 2, 60), (1, 8, 1, 40))
"""Limits of JSON that is shown: levels, fields of an object, elements, characters of a text."""

_SHRINKS = 4
"""Each cut leaves about a fourth of what the previous one leaves of a large body."""

_MOST_SKIPPED = 3

_KEY_CHARACTERS = 80
_ALL = 10**9
_BODY = "body"


@dataclass(frozen=True, slots=True)
class _Masker:
    """Masks one value, and shortens JSON to these limits.

    Attributes:
        most: characters of a text that is not JSON; None shortens nothing.
        characters: of a text within JSON.
    """

    masks: Masks
    most: int | None = None
    levels: int = _LEVELS
    fields: int = _ALL
    elements: int = _ALL
    characters: int = _ALL

    def whole(self, field: str, text: str) -> str:
        """Return *text* masked, as JSON if it is JSON."""
        value = _read(text)
        if value is not NOT_JSON:
            return self._json(field, text, value, 0)

        decoded = in_base64(text) if field == _BODY else None
        if decoded is not None:
            encoding, content = decoded
            characters_left = None if self.most is None else self.most - len(encoding) - 1
            return f"{encoding} {self.masks.value(field, content, characters_left)}"
        if self.most is None:
            return self._text(field, text, 0, _ALL)
        return shorten(self._text(field, text, 0, self.most), self.most)

    def value(self, field: str, value: Json, level: int) -> Json:
        if self.masks.hides(field):
            return MASKED
        match value:
            case str():
                return self._text(field, value, level, self.characters)
            case dict():
                return self._object(field, value, level)
            case list():
                return self._array(field, value, level)
            case Number():
                shown = self._leaf(field, value.encoded_json, self.characters)
                return value if shown == value.encoded_json else shown
        return value

    def _json(self, field: str, text: str, value: Json, level: int) -> str:
        shown = self.value(field, value, level)
        if self.most is None and shown == value:
            # As it was written.
            return self.masks.text(text)
        return write_json(shown, (", ", ": "))

    def _text(self, field: str, text: str, level: int, characters: int) -> str:
        # Rules out most texts without parsing them.
        value: Any = _read(text) if text.lstrip()[:1] in ("{", "[") else NOT_JSON
        if value is not NOT_JSON:
            return self._json(field, text, value, level)

        encoding, content = in_base64(text) or ("", b"")
        if isinstance(content, str) and level < self.levels:
            shown = self._text(field, content, level + 1, characters)
            if shown != content:
                return f"{encoding} {shown}"
        return self._leaf(field, text, characters)

    def _leaf(self, field: str, text: str, characters: int) -> str:
        # The name may decide what is masked, as in "account: 12345678".
        before = f"{field.rpartition('.')[2].removesuffix('[]')}: "

        def mask(text: str) -> str:
            masked = self.masks.text(f"{before}{text}")
            is_whole = masked.startswith(before)
            return masked.removeprefix(before) if is_whole else self.masks.text(text)

        masked, is_cut = mask_start(text, characters, mask)
        return truncate(f"{masked}…" if is_cut else masked, characters)

    def _object(self, field: str, value: dict[str, Json], level: int) -> Json:
        if value and level >= self.levels:
            return "{…}"
        shown: dict[str, Json] = {}
        for name, inside in list(value.items())[: self.fields]:
            is_whole = self.most is None
            key = self.masks.text(name) if is_whole else self.masks.start(name, _KEY_CHARACTERS)
            if key in shown:
                # Two names that are masked, or cut.
                key = f"{key} ({len(shown)})"
            shown[key] = self.value(f"{field}.{name}", inside, level + 1)
        if len(value) > self.fields:
            shown["…"] = f"{len(value) - self.fields} more"
        return shown

    def _array(self, field: str, value: list[Json], level: int) -> Json:
        if value and level >= self.levels:
            return "[…]"
        shown = [self.value(f"{field}[]", element, level + 1) for element in value[: self.elements]]
        if len(value) > self.elements:
            shown.append(f"… {len(value) - self.elements} more")
        return shown


def _read(text: str) -> Any:  # noqa: ANN401 - a JSON value, or NOT_JSON
    try:
        return read_json(text, _with_repeats)
    except JsonTextError:
        return NOT_JSON


def _with_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object. A name that is repeated has an array of all its values."""
    by_name: dict[str, list[Json]] = {}
    for name, value in pairs:
        by_name.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in by_name.items()}
