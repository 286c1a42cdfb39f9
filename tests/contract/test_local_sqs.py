"""Both SQS servers that tests use, against what AWS says of SQS.

A behaviour is a function that takes an SQS and asserts. The world must show all of them. moto must
show all but those in ``MOTO_LACKS``, and must still lack those: an untrue line of the table fails.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from inspect import getmembers, isfunction
from types import ModuleType
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from local_sqs.driver import Driver
from local_sqs.server import serve_in_thread
from tests.contract.sqs_behaviour import dead_letters, fifo, sending, visibility
from tests.served import served

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Behaviour = Callable[[Driver], None]
Outcomes = Mapping[str, BaseException | None]

API = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_"
GUIDE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
RECORDED = "https://github.com/localstack/localstack/blob/main/tests/aws/services/sqs/"

# What AWS does and moto 5.2 does not, by the page or the recording that says so.
MOTO_LACKS = {
    "size_is_counted_in_utf8_bytes": GUIDE + "quotas-messages.html",
    "size_includes_message_attributes": GUIDE + "sqs-message-metadata.html",
    "size_limit_of_the_queue_fails_single_entries": RECORDED + "test_sqs.snapshot.json",
    "batch_size_is_counted_in_utf8_bytes": API + "SendMessageBatch.html",
    "batch_size_includes_message_attributes": API + "SendMessageBatch.html",
    "eleventh_attribute_is_refused": GUIDE + "sqs-message-metadata.html",
    "reserved_attribute_name_is_refused": GUIDE + "sqs-message-metadata.html",
    "empty_attribute_value_is_refused": RECORDED + "test_sqs.snapshot.json",
    "number_attribute_must_be_a_number": GUIDE + "sqs-message-metadata.html",
    "empty_body_is_refused": API + "SendMessage.html",
    "control_character_is_refused": API + "SendMessage.html",
    "change_out_of_range_is_refused": API + "ChangeMessageVisibility.html",
    "twelve_hours_start_at_the_receive": GUIDE + "sqs-visibility-timeout.html",
    "released_message_is_not_in_flight": API + "ChangeMessageVisibility.html",
    "message_timer_of_zero_keeps_the_delay_of_the_queue": API + "SendMessage.html",
    "duplicate_of_a_deleted_message_is_not_delivered": RECORDED + "test_sqs.snapshot.json",
    "deduplication_may_be_limited_to_the_group": API + "CreateQueue.html",
    "high_throughput_needs_the_scope_of_the_group": API + "CreateQueue.html",
    "sequence_numbers_rise_with_content_ids_too": API + "SendMessage.html",
    "expired_handle_does_not_delete": "https://github.com/localstack/localstack/pull/12442",
    "attempt_id_repeats_the_receive": API + "ReceiveMessage.html",
    "moved_message_names_its_source": API + "ReceiveMessage.html",
    "receive_count_has_its_range": API + "CreateQueue.html",
    "dead_letter_queue_may_deny_its_sources": API + "CreateQueue.html",
    "move_replaces_the_deduplication_id": GUIDE + "sqs-configure-dead-letter-queue-redrive.html",
    "move_task_sends_letters_back_as_new_messages": API + "StartMessageMoveTask.html",
    "move_task_needs_a_dead_letter_queue": RECORDED + "test_sqs_move_task.snapshot.json",
}

# moto's receive takes no lock: two consumers at once may get the same message, or may not.
MOTO_VARIES = {"consumers_share_what_there_is"}


def behaviours_of(module: ModuleType) -> dict[str, Behaviour]:
    functions = getmembers(module, isfunction)
    return {name: f for name, f in functions if f.__module__ == module.__name__}


MODULES = (sending, visibility, fifo, dead_letters)
BEHAVIOURS: Mapping[str, Behaviour] = {
    name: behaviour for module in MODULES for name, behaviour in behaviours_of(module).items()
}


def try_all(endpoint: str) -> Outcomes:
    """What became of each behaviour; side by side, since most of the time is waiting."""
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=32)
    sqs = Driver(boto3.client("sqs", endpoint_url=endpoint, config=config))

    def attempt(behaviour: Behaviour) -> BaseException | None:
        try:
            behaviour(sqs)
        except (AssertionError, ClientError, KeyError, ValueError) as error:
            return error
        return None

    with ThreadPoolExecutor(6) as executor:
        return dict(zip(BEHAVIOURS, executor.map(attempt, BEHAVIOURS.values()), strict=True))


@pytest.fixture(scope="module")
def world() -> Iterator[Outcomes]:
    with serve_in_thread() as served:
        yield try_all(served.url)


@pytest.fixture(scope="module")
def moto() -> Iterator[Outcomes]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = in_turn(DomainDispatcherApplication(create_backend_app))
    with served(make_server("127.0.0.1", 0, app, threaded=True)) as server:
        yield try_all(f"http://127.0.0.1:{server.server_port}")


def in_turn(app: "WSGIApplication") -> "WSGIApplication":
    """moto fails where two calls change its queues at once. A receive waits within its call."""
    turn = threading.Lock()

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        waits = environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage"
        with nullcontext() if waits else turn:
            return app(environ, start_response)

    return answer


def test_no_behaviour_hides_one_of_its_name() -> None:
    assert len(BEHAVIOURS) == sum(len(behaviours_of(module)) for module in MODULES)


def must_have_held(outcomes: Outcomes, name: str) -> None:
    error = outcomes[name]
    if error is not None:
        raise error


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_world_behaves_as_aws_says(world: Outcomes, name: str) -> None:
    must_have_held(world, name)


@pytest.mark.parametrize("name", [n for n in BEHAVIOURS if n not in {*MOTO_LACKS, *MOTO_VARIES}])
def test_moto_behaves_as_aws_says(moto: Outcomes, name: str) -> None:
    must_have_held(moto, name)


@pytest.mark.parametrize("name", MOTO_LACKS)
def test_moto_still_lacks_the_behaviour(moto: Outcomes, name: str) -> None:
    assert moto[name] is not None
