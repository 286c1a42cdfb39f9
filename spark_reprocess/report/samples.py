"""Which samples the page shows, and how. It must stay small enough for a phone. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from markupsafe import escape

from spark_reprocess.findings import GroupFinding, Sample
from spark_reprocess.report.texts import cut, indented_json, looks_like_json, visible

SAMPLE_CHARACTERS = 8_000
"""Of one body at most, white space included."""

VALUE_CHARACTERS = 500
"""Of one attribute's name or value at most."""

PAGE_BYTES = 750_000
"""Of all samples together at most."""


@dataclass(frozen=True, slots=True)
class ShownSample:
    """A sample as the page shows it.

    Attributes:
        kind: ``JSON``, ``text`` or ``empty``.
        body: indented if it is JSON.
        is_cut: whether the body was cut here. One that the analysis cut ends in an ellipsis, too.
    """

    message_id: str
    sent_at: datetime | None
    kind: str
    body: str
    is_cut: bool
    attributes: tuple[tuple[str, str], ...]

    @property
    def page_bytes(self) -> int:
        """Size of its texts in the page, escaped and encoded."""
        texts = (self.message_id, self.body, *chain.from_iterable(self.attributes))
        return sum(len(escape(text).encode()) for text in texts)


def shown_samples(groups: Sequence[GroupFinding]) -> list[tuple[ShownSample, ...]]:
    """Choose the samples to show, for each of the *groups*.

    Every group gets its first sample before any gets a second, until ``PAGE_BYTES`` are used.
    """
    shown: list[list[ShownSample]] = [[] for _ in groups]
    left = PAGE_BYTES
    for turn in range(max((len(group.samples) for group in groups), default=0)):
        for group, kept in zip(groups, shown, strict=True):
            if len(kept) == turn < len(group.samples):
                sample = shown_sample(group.samples[turn])
                if sample.page_bytes <= left:
                    left -= sample.page_bytes
                    kept.append(sample)
    return [tuple(kept) for kept in shown]


def shown_sample(sample: Sample) -> ShownSample:
    """Format one sample, and cut what is too long."""
    head = sample.body[: SAMPLE_CHARACTERS + 1]
    kind = _kind(head)
    body = visible(indented_json(head) if kind == "JSON" else head)
    return ShownSample(
        message_id=_value(sample.message_id),
        sent_at=sample.sent_at,
        kind=kind,
        body=cut(body, SAMPLE_CHARACTERS),
        is_cut=len(body) > SAMPLE_CHARACTERS or len(sample.body) > SAMPLE_CHARACTERS,
        attributes=tuple((_value(name), _value(value)) for name, value in sample.attributes),
    )


def _value(text: str) -> str:
    return cut(visible(text[: VALUE_CHARACTERS + 1]), VALUE_CHARACTERS)


def _kind(body: str) -> str:
    if not body.strip():
        return "empty"
    return "JSON" if looks_like_json(body) else "text"
