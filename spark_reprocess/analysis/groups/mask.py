"""Mask what no sample, title or lead may show: by pattern, by key, and by ``--mask``. Pure.

``dlq_replay.text.masks`` has the patterns. Masks cannot recognize names, addresses and free text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dlq_replay.text.masks import MASKED, NAMES_OF_FIELDS, mask_start, mask_text
from spark_reprocess.analysis.groups.payload import NOT_JSON, in_base64, parse_container, parse_json
from spark_reprocess.analysis.leads.features import COLUMNS
from spark_reprocess.errors import InputError
from spark_reprocess.figures import cut

_PATH = re.compile(r"(?:body|attribute)(?:\.[^\s.()*+?|^$\\]+)+")


@dataclass(frozen=True, slots=True)
class Masks:
    """What to hide. Picklable, because it is sent to tasks.

    Attributes:
        patterns: what the caller wants hidden wherever it stands, besides our own patterns.
        fields: paths of fields that are hidden with all that is below them, without ``[]``.
        shows_values: False hides every value, whatever it is, and all bodies.
    """

    patterns: tuple[re.Pattern[str], ...] = ()
    fields: tuple[str, ...] = ()
    shows_values: bool = True

    def text(self, text: str) -> str:
        """Return *text* with everything that a pattern finds replaced by ``***``."""
        text = mask_text(text)
        for own in self.patterns:
            text = own.sub(MASKED, text)
        return text

    def start(self, text: str, characters: int) -> str:
        """Return the masked start of a text of any length, up to *characters*, on one line."""
        masked, is_cut = mask_start(text, characters, self.text)
        return shorten(f"{masked}…" if is_cut else masked, characters)

    def value(self, field: str, text: str, characters: int | None = None) -> str:
        """Return a field's value as it may be shown: all of it, parts, or ``***``.

        With *characters* it is its start, up to this number, on one line.
        """
        if not self.shows_values or self.hides(field):
            return MASKED
        return self.text(text) if characters is None else self.start(text, characters)

    def tree(self, field: str, value: object) -> Any:  # noqa: ANN401 - as JSON as it came
        """Return a JSON value with ``***`` in place of each field that is not to be shown."""
        if self.hides(field):
            return MASKED
        match value:
            case dict():
                return {name: self.tree(f"{field}.{name}", one) for name, one in value.items()}
            case list():
                return [self.tree(f"{field}[]", one) for one in value]
        return value

    def hides(self, field: str) -> bool:
        """Whether *field* (``body.customer.name``) is not to be shown, whatever its value is."""
        plain = field.replace("[]", "")
        is_below = any(plain == one or plain.startswith(f"{one}.") for one in self.fields)
        return is_below or any(map(is_secret_key, plain.split(".")))


def compile_masks(masks: Sequence[str], *, shows_values: bool = True) -> Masks:
    """Compile what the caller wants hidden, in addition to our own.

    What looks like the path of a field (``body.customer.name``, ``attribute.tenant``) is one;
    anything else is a regular expression.

    Raises:
        InputError: one is no regular expression; the message names it.
    """
    fields = tuple(one.replace("[]", "") for one in masks if _is_path(one))
    try:
        patterns = tuple(re.compile(one) for one in masks if not _is_path(one))
    except re.error as error:
        raise InputError(f"--mask {error.pattern!r}: is no regular expression: {error}") from error
    return Masks(patterns, fields, shows_values)


def _is_path(mask: str) -> bool:
    return mask in COLUMNS or _PATH.fullmatch(mask) is not None


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Return whether values under *key* are hidden: ``apiKey``, ``DB_PASSWORD``, ``dob``."""
    words = [word.lower() for word in _WORD.findall(key)]
    pairs = {f"{first}{second}" for first, second in pairwise(words)}
    return not _SECRET.isdisjoint((*words, *pairs))


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = frozenset(NAMES_OF_FIELDS.replace("_", "").split())


def shorten(text: str, characters: int) -> str:
    """Cut *text* to so many characters, on one line, marked where it was cut."""
    return cut(" ".join(text.split()), characters)


SAMPLE_CHARACTERS = 1500

_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
"""JSON can contain half of a surrogate pair (``\\ud83d``), which UTF-8 cannot encode."""


_CUTS = ((12, 200, 20, 400), (6, 60, 5, 200), (4, 30, 3, 100), (3, 15, 2, 60), (1, 8, 1, 40))
"""How much of a body is shown: levels, fields of an object, elements, characters of a text."""

_SHRINKS = 4
"""Each cut leaves about a fourth of what the previous one leaves of a large body."""


def excerpt(body: str, masks: Masks, characters: int = SAMPLE_CHARACTERS) -> str:
    """Return *body* masked, up to *characters*.

    JSON stays JSON, with long texts, long arrays and deep objects shortened.
    """
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
    for limits in _CUTS[first:]:
        shown = _Shortener(masks, *limits).value(value, "body", 0)
        text = _HALF_PAIR.sub(
            lambda half: f"\\u{ord(half[0]):04x}", json.dumps(shown, ensure_ascii=False)
        )
        if len(text) <= characters:
            return text
    return shorten(text, characters)


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
        word, held = in_base64(text) or ("", b"")
        if isinstance(held, str) and (shown := self._text(held, field, level)) != held:
            return f"{word} {shown}"
        most = self.characters
        masked, is_cut = mask_start(text, most, self.masks.text)
        return f"{masked[: most - 1]}…" if is_cut or len(masked) > most else masked

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
