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

# The first is the default. All but the last are of FIFO queues.
_CHOICES = {
    "FifoQueue": ("true",),
    "ContentBasedDeduplication": ("false", "true"),
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
    "SqsManagedSseEnabled": ("true", "false"),
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

SETTABLE = {*_STANDARD_NAMES, *_CHOICES}


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
            target_arn = str(raw["deadLetterTargetArn"])
            max_receive_count = int(raw["maxReceiveCount"])
        except (ValueError, KeyError, TypeError) as error:
            raise invalid_value("RedrivePolicy", text, "Redrive policy is not valid.") from error
        if not 1 <= max_receive_count <= 1000:
            reason = "Invalid value for maxReceiveCount: must be between 1 and 1000."
            raise invalid_value("RedrivePolicy", text, reason)
        return cls(target_arn, max_receive_count)


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
        for name, value in given.items():
            _check(name, value, is_fifo=is_fifo)

        values = {**_defaults(is_fifo=is_fifo), **given}
        for name in _REMOVABLE:
            if values.get(name) == "":
                del values[name]

        policy = values.get("RedrivePolicy")
        redrive = RedrivePolicy.parse(policy) if policy else None
        return cls(values, is_fifo, redrive)

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
        permission: str = raw.get("redrivePermission", "allowAll")
        if permission == "byQueue":
            sources: list[str] = raw.get("sourceQueueArns", [])
            return arn in sources
        return permission == "allowAll"


def _defaults(*, is_fifo: bool) -> dict[str, str]:
    defaults = {name: str(default) for name, (_, _, default) in RANGES.items()}
    for name, choices in _CHOICES.items():
        if is_fifo or name in _STANDARD_NAMES:
            defaults[name] = choices[0]
    return defaults


def _check(name: str, value: str, *, is_fifo: bool) -> None:
    if name not in _STANDARD_NAMES and not (is_fifo and name in _CHOICES):
        raise unknown_queue_attribute(name)

    if name in RANGES:
        lowest, highest, _ = RANGES[name]
        if not value.isdecimal() or not lowest <= int(value) <= highest:
            raise invalid_queue_attribute(name)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise invalid_queue_attribute(name)
