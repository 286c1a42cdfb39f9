"""The attributes of a queue: names, ranges, defaults.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from local_sqs.errors import invalid_queue_attribute, invalid_value, unknown_queue_attribute

MIB = 1_048_576

# Lowest, highest and default value.
RANGES = {
    "VisibilityTimeout": (0, 43_200, 30),
    "DelaySeconds": (0, 900, 0),
    "MessageRetentionPeriod": (60, 1_209_600, 345_600),
    "MaximumMessageSize": (1024, MIB, MIB),
    "ReceiveMessageWaitTimeSeconds": (0, 20, 0),
}

_CHOICES = {
    "FifoQueue": ("true",),
    "ContentBasedDeduplication": ("true", "false"),
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
    "SqsManagedSseEnabled": ("true", "false"),
}

_FIFO_DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}

_STANDARD_NAMES = {
    *RANGES,
    "SqsManagedSseEnabled",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
}

# An empty value removes one of these.
_REMOVABLE = {"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"}

READABLE = {
    *("All", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"),
    *("ApproximateNumberOfMessages" + state for state in ("", "NotVisible", "Delayed")),
    *_STANDARD_NAMES,
    *_CHOICES,
}


class RedrivePolicy(NamedTuple):
    """The dead-letter queue, and after how many receives a message is moved to it."""

    target_arn: str
    max_receive_count: int

    @classmethod
    def parse(cls, text: str) -> "RedrivePolicy":
        """Read the JSON of a queue's attribute.

        Raises:
            SqsError: not a valid policy, or a count outside 1 to 1000.
        """
        try:
            raw = json.loads(text)
            target, count = str(raw["deadLetterTargetArn"]), int(raw["maxReceiveCount"])
        except (ValueError, KeyError, TypeError) as error:
            raise invalid_value("RedrivePolicy", text, "Redrive policy is not valid.") from error
        if not 1 <= count <= 1000:
            reason = "Invalid value for maxReceiveCount: must be between 1 and 1000."
            raise invalid_value("RedrivePolicy", text, reason)
        return cls(target, count)


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked attributes of a queue, with defaults."""

    values: Mapping[str, str]
    is_fifo: bool
    redrive: RedrivePolicy | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_fifo: bool) -> "Settings":
        """Check *given* and add the defaults.

        Raises:
            SqsError: an unknown name, or a value that SQS refuses.
        """
        defaults = {name: str(default) for name, (_, _, default) in RANGES.items()}
        defaults |= {"SqsManagedSseEnabled": "true", **(_FIFO_DEFAULTS if is_fifo else {})}
        for name, value in given.items():
            _check(name, value, is_fifo=is_fifo)
        merged = {**defaults, **given}
        values = {n: v for n, v in merged.items() if v or n not in _REMOVABLE}
        policy = values.get("RedrivePolicy")
        return cls(values, is_fifo, RedrivePolicy.parse(policy) if policy else None)

    def number(self, name: str) -> int:
        """Return the value of one of ``RANGES``."""
        return int(self.values[name])

    def changed(self, given: Mapping[str, str]) -> "Settings":
        """Return these settings with the values of *given*.

        Here a change is effective at once. On AWS it takes up to 60 s, and up to 15 minutes for the
        retention period.

        Raises:
            SqsError: as for ``of``; also for a change of the queue type.
        """
        if self.is_fifo and given.get("FifoQueue", "true") != "true":
            raise invalid_queue_attribute("FifoQueue", "Modifying queue type is not supported.")
        return Settings.of({**self.values, **given}, is_fifo=self.is_fifo)

    def allows_source(self, arn: str) -> bool:
        """Return whether the queue *arn* may use this one as its dead-letter queue."""
        raw = json.loads(self.values.get("RedriveAllowPolicy", "{}"))
        permission = raw.get("redrivePermission", "allowAll")
        return permission == "allowAll" or (
            permission == "byQueue" and arn in raw.get("sourceQueueArns", [])
        )


def _check(name: str, value: str, *, is_fifo: bool) -> None:
    if name not in _STANDARD_NAMES and not (is_fifo and name in _FIFO_DEFAULTS):
        raise unknown_queue_attribute(name)
    if name in RANGES:
        lowest, highest, _ = RANGES[name]
        if not value.isdecimal() or not lowest <= int(value) <= highest:
            raise invalid_queue_attribute(name)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise invalid_queue_attribute(name)
