"""Reads our two attributes of a copy: replay counter and context. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from dlq_replay.wire.attributes import Attributes, MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, InheritedContextError, ReplayContext

REPLAY_COUNT_ATTRIBUTE = "sqs-dlq-replay-nb"
"""The same name and meaning as in the public app ``amazon-sqs-dlq-replay-backoff``."""

_COUNT = re.compile(r"[0-9]{1,38}")
"""SQS keeps 38 digits of a Number."""


@dataclass(frozen=True, slots=True)
class History:
    """The content of a copy's two attributes.

    Attributes:
        replay_count: the value of the counter, which the rules use; 0 if the attribute is absent,
            None if it is not a whole number of at least 0.
        context: empty if it is absent, cannot be read or is inherited.
        fault: why the context does not count, for the log; else None.
        is_inherited: whether a consumer passed both attributes on to this message from another.
            Neither counts then: the replay count is 0.
    """

    replay_count: int | None
    context: ReplayContext
    fault: str | None = None
    is_inherited: bool = False

    @classmethod
    def of(cls, attributes: Attributes, digest: Callable[[], str]) -> Self:
        """Read both attributes. Never raises: a malformed context counts as absent.

        *digest* returns the ``body_digest`` of the copy.
        """
        count = _replay_count(attributes.get(REPLAY_COUNT_ATTRIBUTE))
        attribute = attributes.get(CONTEXT_ATTRIBUTE)
        if attribute is None:
            return cls(count, ReplayContext())
        if not isinstance(attribute.value, str):
            return cls(count, ReplayContext(), f"{CONTEXT_ATTRIBUTE}: must be of type String")
        try:
            return cls(count, ReplayContext.from_json(attribute.value, digest))
        except InheritedContextError as error:
            return cls.inherited(str(error))
        except ValueError as error:
            return cls(count, ReplayContext(), fault=f"{CONTEXT_ATTRIBUTE}: {error}")

    @classmethod
    def inherited(cls, why: str) -> Self:
        """Return that of a message whose attributes came from another message."""
        return cls(0, ReplayContext(), f"{CONTEXT_ATTRIBUTE}: {why}", is_inherited=True)


def _replay_count(attribute: MessageAttribute | None) -> int | None:
    if attribute is None:
        return 0
    text = attribute.value
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None
