"""What a page shows of messages: bodies, attributes and errors, masked as samples are. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_reprocess.analysis.mask import Masks, excerpt
from spark_reprocess.findings import Sample
from spark_reprocess.inspect.show import ArchivedCopy
from spark_reprocess.report.views import ShownSample, shown_sample

BODY_CHARACTERS = 8_000
"""Of a body at most; ``dlq show`` and ``dlq export`` have all of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What readers may see.

    Attributes:
        masks: what they may not.
        is_unmasked: whether the user asked for everything.
    """

    masks: Masks
    is_unmasked: bool

    def body(self, body: str) -> str:
        """Return a body as a reader may see it, cut to what a page shows."""
        return body if self.is_unmasked else excerpt(body, self.masks, BODY_CHARACTERS)

    def error(self, text: str | None) -> str:
        """Return a recorded error message as a reader may see it."""
        return (text or "") if self.is_unmasked else self.masks.text(text or "")

    def value(self, name: str, value: str) -> str:
        """Return an attribute's value as a reader may see it."""
        return value if self.is_unmasked else self.masks.value(f"attribute.{name}", value)

    def sample(self, copy: ArchivedCopy) -> ShownSample:
        """Return body and attributes of a copy that was read unmasked, as a page shows them."""
        values = copy.values or {}
        attributes = tuple(
            (f"{name} ({copy.attributes[name]})", self.value(name, value))
            for name, value in values.items()
        )
        body = self.body(copy.body or "")
        return shown_sample(Sample(copy.message_id, copy.sent_at, body, attributes))

    def text(self, row: Mapping[str, Any]) -> str:
        """Return all texts of a row that a reader may see, for a search."""
        return f"{self.body(row['body'] or '')}\n{self.error(row['error_message'])}"
