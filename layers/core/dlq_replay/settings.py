"""The Lambda's environment, read once; every fault of it is reported together. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from dlq_replay.backoff import Backoff
from dlq_replay.errors import SettingsError
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress, is_queue_name

MAX_ATTEMPTS_RANGE = (0, 1000)
BACKOFF_RATE_RANGE = (0.001, 43_200)
BACKOFF_CAP_RANGE = (0, 1_209_600)
MAX_AGE_RANGE = (1, 31_536_000)

QUEUE_TAG = "QUEUE_TAG"
OTHER_MAIN_QUEUES = "OTHER_MAIN_QUEUE_ARNS"


_REGION_IN_URL = re.compile(r"https://sqs\.([a-z0-9-]+)\.")


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings of the Lambda, from its environment."""

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
        values, faults = _parsed(environment, (*_QUEUES, *_RULES))
        queues = {name: values[name] for name in _QUEUES if name in values}
        others: dict[QueueAddress, str] = values.get(OTHER_MAIN_QUEUES, {})
        faults += _contradictions(queues, others, environment.get("DLQ_URL", ""))
        faults += _without_table(values)
        if faults:
            raise SettingsError(faults)

        policy = _policy(values["MAIN_QUEUE_URL"], values)
        return cls(
            main_queue_url=environment["MAIN_QUEUE_URL"],
            dlq_url=environment["DLQ_URL"],
            parked_queue_url=environment["PARKED_QUEUE_URL"],
            policy=replace(policy, other_main_queues=dict.fromkeys(others, QueueLimits())),
            failure_table=values.get("FAILURE_TABLE"),
            has_breaker=_has_breaker(values),
            log_level=values.get("LOG_LEVEL", "INFO"),
        )

    @property
    def other_main_queue_urls(self) -> Mapping[QueueAddress, str]:
        """The URLs of the other main queues, which are in the Region of the main queue."""
        url = self.main_queue_url
        return {queue: queue.url_beside(url) for queue in self.policy.other_main_queues}


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """The settings of the Lambda where queues join by a tag.

    Attributes:
        queue_tag: the value of the tag ``dlq-replay`` of the member queues.
        parked_queue_url: where messages of standard queues are parked.
        fifo_parked_queue_url: the same for FIFO queues; None where there is none.
        policy: the rules, without a main queue; ``rules.membership`` gives it those of a batch.
    """

    queue_tag: str
    parked_queue_url: str
    fifo_parked_queue_url: str | None
    policy: ReplayPolicy
    failure_table: str | None = None
    has_breaker: bool = False
    log_level: str = "INFO"

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Self:
        """Read and check the variables, as ``ReplaySettings.from_env`` does, and raise the same."""
        values, faults = _parsed(environment, (QUEUE_TAG, "PARKED_QUEUE_URL", *_RULES))
        for name in ("MAIN_QUEUE_URL", "DLQ_URL", OTHER_MAIN_QUEUES):
            if name in values:
                faults.append(f"{name}: must not be set with {QUEUE_TAG}: tag the queue instead")

        parked = values.get("PARKED_QUEUE_URL")
        if parked and parked.is_fifo:
            faults.append("PARKED_QUEUE_URL: must be standard; FIFO_PARKED_QUEUE_URL is for FIFO")
        fifo_parked = values.get("FIFO_PARKED_QUEUE_URL")
        if fifo_parked and not fifo_parked.is_fifo:
            faults.append("FIFO_PARKED_QUEUE_URL: must be FIFO (.fifo)")

        faults += _without_table(values)
        if faults:
            raise SettingsError(faults)

        return cls(
            queue_tag=environment[QUEUE_TAG],
            parked_queue_url=environment["PARKED_QUEUE_URL"],
            fifo_parked_queue_url=environment.get("FIFO_PARKED_QUEUE_URL") or None,
            policy=_policy(QueueAddress("", ""), values),
            failure_table=values.get("FAILURE_TABLE"),
            has_breaker=_has_breaker(values),
            log_level=values.get("LOG_LEVEL", "INFO"),
        )

    @property
    def parked_queues(self) -> frozenset[QueueAddress]:
        """The queues where messages are parked."""
        urls = filter(None, (self.parked_queue_url, self.fifo_parked_queue_url))
        return frozenset(map(QueueAddress.from_url, urls))

    def parked_queue_url_for(self, dlq: QueueAddress) -> str | None:
        """Return the URL of the parked queue of a DLQ's type; None where there is none."""
        return self.fifo_parked_queue_url if dlq.is_fifo else self.parked_queue_url


