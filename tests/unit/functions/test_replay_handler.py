"""The handler's logs, metrics and answers, with fake queues behind it."""

import io
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.errors import MalformedEventError, SettingsError
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.replaying.sending import Refused, Unconfirmed
from dlq_replay.rules.breaker import BreakerRules
from dlq_replay.wire.message import Message
from functions.replay import handler
from tests.support.breaker_tables import FakeBreaker, denied
from tests.support.builders import (
    NOW,
    FakeQueue,
    context,
    counter,
    environment,
    lambda_record,
    message,
    policy,
    queue_address,
    queue_arn,
    queue_url,
    replayer,
    text,
)
from tests.support.golden import assert_stored, stored_rows
from tests.support.replay_stack import Invocation
from tests.support.returns_counters import FakeCounters

Change = Callable[[pytest.MonkeyPatch], None]

SECRET = "card 4111-1111-1111-1111"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(handler.logger.registered_handler, "stream", stream)
    return stream


@pytest.fixture
def main() -> FakeQueue:
    return FakeQueue(queue_url("main"))


@pytest.fixture(autouse=True)
def wired(main: FakeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = main, FakeQueue(queue_url("dlq")), FakeQueue(queue_url("parked"))
    made = replayer(policy(), *queues)
    monkeypatch.setattr(handler, "wired_replayer", lambda: made)


def rewire(monkeypatch: pytest.MonkeyPatch, **parts: Any) -> None:
    """Give the handler a replayer with other *parts*."""
    made = replace(handler.wired_replayer(), **parts)
    monkeypatch.setattr(handler, "wired_replayer", lambda: made)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def event(*letters: Any) -> dict[str, Any]:
    return {"Records": [lambda_record(letter) for letter in letters]}


LIMITED = {"limit": 1, "since": NOW - 3600, f"x{NOW // 60}": 1, "judged": NOW // 60}


def with_breaker(
    monkeypatch: pytest.MonkeyPatch, table: FakeBreaker, deleted: Mapping[int, int] | None = None
) -> None:
    """Give the wired replayer a circuit breaker, on *table*."""
    breaker = BreakerWorker(table, BreakerRules(), lambda _, __: deleted or {})
    rewire(monkeypatch, breakers={policy().main_queue: breaker})


def with_invoices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the wired replayer a second main queue, which refuses the body B, and a third."""
    invoices = FakeQueue(queue_url("invoices"), {"B": Refused("TooBig")})
    rewire(
        monkeypatch,
        policy=policy(others={"invoices": {}, "refunds": {}}),
        main_queues={
            **handler.wired_replayer().main_queues,
            queue_address("invoices"): invoices,
        },
    )


def without_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    rewire(monkeypatch, returns=ReturnsCounter(FakeCounters({}, partial(denied, "add")).add))


def moved(name: str, source: str = "main", body: str = "A", **context_of: Any) -> Message:
    attributes = context(**context_of) if context_of else None
    arn = queue_arn(source)
    sent = f"{NOW - 60}000"
    return message(name, body, attributes, DeadLetterQueueSourceArn=arn, SentTimestamp=sent)


EVENTS = Path(__file__).parents[3] / "events"
BROKEN = {**counter("junk"), "sqs-dlq-context": text("{")}
SILENT = LIMITED | {"silent_since": NOW - 4000}
RAISED = LIMITED | {"judged": NOW // 60 - 1, "full": 30}
DELETED = dict.fromkeys(range(NOW // 60 - 20, NOW // 60), 9)


def as_wired(_: pytest.MonkeyPatch) -> None:
    """Change nothing."""


def example_events() -> dict[str, tuple[Change, Any]]:
    """The events of the folder that the replay function answers."""
    examples: dict[str, tuple[Change, Any]] = {}
    for path in sorted(EVENTS.glob("*.json")):
        if not path.name.startswith(("env", "sweep")):
            examples[path.name] = (as_wired, json.loads(path.read_text("utf-8")))
    return examples


HANDLED: dict[str, tuple[Change, Any]] = {
    "nothing": (as_wired, {"Records": []}),
    "nothing from a pipe": (as_wired, []),
    "a lost answer": (as_wired, event(message("a", "A"), message("b", "LOST"))),
    "a lost answer, from a pipe": (as_wired, event(message("b", "LOST"))["Records"]),
    "a counter and a context that are none": (as_wired, event(message("a", attributes=BROKEN))),
    "each decision": (
        as_wired,
        event(message("a"), message("b", attributes=counter("3")), message("c", "LOST")),
    ),
    "several main queues": (
        with_invoices,
        event(
            moved("a", "invoices"),
            moved("b", "invoices", "B"),
            moved("c"),
            replace(moved("d", "invoices"), attributes=counter("3")),
            moved("e", "payments"),
        ),
    ),
    "a limit": (
        lambda patch: with_breaker(patch, FakeBreaker(numbers=SILENT)),
        event(*(message(name) for name in "abc")),
    ),
    "a change of the limit": (
        lambda patch: with_breaker(patch, FakeBreaker(numbers=RAISED), DELETED),
        event(message("a", DeadLetterQueueSourceArn=queue_arn("main"))),
    ),
    "a breaker without its table": (
        lambda patch: with_breaker(patch, FakeBreaker(faults=denied)),
        event(message("a")),
    ),
    "returns that cannot be counted": (
        without_counters,
        event(moved("a", plan_id="p", group_id="g")),
    ),
    **example_events(),
}
UNSTEADY = ("level", "location", "timestamp", "service", "_aws", "cold_start", "xray_trace_id")


@stored_rows("handled", HANDLED)
def test_answer_log_and_metrics_are_those_that_are_stored(
    name: str,
    main: FakeQueue,
    log: io.StringIO,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change, given = HANDLED[name]
    change(monkeypatch)
    main.refuses = {"LOST": Unconfirmed("ReadTimeoutError: no answer")}
    answer = handler.lambda_handler(given, Invocation())
    if name == "a breaker without its table":
        # It is logged once.
        handler.lambda_handler(given, Invocation())

    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    shown = [f"answer {json.dumps(answer)}"]
    for line in (*lines(log), *metrics):
        steady = [f"{key}={value}" for key, value in line.items() if key not in UNSTEADY]
        shown.append(" ".join(steady))
    assert_stored("handled", name, "\n".join(shown))


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_no_body_is_logged_at_any_level(
    level: str,
    main: FakeQueue,
    log: io.StringIO,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    caplog.set_level(logging.DEBUG)
    handler.logger.setLevel(level)
    main.refuses = {SECRET: Unconfirmed("lost")}
    good = message("a", body=SECRET + "!")
    bad = message("b", body=SECRET)
    unreadable = {**lambda_record(message("c", body=SECRET)), "messageAttributes": [SECRET]}
    handler.lambda_handler({"Records": [*event(good, bad)["Records"], unreadable]}, Invocation())

    captured = capsys.readouterr()
    assert "batch done" in log.getvalue()
    for output in (log.getvalue(), captured.out, captured.err, caplog.text):
        assert "4111" not in output


def test_time_that_is_nearly_up_leaves_everything(main: FakeQueue, log: io.StringIO) -> None:
    answer = handler.lambda_handler(event(message("a")), Invocation(milliseconds=1500))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert main.calls == []


def test_event_that_is_not_from_sqs_fails_the_invocation(log: io.StringIO) -> None:
    with pytest.raises(MalformedEventError):
        handler.lambda_handler({"detail-type": "Scheduled Event"}, Invocation())

    assert "not an SQS event" in lines(log)[0]["reason"]


def test_faulty_environment_fails_the_invocation_with_every_fault(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for name, value in environment(MAX_ATTEMPTS="x", LOG_LEVEL="LOUD").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        handler.lambda_handler(event(), Invocation())

    assert len(caught.value.faults) == 2


@pytest.mark.parametrize("call", ["read", "update"])
@pytest.mark.parametrize("numbers", [{}, LIMITED], ids=["no limit", "limited"])
def test_no_exception_of_a_breaker_stops_a_message_or_sends_it_twice(
    call: str,
    numbers: dict[str, int],
    main: FakeQueue,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(at: str) -> None:
        if at == call:
            raise RuntimeError("an answer of another shape")

    with_breaker(monkeypatch, FakeBreaker(faults=fail, numbers=numbers))
    moved = [message(name, DeadLetterQueueSourceArn=queue_arn("main")) for name in "ab"]
    answer = handler.lambda_handler(event(*moved), Invocation())

    assert answer == {"batchItemFailures": []}
    assert len(main.sent) == 2
    assert "RuntimeError" in [line.get("reason") for line in lines(log)]


@pytest.mark.parametrize("name", ["boto3", "botocore", "urllib3"])
def test_boto_does_not_log_requests(name: str) -> None:
    assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


def test_event_of_ten_thousand_records_is_answered_in_full(
    main: FakeQueue, log: io.StringIO
) -> None:
    """The log groups what fails alike."""
    main.refuses = {"B": Refused("TooBig")}
    letters = [message(f"m-{n}", body="A" if n < 9_850 else "B") for n in range(10_000)]
    answer = handler.lambda_handler(event(*letters), Invocation())

    assert len(main.sent) == 9_850
    failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    assert failed == {f"m-{n}" for n in range(9_850, 10_000)}
    failures = [line for line in lines(log) if line["message"] == "left in the DLQ"]
    assert [line["count"] for line in failures] == [100, 50]
