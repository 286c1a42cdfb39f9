"""Finds quoted texts that name a failure: those stay in an error's text, all others go. Pure.

A text that is JSON, or a dict's or list's repr, is read as such: keys stay, and values of keys
that name a failure (``code``, ``error``, ``path``, …). In sentences a name stays beside a noun of
code or configuration, as in ``column "vat"``; or where only code is written like that, as in
``'CARD_DECLINED'``; or where the text is nothing else, as of Python's ``KeyError``.

Nothing else stays: it may be anybody's name.
"""

import re

from dlq_replay.text.words import (
    CODE,
    CONFIGURATION,
    DATA,
    OF_CODE_GLUED,
    PEOPLE,
    kinds_of,
    looks_like_code,
    names_failure,
)

_BEFORE_CHARACTERS = 160
_AFTER_CHARACTERS = 48
_WORDS_BEFORE = 3
_WORDS_AFTER = 5

_NAME = re.compile(r"[$@_]{0,2}[^\W\d](?:[\w.$@#:/-]|\[(?:\d{0,4}|<n>)\]|<(?:n|id)>){0,63}")
"""A name of code, of any script: also ``$vat``, ``items[0].price``, ``image/heic``."""

_ONLY_OF_CODE = re.compile(r"[A-Z]{2,3}|[a-z]{1,20}/[a-z][a-z.+-]{1,40}")
"""As of a country, a currency or a unit; and a media type."""

_IS_KEY = re.compile(r"\s{0,4}(?::|=>)")
_ENDS_OF_KEYS = (":", "=", ">", "[", "(", "{", ",")
"""The last character before a key, a value or an element."""

_KEY_BACKWARDS = re.compile(r"\s{0,4}[\[({]?\s{0,4}(?:>=|[:=])\s{0,4}[\"'’`]?([\w$@.#-]{1,64})")
"""A key and its separator from its value, or from the first element, read backwards."""

_OF_CODE = frozenset((CODE, CONFIGURATION))
_OF_DATA = frozenset((PEOPLE, DATA))
_MUST = re.compile(r" (?:must |should |is (?:a )?required|is missing|cannot be |length must )")
_LEADS_TO_NOUN = frozenset(("is", "isn't", "was", "has", "not", "object", "instance"))
_RAISED = ("Error(", "Exception(")
_BEFORE_STATES = (" from", " to")
_STATE_BEFORE = re.compile(
    r"\b(?:transition\w{0,4}|go|move[ds]?|change[ds]?|switch\w{0,3}|status|state|step|convert\w{0,2}"
    r"|cast|migrate[ds]?|upgrade[ds]?) from (?:[\"'‘’“”«»`][\w-]{1,40}[\"'‘’“”«»`] to )?$"
)


def names_failure_here(text: str, start: int, end: int) -> bool:
    """Return whether the quoted text at ``text[start:end]``, with its marks, names a failure."""
    inner = text[start + 1 : end - 1].strip()
    if not (inner.isalpha() or _NAME.fullmatch(inner)):
        return False
    before = text[max(0, start - _BEFORE_CHARACTERS) : start].rstrip()
    after = text[end : end + _AFTER_CHARACTERS]
    if before.endswith(_ENDS_OF_KEYS):
        is_in_object = text.find("{", 0, start) >= 0
        if is_in_object and before[-1] in "{,[" and _IS_KEY.match(after):
            return True
        if key := _key_before(before):
            return names_failure(key)
    return _names_code(inner, before, after)


def _key_before(before: str) -> str:
    """Return the key whose value follows, or of whose list an element follows; else empty."""
    match = _KEY_BACKWARDS.match(before[::-1])
    if match is None:
        opened = max(before.rfind("["), before.rfind("("))
        is_closed = max(before.rfind("]"), before.rfind(")")) > opened
        match = None if is_closed else _KEY_BACKWARDS.match(before[: opened + 1][::-1])
    return match[1][::-1] if match else ""


def _names_code(inner: str, before: str, after: str) -> bool:
    """Return whether a quoted name in a sentence names code or configuration."""
    if not (before or after.strip()):
        return True

    has_noun = False
    kinds = frozenset[str]()
    for noun in before[-_AFTER_CHARACTERS:].rsplit(None, _WORDS_BEFORE)[-_WORDS_BEFORE:]:
        kinds = frozenset() if noun.isdecimal() else kinds_of(noun)
        has_noun = has_noun or not _OF_CODE.isdisjoint(kinds)

    if not _OF_DATA.isdisjoint(kinds):
        return False
    is_plain_word = inner.isalpha() and inner.islower()
    return (
        has_noun
        or _is_followed_by_noun(after)
        or (not is_plain_word and _is_written_as_code(inner))
        or _is_placed_as_code(before, after)
    )


def _is_written_as_code(inner: str) -> bool:
    return looks_like_code(inner) or _ONLY_OF_CODE.fullmatch(inner) is not None


def _is_placed_as_code(before: str, after: str) -> bool:
    """Return whether a sentence has names of fields, keys and states at this position."""
    if not before:
        return _MUST.match(after) is not None
    if before[-1] == "(":
        return before.endswith(_RAISED)
    if before.endswith(_BEFORE_STATES) and _STATE_BEFORE.search(f"{before} "):
        return True
    if before.isascii() and after.isascii():
        return False
    return before.endswith(OF_CODE_GLUED) or after.lstrip().startswith(OF_CODE_GLUED)


def _is_followed_by_noun(after: str) -> bool:
    words = after.split(None, _WORDS_AFTER)[:_WORDS_AFTER]
    if not words:
        return False
    if CODE in kinds_of(words[0]):
        return True
    return words[0].lower() in _LEADS_TO_NOUN and any(CODE in kinds_of(noun) for noun in words)
