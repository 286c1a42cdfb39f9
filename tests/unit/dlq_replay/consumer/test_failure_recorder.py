"""The recorder beside a consumer: what it writes, and that it never gets in the consumer's way."""

import io
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dlq_replay.consumer.failure_recorder import FailureRecorder
from dlq_replay.errors import VisibilityLostError
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW, lambda_record, message, received
from tests.support.failure_table import CardRefusedError, FakeFailureTable

SECRET = "card 4111"
REFUSED = CardRefusedError("refused")


@pytest.fixture
def log() -> Any:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("dlq_replay.consumer.failure_recorder")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_a_failure_is_recorded_with_the_time_and_the_ttl(table: FakeFailureTable) -> None:
    table.recorder.record("m-1", CardRefusedError("refused"))

    ((failure,),) = table.calls
    assert failure.to_item() == Failure.of("m-1", CardRefusedError("refused"), NOW).to_item()


def test_a_code_is_recorded_by_hand_or_as_the_exception_names_it(table: FakeFailureTable) -> None:
    error = CardRefusedError("refused")
    table.recorder.record("m-1", error, error_code="by-hand")
    error.error_code = "own"  # type: ignore[attr-defined]
    table.recorder.record("m-2", error)

    assert [failure.error_code for (failure,) in table.calls] == ["by-hand", "own"]


@pytest.mark.parametrize(
    "shape",
    [
        lambda_record,
        received,
        lambda source: source,
        lambda source: SQSRecord(lambda_record(source)),
        lambda _: {"messageId": "m-1"},
        lambda _: {"MessageId": "m-1"},
        lambda _: type("Model", (), {"messageId": "m-1"})(),
    ],
)
def test_a_record_is_known_in_every_form(
    table: FakeFailureTable, shape: Callable[[Any], object]
) -> None:
    table.recorder.record(shape(message("m-1")), REFUSED)

    assert table.ids == [["m-1"]]


@pytest.mark.parametrize(
    "record", [None, "", 7, {}, {"messageId": ""}, {"messageId": 7}, SQSRecord({}), object()]
)
def test_a_record_without_an_id_is_a_line_in_the_log(
    table: FakeFailureTable, log: io.StringIO, record: object
) -> None:
    table.recorder.record(record, REFUSED)

    assert table.calls == []
    assert log.getvalue() == "a failure was not recorded: its record has no message id\n"


def test_a_lost_message_is_its_new_owner_s(table: FakeFailureTable) -> None:
    table.recorder.record("m-1", VisibilityLostError("m-1"))

    assert table.calls == []


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (FakeFailureTable(fault="2 of 2: denied"), "2 of 2: denied"),
        (FakeFailureTable(error=RuntimeError(SECRET)), "RuntimeError"),
    ],
)
def test_a_table_that_fails_is_a_line_in_the_log_and_no_more(
    table: FakeFailureTable, line: str, log: io.StringIO
) -> None:
    with table.recorder.batch():
        table.recorder.record("m-1", REFUSED)
        table.recorder.record("m-2", REFUSED)

    assert log.getvalue() == f"failures were not recorded: {line}\n"


@pytest.mark.parametrize(
    "make",
    [
        FailureRecorder,
        lambda _, **options: FailureRecorder.from_environment({"FAILURE_TABLE": "x"}, **options),
    ],
)
@pytest.mark.parametrize(
    ("options", "error_message", "recorded"),
    [
        (
            {},
            "mail to bob@example.com of DE89 3704 0044 0532 0130 00 failed",
            "mail to *** of *** failed",
        ),
        ({"redact": None}, "card of Bob is lost", "card of Bob is lost"),
        ({"redact": lambda text: text.replace(SECRET, "***")}, f"{SECRET} refused", "*** refused"),
        # A megabyte is masked at once.
        ({}, "eyJ-" * 250_000, "***"),
    ],
)
def test_an_error_is_masked_and_no_body_is_recorded(
    table: FakeFailureTable, make: Any, options: dict[str, Any], error_message: str, recorded: str
) -> None:
    recorder = make(table.record, **options)
    recorder.write = table.record
    recorder.record(message("m-1", body=SECRET), CardRefusedError(error_message))

    ((failure,),) = table.calls
    # The second goes on to the attribute of the parked copy, which SQS does not encrypt.
    assert failure.error_message == failure.to_failure_error().message == recorded
    assert SECRET not in str(failure.to_item())


@pytest.mark.parametrize("environment", [{}, {"FAILURE_TABLE": ""}, {"FAILURE_TABLE": " "}])
def test_without_a_table_nothing_is_recorded_and_nothing_changes(
    environment: dict[str, str], log: io.StringIO
) -> None:
    recorder = FailureRecorder.from_environment(environment)
    with recorder.batch():
        recorder.record("m-1", REFUSED)
        recorder.record({}, REFUSED)

    assert log.getvalue() == ""


def test_a_client_that_cannot_be_made_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    recorder = FailureRecorder.from_environment({"FAILURE_TABLE": "failures"})

    recorder.record("m-1", REFUSED)

    assert log.getvalue() == "failures were not recorded: NoRegionError\n"


# Failures of one invocation are written together, whatever runs the record handlers.


def test_a_batch_is_written_once_even_when_it_fails_itself(table: FakeFailureTable) -> None:
    @table.recorder.batch()
    def lambda_handler() -> None:
        table.recorder.record("m-1", REFUSED)
        with table.recorder.batch():
            table.recorder.record("m-2", REFUSED)
            table.recorder.record("m-1", CardRefusedError("no customer"))
        assert table.calls == []
        raise KeyError

    with table.recorder.batch():
        pass
    with pytest.raises(KeyError):
        lambda_handler()

    [written] = table.calls
    texts = [(failure.message_id, failure.error_message) for failure in written]
    assert texts == [("m-1", "no customer"), ("m-2", "refused")]


def test_batches_of_two_threads_do_not_mix(table: FakeFailureTable) -> None:
    inside = threading.Barrier(2, timeout=30)

    def work(message_id: str) -> None:
        with table.recorder.batch():
            inside.wait()
            table.recorder.record(message_id, CardRefusedError())
            inside.wait()

    threads = [threading.Thread(target=work, args=(message_id,)) for message_id in ("m-1", "m-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(table.ids) == [["m-1"], ["m-2"]]


def test_two_recorders_in_one_another_keep_their_own() -> None:
    inner = FakeFailureTable()
    outer = FakeFailureTable()
    with outer.recorder.batch(), inner.recorder.batch():
        outer.recorder.record("m-1", CardRefusedError())
        inner.recorder.record("m-2", CardRefusedError())

    assert (outer.ids, inner.ids) == ([["m-1"]], [["m-2"]])
