"""A lead as a human reads it, with nothing in it that is masked. Pure."""

from spark_reprocess.analysis.claims import Claim, Sort
from spark_reprocess.analysis.lead_sql import condition
from spark_reprocess.analysis.leads import FoundLead
from spark_reprocess.analysis.mask import Masks, shorten
from spark_reprocess.analysis.traits import (
    ARRAY,
    BINARY,
    BOOLEAN,
    EMPTY,
    IN_SOME,
    MAGNITUDE,
    NULL,
    NUMBER,
    OBJECT,
    SIZE,
    TEXT,
    VALUE,
    way_text,
)
from spark_reprocess.findings import Lead, Synonym, state_of

_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 120
_ALIKE = "others like these"
_ALL = "all others"
_TYPES = {
    TEXT: "(text)",
    NUMBER: "(number)",
    BOOLEAN: "(true or false)",
    NULL: "(null)",
    OBJECT: "(object)",
    ARRAY: "(array)",
    BINARY: "(bytes)",
    EMPTY: "(empty)",
    IN_SOME: "(missing in some)",
}


def lead_of(found: FoundLead, masks: Masks) -> Lead:
    """Word a lead. What is masked is neither in its value nor in its condition."""
    field, value, is_masked = _shown(found.claim, masks)
    return Lead(
        field=field,
        value=value,
        group_share=found.group_share,
        other_share=found.other_share,
        score=found.score,
        condition="" if is_masked else condition(*found.claim),
        compared_with=_ALIKE if found.others_alike else _ALL,
        synonyms=tuple(Synonym(*_shown(one, masks)[:2]) for one in found.synonyms),
    )


def _shown(claim: Claim, masks: Masks) -> tuple[str, str, bool]:
    """Field and value as they may be shown, and whether that is less than they are."""
    field, value = way_text(claim.way), _value(claim)
    shown_field, shown = masks.text(field), value
    is_value = claim.sort is Sort.TAG and claim.tag.startswith((VALUE, MAGNITUDE))
    if is_value and field != SIZE:
        shown = masks.value(field, value)
    is_masked = shown != value or shown_field != field
    return shorten(shown_field, _FIELD_CHARACTERS), shorten(shown, _VALUE_CHARACTERS), is_masked


def _value(claim: Claim) -> str:
    if claim.sort is not Sort.TAG:
        return f"({claim.sort.name.lower()})"
    tag = claim.tag
    if tag.startswith(VALUE):
        return f'"{tag[1:]}"' if not tag[1:] or state_of(tag[1:]) else tag[1:]
    if tag.startswith(MAGNITUDE):
        return _size(int(tag[1:])) if claim.way == SIZE else _magnitude(tag[1:])
    return _TYPES[tag]


def _magnitude(digits: str) -> str:
    least, most = f"{10 ** (abs(int(digits)) - 1):,}", f"{10 ** abs(int(digits)):,}"
    if digits == "0":
        return "between -1 and 1"
    return f"-{most} to -{least}" if digits.startswith("-") else f"{least} to {most}"


def _size(bits: int) -> str:
    return f"{2**bits // 2:,} to {2**bits - 1:,}" if bits else "0"
