"""A lead as a human reads it, with nothing in it that is masked. Pure."""

from spark_reprocess.analysis.claims import Sort
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
from spark_reprocess.findings import Lead

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
    field = way_text(found.way)
    shown_field = masks.text(field)
    value = _value(found)
    is_value = found.sort is Sort.TAG and found.tag.startswith((VALUE, MAGNITUDE))
    is_ours = field == SIZE
    shown = masks.value(field, value) if is_value and not is_ours else value
    is_masked = shown != value or shown_field != field
    return Lead(
        field=shorten(shown_field, _FIELD_CHARACTERS),
        value=shorten(shown, _VALUE_CHARACTERS),
        group_share=found.group_share,
        other_share=found.other_share,
        score=found.score,
        condition="" if is_masked else condition(found.sort, found.way, found.tag),
        compared_with=_ALIKE if found.others_alike else _ALL,
    )


def _value(found: FoundLead) -> str:
    if found.sort is not Sort.TAG:
        return f"({found.sort.name.lower()})"
    tag = found.tag
    if tag.startswith(VALUE):
        return tag[1:] or '""'
    if tag.startswith(MAGNITUDE):
        return _size(int(tag[1:])) if found.way == SIZE else _magnitude(tag[1:])
    return _TYPES[tag]


def _magnitude(digits: str) -> str:
    least, most = f"{10 ** (abs(int(digits)) - 1):,}", f"{10 ** abs(int(digits)):,}"
    if digits == "0":
        return "between -1 and 1"
    return f"-{most} to -{least}" if digits.startswith("-") else f"{least} to {most}"


def _size(bits: int) -> str:
    return f"{2**bits // 2:,} to {2**bits - 1:,}" if bits else "0"
