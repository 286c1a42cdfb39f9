"""The edit that a plan has for every message of a group. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from dlq_replay.message import Message
from spark_reprocess.editing.attributes import AttributeChange, changed
from spark_reprocess.editing.patch import Patch


@dataclass(frozen=True, slots=True)
class Edit:
    """A valid edit.

    Attributes:
        patch: what changes in a JSON body; None keeps every body, JSON or not.
        set_attributes: attribute names, and for each a Spark SQL expression over the columns of the
            archived message. None, and an expression that is null, removes the attribute.
    """

    patch: Patch | None = None
    set_attributes: tuple[tuple[str, str | None], ...] = ()

    @property
    def text(self) -> str:
        """The whole edit as JSON, the same for the same edit."""
        return json.dumps(
            {"edit": self.patch and self.patch.text, "set_attributes": self.set_attributes}
        )

    @property
    def digest(self) -> str:
        """The edit's name in the ledger: the first 16 hex digits of the text's SHA-256."""
        return sha256(self.text.encode()).hexdigest()[:16]

    def apply(self, message: Message, changes: Sequence[AttributeChange]) -> Message:
        """Return *message* with the edit applied.

        Args:
            message: one archived message.
            changes: the values of ``set_attributes`` for this message.

        Raises:
            EditError: the edit does not fit this message; leave the message as it is.
        """
        body = message.body if self.patch is None else self.patch.apply(message.body)
        return replace(message, body=body, attributes=changed(message.attributes, changes))
