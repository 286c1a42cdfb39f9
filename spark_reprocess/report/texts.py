"""Strangers' text made fit to be read: nothing in it is invisible, nothing endless. Pure.

This is about what a reader sees; that no text becomes markup is the template engine's part.
"""

import unicodedata

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_DELETE_PICTURE = "\u2421"
_JOINERS = "\u200c\u200d"
_KEPT = "\n\t"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Spell out each character that would show as nothing, or reorder what stands beside it.

    Control characters become their pictures (``␀``); bidirectional overrides, zero-width
    characters, line separators, surrogates, private and unassigned code points become
    ``[U+202E]``. Line feeds and tabs stay, and so do joiners inside emoji and scripts that need
    them. What comes out can be encoded as UTF-8, and is itself left alone by this function.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(_seen(one, before) for before, one in zip(f" {text}", text, strict=False))


def cut(text: str, characters: int) -> str:
    """Return *text*, or so many characters of it with an ellipsis as the last."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _seen(one: str, before: str) -> str:
    if one.isprintable() or one in _KEPT or (one in _JOINERS and _needs_joiners(before)):
        return one
    if unicodedata.category(one) not in _UNSEEN:
        return one
    code = ord(one)
    if code < ord(" "):
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"[U+{code:04X}]"


def _needs_joiners(before: str) -> bool:
    return before.isprintable() and not before.isascii()
