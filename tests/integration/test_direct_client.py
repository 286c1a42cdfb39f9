"""Direct calls against botocore's own, on one server: same answers, same exceptions."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
)

from dlq_replay.connections import Answer, Connections
from dlq_replay.direct_client import DirectClient
from tests.direct_clients import both, once
from tests.sqs_world.faults import Effect, Fault
from tests.sqs_world.server import ServedWorld, serve_in_thread

BLOB = bytes(range(256))
ATTRIBUTES: Any = {
    "tenant": {"DataType": "String", "StringValue": "blü"},
    "blob": {"DataType": "Binary.raw", "BinaryValue": BLOB},
}


@pytest.fixture
def world() -> Iterator[ServedWorld]:
    with serve_in_thread() as served:
        yield served


@pytest.fixture
def url(world: ServedWorld) -> str:
    client, _ = both(world.url)
    return client.create_queue(QueueName="main")["QueueUrl"]


def test_message_goes_and_comes_as_through_botocore(world: ServedWorld, url: str) -> None:
    plain, direct = both(world.url)
    entry: Any = {"Id": "a", "MessageBody": "bödy \U0001f4e6", "MessageAttributes": ATTRIBUTES}
    received: list[tuple[Any, ...]] = []
    for client in (plain, direct):
        sent = client.send_message_batch(QueueUrl=url, Entries=[entry])
        assert [one["Id"] for one in sent["Successful"]] == ["a"]
        (message,) = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
        handle: Any = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}
        deleted = client.delete_message_batch(QueueUrl=url, Entries=[handle])
        assert [one["Id"] for one in deleted["Successful"]] == ["0"]
        received.append((message["Body"], message["MessageAttributes"], message["MD5OfBody"]))

    assert isinstance(direct, DirectClient)
    assert received[0] == received[1]
    assert received[1][:2] == (entry["MessageBody"], ATTRIBUTES)


def test_entry_that_fails_is_named_alike(world: ServedWorld, url: str) -> None:
    world.front.faults.add(Fault(Effect.FAIL_ENTRIES, entries=(1,), code="InternalError"))
    entries: Any = [{"Id": str(n), "MessageBody": "x"} for n in range(2)]

    answers = [c.send_message_batch(QueueUrl=url, Entries=entries) for c in both(world.url)]

    assert answers[0]["Failed"] == answers[1]["Failed"]


def test_other_calls_are_botocores(world: ServedWorld, url: str) -> None:
    _, direct = both(world.url)

    assert direct.get_queue_url(QueueName="main")["QueueUrl"] == url
    assert direct.meta.region_name == "us-east-1"


def failure(call: Callable[..., object], **request: str) -> Exception:
    with pytest.raises((BotoCoreError, ClientError)) as caught:
        call(**request)
    return caught.value


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Effect.THROTTLE),
        Fault(Effect.ERROR),
        Fault(Effect.UNAVAILABLE),
        Fault(Effect.REFUSE, code="AccessDenied"),
        Fault(Effect.REFUSE, code="ExpiredToken"),
    ],
    ids=lambda fault: f"{fault.effect}-{fault.code}",
)
def test_refusal_is_the_same_exception(world: ServedWorld, url: str, fault: Fault) -> None:
    world.front.faults.add(fault)
    errors = [failure(c.receive_message, QueueUrl=url) for c in once(world.url)]

    first, second = errors
    assert isinstance(first, ClientError)
    assert isinstance(second, ClientError)
    assert type(first).__name__ == type(second).__name__
    assert first.response["Error"] == second.response["Error"]
    metadata = [error.response["ResponseMetadata"] for error in (first, second)]
    assert metadata[0]["HTTPStatusCode"] == metadata[1]["HTTPStatusCode"]
    assert metadata[1]["RetryAttempts"] == 0


def test_queue_that_is_not_there_is_the_modelled_exception(world: ServedWorld, url: str) -> None:
    plain, direct = both(world.url)
    errors = [failure(c.receive_message, QueueUrl=f"{url}-x") for c in (plain, direct)]

    assert isinstance(errors[1], direct.exceptions.QueueDoesNotExist)
    assert str(errors[0]) == str(errors[1])


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Effect.CLOSE, ConnectionClosedError),
        (Effect.LOSE, ConnectionClosedError),
        (Effect.HANG, ReadTimeoutError),
    ],
)
def test_lost_answer_is_the_same_exception(
    world: ServedWorld, url: str, effect: Effect, expected: type[Exception]
) -> None:
    world.front.faults.add(Fault(effect))
    errors = [failure(c.receive_message, QueueUrl=url) for c in once(world.url, read_timeout=0.2)]

    assert [type(error) for error in errors] == [expected, expected]


def test_nobody_there_is_the_same_exception() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    errors = [failure(c.receive_message, QueueUrl="q") for c in once(nowhere)]

    assert [type(error) for error in errors] == [EndpointConnectionError] * 2


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.ERROR, Effect.CLOSE])
def test_call_is_repeated_as_often_as_the_client_is_told(
    world: ServedWorld, url: str, effect: Effect
) -> None:
    plain, _ = both(world.url)
    pauses: list[float] = []
    direct = DirectClient(
        plain,
        botocore.session.get_session().get_credentials(),
        Connections(world.url, 3, 3),
        pauses.append,
        lambda: 0.5,
    )
    world.front.faults.add(Fault(effect, times=2))
    before = world.front.log.count("ReceiveMessage")

    assert direct.receive_message(QueueUrl=url) == {}
    assert world.front.log.count("ReceiveMessage") - before == 3
    assert pauses == [0.5, 1.0]


def test_last_refusal_says_how_often_it_was_tried(world: ServedWorld, url: str) -> None:
    plain, _ = both(world.url)
    direct = DirectClient(
        plain,
        botocore.session.get_session().get_credentials(),
        Connections(world.url, 3, 3),
        lambda _: None,
    )
    world.front.faults.add(Fault(Effect.THROTTLE))

    error = failure(direct.receive_message, QueueUrl=url)

    assert isinstance(error, ClientError)
    assert error.response["ResponseMetadata"]["RetryAttempts"] == 2


def test_refusal_that_stays_is_not_repeated(world: ServedWorld, url: str) -> None:
    _, direct = both(world.url)
    world.front.faults.add(Fault(Effect.REFUSE, code="AccessDenied"))
    failure(direct.receive_message, QueueUrl=url)

    assert world.front.log.count("ReceiveMessage") == 1


def test_without_credentials_nothing_is_sent(world: ServedWorld, url: str) -> None:
    plain, _ = both(world.url)
    direct = DirectClient(plain, None, Connections(world.url, 3, 3))

    assert isinstance(failure(direct.receive_message, QueueUrl=url), NoCredentialsError)
    assert world.front.log.count("ReceiveMessage") == 0


def test_credentials_that_cannot_be_renewed_are_named_and_nothing_is_sent(
    world: ServedWorld, url: str
) -> None:
    plain, _ = both(world.url)
    past = "2020-01-01T00:00:00Z"
    expired = {"access_key": "a", "secret_key": "s", "token": "t", "expiry_time": past}
    credentials = RefreshableCredentials.create_from_metadata(
        expired, refresh_using=lambda: expired, method="iam-role"
    )
    direct = DirectClient(plain, credentials, Connections(world.url, 3, 3))

    error = failure(direct.receive_message, QueueUrl=url)

    assert isinstance(error, CredentialRetrievalError)
    assert "iam-role" in str(error)
    assert world.front.log.count("ReceiveMessage") == 0


def test_threads_share_it(world: ServedWorld, url: str) -> None:
    _, direct = both(world.url)

    def send(number: int) -> str:
        entry: Any = {"Id": str(number), "MessageBody": str(number)}
        return direct.send_message_batch(QueueUrl=url, Entries=[entry])["Successful"][0]["Id"]

    with ThreadPoolExecutor(8) as executor:
        assert list(executor.map(send, range(100))) == [str(number) for number in range(100)]


class Capturing(Connections):
    """Keeps what would be sent."""

    def post(self, body: bytes, headers: dict[str, str]) -> Any:
        self.body, self.headers = body, headers
        raise EndpointConnectionError(endpoint_url="captured")


def test_signature_covers_what_botocores_does(
    world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    plain, _ = once(world.url)
    capturing = Capturing(world.url, 3, 3)
    credentials = botocore.session.get_session().get_credentials()
    failure(DirectClient(plain, credentials, capturing).receive_message, QueueUrl="q")
    theirs: dict[str, Any] = {}

    def keep(request: Any, **_: object) -> None:
        theirs.update({name.lower(): value for name, value in request.headers.items()})

    plain.meta.events.register("before-send.sqs", keep)
    failure(plain.receive_message, QueueUrl="q")

    ours = {name.lower(): value for name, value in capturing.headers.items()}
    assert json.loads(capturing.body) == {"QueueUrl": "q"}
    assert ours["x-amz-security-token"] == "token"
    config: Any = plain.meta.config
    assert ours["user-agent"] == config.user_agent
    for name in ("x-amz-target", "content-type", "x-amzn-query-mode"):
        spelled = theirs[name]
        assert ours[name] == (spelled.decode() if isinstance(spelled, bytes) else spelled)
    scope = "/us-east-1/sqs/aws4_request, SignedHeaders=content-type;host;x-amz-date;"
    assert scope in ours["authorization"]
    assert scope in theirs["authorization"].decode()


@pytest.mark.parametrize(
    ("variables", "config"),
    [
        ({"HTTP_PROXY": "http://proxy:3128"}, {}),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, {}),
        ({}, {"proxies": {"http": "http://proxy:3128"}}),
        ({}, {"client_cert": "me.pem"}),
    ],
)
def test_other_ways_are_left_to_botocore(
    variables: dict[str, str], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plain, direct = both("http://sqs.example:80", **config)

    assert direct is plain


def test_a_url_that_only_botocore_can_sign_is_left_to_it() -> None:
    plain, direct = both("http://sqs.example:80/?a=1")

    assert direct is plain


class Answering(Connections):
    """Answers every call alike, and not in JSON."""

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        return Answer(200, {}, b"hm")


def test_answer_that_is_no_json_is_botocores_error(world: ServedWorld) -> None:
    plain, _ = once(world.url)
    credentials = botocore.session.get_session().get_credentials()
    direct = DirectClient(plain, credentials, Answering(world.url, 3, 3))

    assert type(failure(direct.receive_message, QueueUrl="q")) is HTTPClientError
