"""Consumers in four languages that log their failures, and the truth about each dead letter.

Each works off batches of ten. Most messages succeed, some fail once and then succeed, some fail
until they are dead letters. One event in fifty is lost.
"""

import json
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from dlq_replay.text.normalization import mask_error
from spark_reprocess.logs.events import TOKEN, LogEvent
from spark_reprocess.logs.matching import DeadLetter, Matcher

START_MS = 1_793_500_000_000
_HOUR_MS = 3_600_000
_ERRORS = (
    ("NoVatException", "no VAT rate for HR"),
    ("TimeoutException", "gateway timed out after 3000 ms"),
    ("DuplicateKeyException", 'duplicate key value violates constraint "orders_pkey"'),
    ("StatusException", "HTTP status 503"),
)
Error = tuple[str, str]
Lines = Iterator[str]


@dataclass(frozen=True)
class _Order:
    """A message: its copies' ids, one for each attempt, and what each attempt raises, if at all."""

    number: str
    customer: str
    copies: tuple[str, ...]
    errors: tuple[Error | None, ...]

    @property
    def is_dead(self) -> bool:
        return self.errors[-1] is not None

    @property
    def body(self) -> str:
        return json.dumps({"order": self.number, "customer": self.customer, "region": "eu-west-1"})


@dataclass(frozen=True)
class LogWorld:
    """What a search starts from, and the right answers.

    Attributes:
        events: in the order in which CloudWatch Logs returns them: by time, of all streams.
        letters: by first id.
        bodies: of the letters.
        truth: what each letter raised, the error that it was parked for last.
    """

    events: list[LogEvent]
    letters: dict[str, DeadLetter]
    bodies: dict[str, str]
    truth: dict[str, tuple[Error, ...]]


def log_world(failures: int, seed: int, lost: float = 0.02) -> LogWorld:
    """Make a world with so many dead letters."""
    rng = random.Random(seed)
    orders = [_order(rng, index < failures) for index in range(failures * 6)]
    rng.shuffle(orders)
    events: list[LogEvent] = []
    languages = (_python, _java, _node, _dotnet)
    for index, language in enumerate(languages):
        own = orders[index :: len(languages)]
        for attempt in range(4):
            due = [one for one in own if len(one.errors) > attempt]
            rng.shuffle(due)
            for start in range(0, len(due), 10):
                time_ms = START_MS + attempt * 6 * _HOUR_MS + start * 100 + rng.randrange(50)
                stream = f"{language.__name__}-{start // 10 % 7}"
                texts = language(rng, due[start : start + 10], attempt)
                for number, text in enumerate(texts):
                    events.append(LogEvent("/shop/orders", stream, time_ms + number, text))
    events.sort(key=lambda event: event.time_ms)
    dead = [one for one in orders if one.is_dead]
    return LogWorld(
        [event for event in events if rng.random() >= lost],
        {
            one.copies[0]: DeadLetter(
                (one.copies[0], one.copies[-1]), START_MS, START_MS + 24 * _HOUR_MS
            )
            for one in dead
        },
        {one.copies[0]: one.body for one in dead},
        {one.copies[0]: tuple(filter(None, one.errors)) for one in dead},
    )


def check_log_world(failures: int, seed: int) -> None:
    """Find the reasons in such a world: 95 % are right, and none is another message's.

    Where the last attempt's lines are lost, that of an earlier one may be found.
    """
    world = log_world(failures, seed)
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for name, body in world.bodies.items():
        for value in TOKEN.findall(body):
            owners[value].add(name)
    values = {value: min(names) for value, names in owners.items() if len(names) == 1}
    found = Matcher(world.letters, values, mask_error).reasons(world.events)
    raised = {
        name: (one.error.type.rpartition(".")[2], one.error.message) for name, one in found.items()
    }
    right = sum(raised.get(name) == errors[-1] for name, errors in world.truth.items())

    assert right >= 0.95 * failures
    assert [name for name, error in raised.items() if error not in world.truth[name]] == []
    assert {one.how for one in found.values()} == {"id", "value", "request"}


def _order(rng: random.Random, is_dead: bool) -> _Order:
    error = rng.choice(_ERRORS)
    if is_dead:
        attempts = rng.randint(2, 4)
        errors: list[Error | None] = [error] * attempts
        if rng.random() < 0.03:
            errors[0] = rng.choice(_ERRORS)
    else:
        errors = [error, None] if rng.random() < 0.1 else [None]
    return _Order(
        f"ORD-{rng.randrange(10**8):08}",
        f"CUST-{rng.randrange(5000):05}",
        tuple(str(uuid.UUID(int=rng.getrandbits(128))) for _ in errors),
        tuple(errors),
    )


