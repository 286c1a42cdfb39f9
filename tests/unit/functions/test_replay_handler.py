"""The handler's logs, metrics and answers, with fake queues behind it."""

import io
import json
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import BreakerRules
from dlq_replay.breaker_worker import BreakerWorker
from dlq_replay.errors import MalformedEventError, SettingsError
from dlq_replay.message import Message
from dlq_replay.replay import Replayer
from dlq_replay.returns import ReturnsCounter
from dlq_replay.sending import InDoubt, Refused
from functions.replay import handler
from tests.breaker_tables import FakeBreaker, denied
from tests.builders import (
    ACCOUNT,
    NOW,
    FakeQueue,
    context,
    counter,
    environment,
    lambda_record,
    message,
    policy,
    queue_arn,
    queue_url,
    text,
)
from tests.returns_counters import FakeCounters

SECRET = "card 4111-1111-1111-1111"


class Context:
    def __init__(self, milliseconds: int = 30_000) -> None:
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(handler.logger.registered_handler, "stream", stream)
    return stream


@pytest.fixture
def main() -> FakeQueue:
    return FakeQueue(queue_url("main"))


@pytest.fixture(autouse=True)
def wired(main: FakeQueue, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadPoolExecutor(2) as executor:
        replayer = Replayer(
            policy(),
            main,
            FakeQueue(queue_url("dlq")),
            FakeQueue(queue_url("parked")),
            lambda: NOW,
            lambda top: top,
            executor,
        )
        monkeypatch.setattr(handler, "wired_replayer", lambda: replayer)
        yield


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def event(*letters: Any) -> dict[str, Any]:
    return {"Records": [lambda_record(letter) for letter in letters]}


@pytest.mark.parametrize("as_pipe", [False, True])
def test_answer_and_log_say_what_must_stay_and_why(
    main: FakeQueue, log: io.StringIO, *, as_pipe: bool
) -> None:
    main.refuses = {"B": InDoubt("ReadTimeoutError: no answer")}
    batch = event(message("a"), message("b", body="B"))
    answer = handler.lambda_handler(batch["Records"] if as_pipe else batch, Context())

    assert answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    (failure,) = [line for line in lines(log) if line["message"] == "left in the DLQ"]
    assert failure["cause"] == "in_doubt"
    assert failure["detail"] == "ReadTimeoutError: no answer"
    assert failure["ids"] == ["b"]


@pytest.mark.parametrize("empty", [{"Records": []}, []])
def test_empty_batch_is_a_success(empty: object, log: io.StringIO) -> None:
    assert handler.lambda_handler(empty, Context()) == {"batchItemFailures": []}


def test_log_says_what_was_parked_and_what_was_ignored(log: io.StringIO) -> None:
    broken = {**counter("junk"), "sqs-dlq-context": text("{")}
    handler.lambda_handler(event(message("a", attributes=broken)), Context())

    by_text = {line["message"]: line for line in lines(log)}
    assert by_text["parked"]["reason"] == "invalid_counter"
    assert by_text["context ignored"]["fault"] == "sqs-dlq-context: not JSON"
    assert by_text["batch done"]["park"] == 1


def test_metrics_count_every_fate(
    main: FakeQueue, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    main.refuses = {"C": Refused("TooBig")}
    letters = [message("a"), message("b", attributes=counter("3")), message("c", body="C")]
    handler.lambda_handler(event(*letters), Context())

    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    counted = {name: emf[name] for name in emf if name[0].isupper() and name != "MainQueue"}
    assert counted == {
        "Replayed": [1.0],
        "Parked": [1.0],
        "Held": [0.0],
        "Failed": [1.0],
        "Arrived": [0.0],
        "Parked_attempts_exhausted": [1.0],
        "ReplayCount": [0.0, 3.0],
        "DelaySeconds": [4.0],
        "ArrivedTotal": [0.0],
        "FailedTotal": [1.0],
    }


def _moved(letter: Message, source: str) -> Message:
    system = {"DeadLetterQueueSourceArn": queue_arn(source), "SentTimestamp": f"{NOW - 60}000"}
    return replace(letter, system=system)


def test_each_main_queue_has_metrics_of_its_own(
    main: FakeQueue,
    log: io.StringIO,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invoices = FakeQueue(queue_url("invoices"), {"B": Refused("TooBig")})
    replayer = replace(
        handler.wired_replayer(),
        policy=policy(others={"invoices": {}, "refunds": {}}),
        other_main_queues={QueueAddress(ACCOUNT, "invoices"): invoices},
    )
    monkeypatch.setattr(handler, "wired_replayer", lambda: replayer)
    letters = [
        _moved(message("a"), "invoices"),
        _moved(message("b", body="B"), "invoices"),
        _moved(message("c"), "main"),
        _moved(message("d", attributes=counter("3")), "invoices"),
        _moved(message("e"), "payments"),
    ]
    answer = handler.lambda_handler(event(*letters), Context())

    assert answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert (len(main.sent), len(invoices.sent)) == (1, 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    counts = ("Replayed", "Parked", "Failed", "Parked_foreign_source", "ReplayCount")
    assert {one["MainQueue"]: [one.get(name) for name in counts] for one in lines} == {
        "invoices": [[1.0], [1.0], [1.0], None, [0.0, 3.0]],
        "main": [[1.0], [1.0], [0.0], [1.0], [0.0, 0.0]],
    }
    assert [one["MainQueue"] for one in lines if "NearestExpirySeconds" in one] == ["main"]


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
    main.refuses = {SECRET: InDoubt("lost")}
    good, bad = message("a", body=SECRET + "!"), message("b", body=SECRET)
    unreadable = {**lambda_record(message("c", body=SECRET)), "messageAttributes": [SECRET]}
    handler.lambda_handler({"Records": [*event(good, bad)["Records"], unreadable]}, Context())

    captured = capsys.readouterr()
    assert "batch done" in log.getvalue()
    for output in (log.getvalue(), captured.out, captured.err, caplog.text):
        assert "4111" not in output


def test_time_that_is_nearly_up_leaves_everything(main: FakeQueue, log: io.StringIO) -> None:
    answer = handler.lambda_handler(event(message("a")), Context(milliseconds=1500))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert main.calls == []


def test_event_that_is_not_from_sqs_fails_the_invocation(log: io.StringIO) -> None:
    with pytest.raises(MalformedEventError):
        handler.lambda_handler({"detail-type": "Scheduled Event"}, Context())

    assert "not an SQS event" in lines(log)[0]["reason"]


def test_faulty_environment_fails_the_invocation_with_every_fault(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for name, value in environment(MAX_ATTEMPTS="x", LOG_LEVEL="LOUD").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        handler.lambda_handler(event(), Context())

    assert len(caught.value.faults) == 2


LIMITED = {"limit": 1, "since": NOW - 3600, f"x{NOW // 60}": 1, "judged": NOW // 60}


def with_breaker(
    monkeypatch: pytest.MonkeyPatch, table: FakeBreaker, deleted: Mapping[int, int] | None = None
) -> None:
    """Give the wired replayer a circuit breaker, on *table*."""
    replayer = handler.wired_replayer()
    breaker = BreakerWorker(table, BreakerRules(), lambda _, __: deleted or {})
    wired = replace(replayer, breakers={replayer.policy.main_queue: breaker})
    monkeypatch.setattr(handler, "wired_replayer", lambda: wired)


def test_a_limit_is_counted(
    log: io.StringIO, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_breaker(monkeypatch, FakeBreaker(numbers=LIMITED | {"silent_since": NOW - 4000}))
    handler.lambda_handler(event(*(message(one) for one in "abc")), Context())

    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], emf["HeldByBreaker"]) == ([1.0], [2.0])
    assert (lines(log)[-1]["hold"], lines(log)[-1]["replay"]) == (2, 1)


def test_a_change_of_the_limit_is_logged_in_one_line(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = LIMITED | {"judged": NOW // 60 - 1, "full": 30}
    deleted = dict.fromkeys(range(NOW // 60 - 20, NOW // 60), 9)
    with_breaker(monkeypatch, FakeBreaker(numbers=numbers), deleted)
    moved = message("a", DeadLetterQueueSourceArn=queue_arn("main"))
    handler.lambda_handler(event(moved), Context())

    assert [line["message"] for line in lines(log)] == [
        "circuit breaker: limited to 30 replays a minute since 22:13 UTC; the consumer works again",
        "batch done",
    ]


def test_a_breaker_without_its_table_is_logged_once(
    log: io.StringIO, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_breaker(monkeypatch, FakeBreaker(faults=denied))
    handler.lambda_handler(event(message("a")), Context())
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["BreakerFaults"] == [1.0]
    handler.lambda_handler(event(message("b")), Context())

    assert [line["message"] for line in lines(log)] == [
        "circuit breaker: no limit is known",
        "batch done",
        "batch done",
    ]
    assert lines(log)[0]["reason"] == "AccessDeniedException: not authorized"
    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], "BreakerFaults" in emf) == ([0.0], False)


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
    moved = [message(one, DeadLetterQueueSourceArn=queue_arn("main")) for one in "ab"]
    answer = handler.lambda_handler(event(*moved), Context())

    assert answer == {"batchItemFailures": []}
    assert len(main.sent) == 2
    assert "RuntimeError: an answer of another shape" in [line.get("reason") for line in lines(log)]


def test_returns_that_cannot_be_counted_are_in_the_log_and_in_the_metrics(
    monkeypatch: pytest.MonkeyPatch, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    replayer = replace(
        handler.wired_replayer(),
        returns=ReturnsCounter(FakeCounters({}, partial(denied, "add")).add),
    )
    monkeypatch.setattr(handler, "wired_replayer", lambda: replayer)
    redriven = context(plan_id="p", group_id="g")
    back = message("a", attributes=redriven, DeadLetterQueueSourceArn=queue_arn("main"))
    handler.lambda_handler(event(back), Context())

    [line] = [one for one in lines(log) if "returns of a redrive" in one["message"]]
    assert line["reason"] == "AccessDeniedException: not authorized"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ReturnsNotCounted"] == [1.0]


EVENTS = Path(__file__).parents[3] / "events"


@pytest.mark.parametrize(
    ("name", "fates"),
    [
        ("standard", {"replay": 3}),
        ("exhausted", {"park": 1}),
        ("binary-attribute", {"replay": 1}),
        ("foreign-source", {"park": 1}),
        ("malformed", {"replay": 4, "park": 1, "failed": 1}),
        ("pipe", {"replay": 2}),
    ],
)
def test_example_event_is_handled(name: str, fates: dict[str, int], log: io.StringIO) -> None:
    handler.lambda_handler(json.loads((EVENTS / f"{name}.json").read_text()), Context())

    done = lines(log)[-1]
    assert fates == {fate: done[fate] for fate in ("replay", "park", "failed") if fate in done}


@pytest.mark.parametrize("name", ["boto3", "botocore", "urllib3"])
def test_boto_does_not_log_requests(name: str) -> None:
    assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


def test_event_of_ten_thousand_records_is_answered_in_full(
    main: FakeQueue, log: io.StringIO
) -> None:
    """The log groups what fails alike."""
    main.refuses = {"B": Refused("TooBig")}
    letters = [message(f"m-{n}", body="A" if n < 9_850 else "B") for n in range(10_000)]
    answer = handler.lambda_handler(event(*letters), Context())

    assert len(main.sent) == 9_850
    failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
    assert failed == {f"m-{n}" for n in range(9_850, 10_000)}
    failures = [line for line in lines(log) if line["message"] == "left in the DLQ"]
    assert [line["count"] for line in failures] == [100, 50]


def test_identifier_is_never_empty_nor_unknown(main: FakeQueue, log: io.StringIO) -> None:
    """Either would make the platform take the whole batch for failed."""
    main.refuses = {"B": Refused("TooBig")}
    letters = [message("a", body="B"), message("a", body="B"), message("c", body="B")]
    answer = handler.lambda_handler(event(*letters), Context())

    assert answer["batchItemFailures"] == [{"itemIdentifier": "a"}, {"itemIdentifier": "c"}]
