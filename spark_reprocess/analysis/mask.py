"""What no sample may show: e-mail addresses, card numbers, tokens, and what the caller adds. Pure.

A net, not a proof: ``analyze --no-samples`` is for payloads that nobody may read.
"""

import re
from collections.abc import Sequence

MASKED = "***"

_BUILT_IN = (
    re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"),
    re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"),
    re.compile(
        r'(?i)(?<=")(?:password|passwd|secret|token|api_?key|authorization)"\s*:\s*"[^"]*(?:"|$)'
    ),
)


def compile_masks(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Compile the caller's patterns, in addition to our own.

    Raises:
        ValueError: one is no regular expression; the message names it.
    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise ValueError(f"{pattern!r}: is no regular expression: {error}") from error
    return (*_BUILT_IN, *compiled)


def mask(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """Return *text* with everything that a pattern finds replaced by ``***``."""
    for pattern in patterns:
        text = pattern.sub(MASKED, text)
    return text


def shorten(text: str, characters: int) -> str:
    """Cut *text* to so many characters, on one line, marked where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"
