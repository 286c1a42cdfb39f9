"""What a plan changes in every message of a group. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from dlq_replay.message import Message
from spark_reprocess.editing.attributes import AttributeChange, changed
from spark_reprocess.editing.patch import Patch


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit without faults.

    Attributes:
        patch: what happens to JSON bodies; None leaves bodies of every kind alone.
        set_attributes: attribute names, and a Spark SQL expression over the archived message's
            columns for the new value of each; None, like an expression that is null, removes it.
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
        """What the ledger calls it: the first 16 hex digits of the text's SHA-256."""
        return sha256(self.text.encode()).hexdigest()[:16]

    def apply(self, message: Message, changes: Sequence[AttributeChange]) -> Message:
        """Return *message* edited; *changes* are what the expressions gave for it.

        Raises:
            EditError: it does not fit this message, which must then be left as it is.
        """
        body = message.body if self.patch is None else self.patch.apply(message.body)
        return replace(message, body=body, attributes=changed(message.attributes, changes))
