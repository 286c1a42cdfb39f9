"""The Lambda's environment, read once; every fault of it is reported together. Pure."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from dlq_replay.addresses import QueueAddress, is_queue_name
from dlq_replay.backoff import Backoff
from dlq_replay.errors import SettingsError
from dlq_replay.policy import QueueLimits, ReplayPolicy

MAX_ATTEMPTS_RANGE = (0, 1000)
BACKOFF_RATE_RANGE = (0.001, 43_200.0)
BACKOFF_CAP_RANGE = (0, 1_209_600)
MAX_AGE_RANGE = (1, 31_536_000)
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

OTHER_MAIN_QUEUES = "OTHER_MAIN_QUEUE_ARNS"

_ERROR_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]+")
_REGION_IN_URL = re.compile(r"https://sqs\.([a-z0-9-]+)\.")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}|arn:[a-z-]+:dynamodb:[A-Za-z0-9_.:/-]+")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What the Lambda is told by its environment."""

    main_queue_url: str
    dlq_url: str
    parked_queue_url: str
    policy: ReplayPolicy
    failure_table: str | None = None
    has_breaker: bool = False
    log_level: str = "INFO"

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Self:
        """Read and check the variables. An empty string counts as not set.

        Raises:
            SettingsError: lists every fault at once, each with name, value and rule.
        """
        reader = _Reader(environment)
        names = ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL")
        main, dlq, parked = (reader.required(name, QueueAddress.from_url) for name in names)
        queues = {
            name: queue for name, queue in zip(names, (main, dlq, parked), strict=True) if queue
        }
        others = reader.optional(OTHER_MAIN_QUEUES, _queues) or {}
        max_attempts = reader.required("MAX_ATTEMPTS", _whole(*MAX_ATTEMPTS_RANGE))
        rate = reader.required("BACKOFF_RATE", _fraction(*BACKOFF_RATE_RANGE))
        cap = reader.required("BACKOFF_CAP_SECONDS", _whole(*BACKOFF_CAP_RANGE))
        max_age = reader.optional("MAX_AGE_SECONDS", _whole(*MAX_AGE_RANGE))
        non_retryable = reader.optional("NON_RETRYABLE_ERRORS", _patterns)
        failure_table = reader.optional("FAILURE_TABLE", _table)
        breaker = reader.optional("BREAKER", _on_or_off)
        log_level = reader.optional("LOG_LEVEL", _log_level)
        faults = [
            *reader.faults,
            *_contradictions(queues, others, environment.get("DLQ_URL", "")),
        ]
        if non_retryable and not environment.get("FAILURE_TABLE"):
            faults.append("NON_RETRYABLE_ERRORS is set and FAILURE_TABLE is not: it needs both")
        if breaker and not environment.get("FAILURE_TABLE"):
            faults.append("BREAKER is on and FAILURE_TABLE is not set: it needs both")
        if faults or not (main and dlq and parked) or max_attempts is None or rate is None:
            raise SettingsError(faults)
        backoff = Backoff(rate_seconds=rate, cap_seconds=cap or 0)
        return cls(
            main_queue_url=environment["MAIN_QUEUE_URL"],
            dlq_url=environment["DLQ_URL"],
            parked_queue_url=environment["PARKED_QUEUE_URL"],
            policy=ReplayPolicy(
                main,
                max_attempts,
                backoff,
                max_age,
                non_retryable or (),
                other_main_queues=dict.fromkeys(others, QueueLimits()),
            ),
            failure_table=failure_table,
            has_breaker=failure_table is not None and breaker is not False,
            log_level=log_level or "INFO",
        )

    @property
    def other_main_queue_urls(self) -> Mapping[QueueAddress, str]:
        """The URLs of the other main queues, which are in the Region of the main queue."""
        url = self.main_queue_url
        return {queue: queue.url_beside(url) for queue in self.policy.other_main_queues}


class _Reader:
    """Reads variables one by one and remembers what was wrong with each."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def required(self, name: str, parse: Callable[[str], Value]) -> Value | None:
        if not self._environment.get(name):
            self.faults.append(f"{name} is not set: it is required")
            return None
        return self.optional(name, parse)

    def optional(self, name: str, parse: Callable[[str], Value]) -> Value | None:
        text = self._environment.get(name)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{name}={text}: {error}")
            return None


def _contradictions(
    queues: Mapping[str, QueueAddress], others: Mapping[QueueAddress, str], dlq_url: str
) -> Iterator[str]:
    if len(set(queues.values())) < len(queues):
        yield f"{', '.join(queues)}: must be different queues, or messages would circle"
    if len({queue.is_fifo for queue in queues.values()}) > 1:
        yield f"{', '.join(queues)}: must all be standard or all be FIFO (.fifo)"
    name_of = {queue: name for name, queue in queues.items()}
    dlq = queues.get("DLQ_URL")
    region = match[1] if (match := _REGION_IN_URL.match(dlq_url)) else None
    for queue, arn in others.items():
        other = f"{OTHER_MAIN_QUEUES}, {arn}"
        if queue in name_of:
            yield f"{other}: is {name_of[queue]}"
        if dlq and queue.account_id != dlq.account_id:
            yield f"{other}: must be in the account of the DLQ, {dlq.account_id}"
        if region and arn.split(":")[3] != region:
            yield f"{other}: must be in the Region of the DLQ, {region}"
        if dlq and queue.is_fifo != dlq.is_fifo:
            yield f"{other}: must be {'FIFO (.fifo)' if dlq.is_fifo else 'standard'}"


def _queues(text: str) -> dict[QueueAddress, str]:
    """The ARN of each queue. What is named twice counts once."""
    arns = [part.strip() for part in text.split(",")]
    found = {QueueAddress.from_arn(arn): arn for arn in arns}
    if not all(is_queue_name(queue.name) for queue in found):
        raise ValueError("must be queue ARNs, arn:<partition>:sqs:<region>:<account id>:<name>")
    return found


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):  # noqa: PLR2004
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def _fraction(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        rule = f"must be a number of seconds from {low:g} to {high:g}"
        try:
            number = float(text)
        except ValueError:
            raise ValueError(rule) from None
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError(rule)
        return number

    return parse


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(part.strip() for part in text.split(","))
    if not all(_ERROR_PATTERN.fullmatch(pattern) for pattern in patterns):
        raise ValueError(
            "must be error names separated by commas; * and ? stand for any characters"
        )
    return patterns


def _table(text: str) -> str:
    if not _TABLE.fullmatch(text):
        raise ValueError("must be the name or the ARN of a DynamoDB table")
    return text


def _on_or_off(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError("must be on or off")
    return text == "on"


def _log_level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise ValueError(f"must be one of {', '.join(LOG_LEVELS)}")
    return text.upper()
