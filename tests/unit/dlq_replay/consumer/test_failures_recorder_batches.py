"""Failures of one invocation are written together, whatever runs the record handlers."""

import threading

import pytest

from dlq_replay.consumer.failures import FailureRecorder
from tests.support.builders import message
from tests.support.failure_table import CardRefusedError, FakeFailureTable, fail

SECRET = "card 4111"


def test_a_block_without_a_failure_writes_nothing(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    with recorder.batch(), recorder.recording({"messageId": "m-1"}):
        pass

    assert table.calls == []


def test_a_batch_is_written_once_even_when_it_fails_itself(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    @recorder.batch()
    def lambda_handler() -> None:
        fail(recorder, message("m-1"))
        with recorder.batch():
            fail(recorder, message("m-2"))
            fail(recorder, message("m-1"))
        assert table.calls == []
        raise KeyError

    with pytest.raises(KeyError):
        lambda_handler()

    assert table.ids == [["m-1", "m-2"]]


def test_nested_uses_write_a_message_once_with_what_the_outermost_saw(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    def record_handler(record: object) -> None:
        with recorder.recording(record), recorder.recording(record):
            customer_of(record)

    def outer_handler(record: object) -> None:
        with recorder.recording(record):
            try:
                record_handler(record)
            except KeyError as error:
                raise CardRefusedError("no customer") from error

    def customer_of(record: object) -> None:
        raise KeyError("customer")

    with pytest.raises(CardRefusedError):
        outer_handler(message("m-1"))

    ((failure,),) = table.calls
    assert failure.error_message == "no customer"


def test_batches_of_two_threads_do_not_mix(
    recorder: FailureRecorder, table: FakeFailureTable
) -> None:
    inside = threading.Barrier(2, timeout=30)

    def work(message_id: str) -> None:
        with recorder.batch():
            inside.wait()
            recorder.record(message_id, CardRefusedError())
            inside.wait()

    threads = [threading.Thread(target=work, args=(one,)) for one in ("m-1", "m-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(table.ids) == [["m-1"], ["m-2"]]


def test_two_recorders_in_one_another_keep_their_own() -> None:
    inner, outer = FakeFailureTable(), FakeFailureTable()
    outer_recorder, inner_recorder = FailureRecorder(outer.record), FailureRecorder(inner.record)
    with outer_recorder.batch(), inner_recorder.batch():
        outer_recorder.record("m-1", CardRefusedError())
        inner_recorder.record("m-2", CardRefusedError())

    assert (outer.ids, inner.ids) == ([["m-1"]], [["m-2"]])