def _id(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


def _stamp(rng: random.Random) -> str:
    moment = datetime.fromtimestamp(START_MS // 1000 + rng.randrange(80_000), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rng.randrange(1000):03}Z"


def _python(rng: random.Random, batch: list[_Order], attempt: int) -> Lines:
    """On Lambda, one by one: the error's record names the message, its trace is in the event."""
    request = _id(rng)
    yield f"START RequestId: {request} Version: $LATEST\n"
    failed = []
    for order in batch:
        message_id = order.copies[attempt]
        yield f"[INFO]\t{_stamp(rng)}\t{request}\tprocessing {message_id}\n"
        if rng.random() < 0.1:
            yield (
                f"[WARNING]\t{_stamp(rng)}\t{request}\tretrying {message_id}\n"
                f"{_traceback(('RateException', 'slow down'))}"
            )
        if error := order.errors[attempt]:
            failed.append(message_id)
            yield f"[ERROR]\t{_stamp(rng)}\t{request}\tfailed {message_id}\n{_traceback(error)}"
    if failed:
        yield f"[ERROR]\t{_stamp(rng)}\t{request}\tbatch item failures: {', '.join(failed)}\n"
    yield f"END RequestId: {request}\n"
    yield f"REPORT RequestId: {request}\tDuration: 120.30 ms\tBilled Duration: 121 ms\n"


def _traceback(error: Error) -> str:
    return (
        'Traceback (most recent call last):\n  File "/var/task/app.py", line 17, in handle\n'
        f"    rate(order)\nshop.tax.{error[0]}: {error[1]}\n"
    )


def _java(rng: random.Random, batch: list[_Order], attempt: int) -> Lines:
    """On Lambda, one by one: the error's line names the order, each line of a trace is an event."""
    request = _id(rng)
    yield f"START RequestId: {request} Version: 7\n"
    for order in batch:
        yield f"{_stamp(rng)} {request} INFO  com.shop.Handler - order {order.number}"
        yield f"{_stamp(rng)} {request} INFO  com.shop.Tax - tax for customer {order.customer}"
        if error := order.errors[attempt]:
            yield f"{_stamp(rng)} {request} ERROR com.shop.Handler - failed order {order.number}"
            yield f"com.shop.{error[0]}: {error[1]}"
            yield "\tat com.shop.Tax.rate(Tax.java:17)"
            yield "\tat com.shop.Handler.handle(Handler.java:42)"
            yield "Caused by: java.net.SocketException: closed"
            yield "\tat java.base/java.net.Socket.read(Socket.java:3)"
    yield f"END RequestId: {request}"
    yield f"REPORT RequestId: {request}\tDuration: 120.30 ms\tBilled Duration: 121 ms"


def _node(rng: random.Random, batch: list[_Order], attempt: int) -> Lines:
    """In a container, at once: JSON of pino with the message id."""

    def of_one(order: _Order) -> Lines:
        def line(level: int, message: str, **fields: object) -> str:
            own = {"messageId": order.copies[attempt], "msg": message, **fields}
            return json.dumps({"level": level, "time": START_MS + rng.randrange(10**6), **own})

        yield line(30, "received", order=order.number)
        yield line(30, "priced", ms=rng.randrange(900))
        if rng.random() < 0.1:
            yield line(40, "retrying", err={"type": "RateException", "message": "slow down"})
        if error := order.errors[attempt]:
            stack = f"{error[0]}: {error[1]}\n    at rate (/app/tax.js:17:9)\n    at node:x:1:1"
            yield line(50, "failed", err={"type": error[0], "message": error[1], "stack": stack})

    yield from _interleaved(rng, [of_one(one) for one in batch])


def _dotnet(rng: random.Random, batch: list[_Order], attempt: int) -> Lines:
    """In a container, at once: the order stands in the first line, each line has the trace id."""

    def of_one(order: _Order) -> Lines:
        trace = f"TraceId={rng.getrandbits(128):032x}"
        yield f"[{_stamp(rng)} INF] {trace} Handling order {order.number}"
        yield f"[{_stamp(rng)} INF] {trace} Computing tax"
        if error := order.errors[attempt]:
            yield (
                f"[{_stamp(rng)} ERR] {trace} Unhandled\nShop.{error[0]}: {error[1]}\n"
                "   at Shop.Tax.Rate(Order order) in /src/Tax.cs:line 17\n"
                "   at System.Threading.Tasks.Task.Run()"
            )

    yield from _interleaved(rng, [of_one(one) for one in batch])


def _interleaved(rng: random.Random, requests: list[Lines]) -> Lines:
    while requests:
        lines = rng.choice(requests)
        text = next(lines, None)
        if text is None:
            requests.remove(lines)
        else:
            yield text