def _parsed(
    environment: Mapping[str, str], required: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the variables that are set, and the faults of all."""
    values: dict[str, Any] = {}
    faults: list[str] = []
    for name, parse in _VARIABLES.items():
        text = environment.get(name)
        if not text:
            if name in required:
                faults.append(f"{name} is not set: it is required")
            continue

        try:
            values[name] = parse(text)
        except ValueError as error:
            faults.append(f"{name}={text}: {error}")
    return values, faults


def _policy(main_queue: QueueAddress, values: Mapping[str, Any]) -> ReplayPolicy:
    return ReplayPolicy(
        main_queue=main_queue,
        max_attempts=values["MAX_ATTEMPTS"],
        backoff=Backoff(values["BACKOFF_RATE"], values["BACKOFF_CAP_SECONDS"]),
        max_age_seconds=values.get("MAX_AGE_SECONDS"),
        non_retryable_errors=values.get("NON_RETRYABLE_ERRORS", ()),
    )


def _has_breaker(values: Mapping[str, Any]) -> bool:
    return "FAILURE_TABLE" in values and values.get("BREAKER") != "OFF"


def _without_table(values: Mapping[str, Any]) -> Iterator[str]:
    if "FAILURE_TABLE" in values:
        return
    if "NON_RETRYABLE_ERRORS" in values:
        yield "NON_RETRYABLE_ERRORS is set and FAILURE_TABLE is not: it needs both"
    if values.get("BREAKER") == "ON":
        yield "BREAKER is on and FAILURE_TABLE is not set: it needs both"


def _contradictions(
    queues: Mapping[str, QueueAddress], others: Mapping[QueueAddress, str], dlq_url: str
) -> Iterator[str]:
    if len(set(queues.values())) < len(queues):
        yield f"{', '.join(queues)}: must be different queues, or messages would circle"
    if len({queue.is_fifo for queue in queues.values()}) > 1:
        yield f"{', '.join(queues)}: must all be standard or all be FIFO (.fifo)"

    name_of = {queue: name for name, queue in queues.items()}
    dlq = queues.get("DLQ_URL")
    match = _REGION_IN_URL.match(dlq_url)
    region = match[1] if match else None
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
    """Return the ARN of each queue. A queue that is named twice counts once."""
    arns: dict[QueueAddress, str] = {}
    for arn in map(str.strip, text.split(",")):
        arns[QueueAddress.from_arn(arn)] = arn
    if not all(is_queue_name(queue.name) for queue in arns):
        raise ValueError("must be queue ARNs, arn:<partition>:sqs:<region>:<account id>:<name>")
    return arns


def _number(read: type[int | float], low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            if low <= (number := read(text)) <= high:
                return number
        kind = "a whole number" if read is int else "a number of seconds"
        raise ValueError(f"must be {kind} from {low} to {high}")

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.upper() not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text.upper()

    return parse


_VARIABLES: Mapping[str, Callable[[str], object]] = {
    "MAIN_QUEUE_URL": QueueAddress.from_url,
    "DLQ_URL": QueueAddress.from_url,
    "PARKED_QUEUE_URL": QueueAddress.from_url,
    "FIFO_PARKED_QUEUE_URL": QueueAddress.from_url,
    QUEUE_TAG: str,
    OTHER_MAIN_QUEUES: _queues,
    "MAX_ATTEMPTS": _number(int, *MAX_ATTEMPTS_RANGE),
    "BACKOFF_RATE": _number(float, *BACKOFF_RATE_RANGE),
    "BACKOFF_CAP_SECONDS": _number(int, *BACKOFF_CAP_RANGE),
    "MAX_AGE_SECONDS": _number(int, *MAX_AGE_RANGE),
    "NON_RETRYABLE_ERRORS": lambda text: tuple(filter(None, map(str.strip, text.split(",")))),
    "FAILURE_TABLE": str,
    "BREAKER": _one_of("ON", "OFF"),
    "LOG_LEVEL": _one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
}
_QUEUES = ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL")
_RULES = ("MAX_ATTEMPTS", "BACKOFF_RATE", "BACKOFF_CAP_SECONDS")
