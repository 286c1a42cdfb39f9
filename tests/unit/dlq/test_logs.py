"""The exception that a log record is about, the request that wrote it, and its message."""

import json
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.logs.error_matching import DeadLetter, Matcher
from dlq.explain.logs.events import TOKEN, LogEvent
from dlq.explain.logs.exceptions import logged_error
from dlq_replay.text.normalization import mask_error

_ID = "5fea7756-0ea4-451a-a703-a558b933e274"
_STAMP = f"2026-11-01T03:40:00.123Z\t{_ID}"

JAVA = f"""2026-11-01 03:40:00 {_ID} ERROR Handler:42 - failed
com.shop.NoVatException: no VAT rate for HR
\tat com.shop.Tax.rate(Tax.java:17)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\tat org.springframework.aop.Proxy.invoke(Proxy.java:9)
\tat com.shop.Handler.handle(Handler.java:42)
Caused by: java.io.IOException: closed
\tat com.shop.Db.read(Db.java:3)"""
NODE = f"""{_STAMP}\tERROR\tfailed TypeError: Cannot read properties of undefined (reading 'vat')
    at rate (/var/task/tax.js:17:9)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
    at handler (/var/task/node_modules/kit/index.js:1:2)"""
PYTHON = f"""[ERROR]\t{_STAMP}\tfailed
Traceback (most recent call last):
  File "/var/task/db.py", line 3, in read
    raise KeyError("HR")
KeyError: 'HR'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/python/lib/python3.13/site-packages/kit.py", line 9, in run
    handle()
  File "/var/task/tax.py", line 17, in rate
    raise NoVat("no VAT rate for anna@example.com")
shop.tax.NoVat: no VAT rate for anna@example.com"""
DOTNET = f"""{_STAMP}\tfail\tfailed
Shop.NoVatException: no VAT rate
   at Shop.Tax.Rate(Order order) in /src/Tax.cs:line 17
   at System.Threading.Tasks.Task.Run()
   --- End of inner exception stack trace ---"""
GO = """panic: no VAT rate [recovered]

goroutine 1 [running]:
main.rate(0xc000012345)
\t/app/tax.go:17 +0x1d
runtime.main()
\t/usr/local/go/src/runtime/proc.go:250 +0x1d"""
RUBY = """/var/task/tax.rb:17:in `rate': no VAT rate (Shop::NoVat)
\tfrom /var/task/app.rb:3:in 'handle'
\tfrom /var/runtime/lib/ruby.rb:1:in 'run'"""
_JAVA_FRAMES = "com.shop.Tax.rate(Tax.java:17)\ncom.shop.Handler.handle(Handler.java:42)"
_JAVA_FRAMES += "\ncom.shop.Db.read(Db.java:3)"
_NODE_STACK = "TypeError: no VAT\n    at rate (/var/task/tax.js:17:9)\n    at node:internal/x:1"


_PYTHON_FRAMES = '"/var/task/tax.py", line 17, in rate\n"/var/task/db.py", line 3, in read'
_NODE_FRAME = "rate (/var/task/tax.js:17:9)"
_DOTNET_FRAME = "Shop.Tax.Rate(Order order) in /src/Tax.cs:line 17"
_RUBY_FRAMES = "/var/task/tax.rb:17:in `rate'\n/var/task/app.rb:3:in 'handle'"
_NO_VAT_OF_NODE = "Cannot read properties of undefined (reading 'vat')"
_SLOG = 'level=ERROR msg=failed order=A-17 err="no VAT rate"'
_RUBY_LOGGER = "E, [2026-11-01T03:40:00 #8] ERROR -- : no VAT (NoVat)"
_BY_LAMBDA = {"errorType": "NoVat", "errorMessage": "no VAT"}
_STACK = '  File "/var/task/tax.py", line 17, in rate\n    raise\n'
_GO_STACK = {"path": "app/tax.go", "line": 17, "label": "rate"}
_OF_NODE = {"name": "TypeError", "message": "no VAT", "stack": _NODE_STACK}
_OF_PINO = {"type": "NoVat", "message": "no VAT"}
_OF_DOTNET = {"@t": "2026", "@l": "Error", "@mt": "failed", "@x": DOTNET.partition("\n")[2]}
_FAILED = {"level": "ERROR", "message": "failed"}

# By logger or language: a text or JSON; the type, the text and the frames in it.
LOGGED: dict[str, tuple[object, str, str, str]] = {
    "Java": (JAVA, "com.shop.NoVatException", "no VAT rate for HR", _JAVA_FRAMES),
    "Node": (NODE, "TypeError", _NO_VAT_OF_NODE, _NODE_FRAME),
    "Python": (PYTHON, "shop.tax.NoVat", "no VAT rate for ***", _PYTHON_FRAMES),
    ".NET": (DOTNET, "Shop.NoVatException", "no VAT rate", _DOTNET_FRAME),
    "Go": (GO, "panic", "no VAT rate", "/app/tax.go:17"),
    "Ruby": (RUBY, "Shop::NoVat", "no VAT rate", _RUBY_FRAMES),
    "slog, text": (_SLOG, "error", "no VAT rate", ""),
    "Ruby's logger": (_RUBY_LOGGER, "NoVat", "no VAT", ""),
    "Powertools for Python": (
        _FAILED | {"exception": PYTHON, "exception_name": "NoVat"},
        "NoVat",
        "no VAT rate for ***",
        _PYTHON_FRAMES,
    ),
    "Powertools for Node": (_FAILED | {"error": _OF_NODE}, "TypeError", "no VAT", _NODE_FRAME),
    "pino": ({"level": 50, "err": _OF_PINO}, "NoVat", "no VAT", ""),
    "logback": (
        _FAILED | {"stack_trace": JAVA.partition("\n")[2]},
        "com.shop.NoVatException",
        "no VAT rate for HR",
        _JAVA_FRAMES,
    ),
    "serilog": (_OF_DOTNET, "Shop.NoVatException", "no VAT rate", _DOTNET_FRAME),
    "Lambda": (
        _BY_LAMBDA | {"stackTrace": [_STACK]},
        "NoVat",
        "no VAT",
        _PYTHON_FRAMES.partition("\n")[0],
    ),
    "Lambda of Go": (_BY_LAMBDA | {"stackTrace": [_GO_STACK]}, "NoVat", "no VAT", "app/tax.go:17"),
    "slog, JSON": (_FAILED | {"error": "no VAT"}, "error", "no VAT", ""),
}


@pytest.mark.parametrize("name", LOGGED)
def test_an_exception_has_type_text_and_own_frames(name: str) -> None:
    logged, *expected = LOGGED[name]

    error = logged_error(logged if isinstance(logged, str) else json.dumps(logged))

    assert error is not None
    assert [error.type, error.message, error.frames] == expected


@pytest.mark.parametrize(
    "text",
    [
        "WARN retrying after com.shop.TimeoutException: slow",
        '{"level":"WARN","error":{"name":"TimeoutError","message":"slow"}}',
        '{"level":30,"msg":"order 17","type":"order"}',
        "INFO order 17 is done",
        "ERROR order 17",
        "ERROR order 17\n\tat com.shop.A.b(A.java:1)\nCaused by: java.net.SocketException: closed",
        "",
        '{"level":"ERROR","message":"failed","name":"shop"}',
    ],
)
def test_what_is_no_error_gives_none(text: str) -> None:
    assert logged_error(text) is None


_BEGINS = ('{"error": ', '"stack":[', "at ", "ERROR", "panic: ")
_PARTS = (JAVA, NODE, PYTHON, DOTNET, GO, RUBY, *_BEGINS)


def test_frames_are_masked_and_short() -> None:
    frames = f"\n\tat com.shop.A.b(anna@example.com{'x' * 400})" * 5

    error = logged_error(f"ERROR com.shop.NoVat: no VAT{frames}")

    assert error is not None
    assert "anna@" not in error.frames
    assert 900 < len(error.frames) <= 1024


def test_a_type_that_quotes_a_person_is_masked() -> None:
    record = {"level": "ERROR", "errorType": "No user anna@example.com", "errorMessage": "no rate"}

    error = logged_error(json.dumps(record))

    assert error is not None
    assert (error.type, error.message) == ("No user ***", "no rate")


@given(st.lists(st.sampled_from([*_PARTS, *'{}[]":,0a \n\t']), max_size=30).map("".join))
def test_no_text_breaks_the_reading(text: str) -> None:
    logged_error(text)


_FIRST, _LAST, _OTHER = (f"0000000{n}-0ea4-451a-a703-a558b933e274" for n in (1, 2, 3))
_R1 = "11111111-0ea4-451a-a703-a558b933e274"
_R2 = "22222222-0ea4-451a-a703-a558b933e274"
_START_1 = f"START RequestId: {_R1} V"
_START_2 = f"START RequestId: {_R2} V"
_END_1 = f"END RequestId: {_R1}"
_TRACE = "com.shop.NoVatException: no VAT"
_TIMED_OUT = f"2026-11-01T03:40:00.123Z {_R1} Task timed out after 3.00 seconds"
_REPORT = f"REPORT RequestId: {_R1}\tDuration: 3000.00 ms\tStatus: timeout"
_TIME_OUT = "Sandbox.Timedout: Task timed out after 3.00 seconds"
_LETTERS = {
    _FIRST: DeadLetter((_FIRST, _LAST), 1000, 100_000),
    _OTHER: DeadLetter((_OTHER, _OTHER), 1000, 100_000),
}
_VALUES = {"ORD-0001": _FIRST, "ORD-0002": _OTHER, "CUST-0001": _FIRST}


def _reasons(*texts: str, start_ms: int = 2000, stream: str = "s") -> dict[str, tuple[str, str]]:
    events = [LogEvent("g", stream, start_ms + n, text) for n, text in enumerate(texts)]
    reasons = {}
    for name, reason in Matcher(_LETTERS, _VALUES, mask_error).reasons(events).items():
        reasons[name] = reason.how, f"{reason.error.type}: {reason.error.message}"

    return reasons


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([f"ERROR failed {_LAST}", _TRACE, "\tat com.shop.A.b(A.java:1)"], ("id", _TRACE)),
        ([f"ERROR failed {_FIRST} {_TRACE}"], ("id", _TRACE)),
        (
            [f"ERROR failed {_LAST} com.shop.EarlyError: x", f"ERROR {_LAST} {_TRACE}"],
            ("id", _TRACE),
        ),
        ([f"ERROR {_LAST} {_TRACE}", f"ERROR {_FIRST} com.shop.LateError: x"], ("id", _TRACE)),
        ([f"ERROR {_FIRST} {_TRACE}", f"ERROR {_FIRST} com.shop.LateError: x"], None),
        ([f"ERROR failed ORD-0001 {_TRACE}"], ("value", _TRACE)),
        ([f"ERROR ORD-0001 {_TRACE} 17", f"ERROR ORD-0001 {_TRACE} 18"], ("value", f"{_TRACE} 18")),
        ([f"ERROR ORD-0001 {_TRACE}", "ERROR ORD-0001 com.shop.LateError: x"], None),
        ([f"ERROR CUST-0001 {_TRACE}", *["INFO CUST-0001"] * 3], ("value", _TRACE)),
        ([f"ERROR CUST-0001 {_TRACE}", *["INFO CUST-0001"] * 4], None),
        ([f"ERROR ORD-0001 and ORD-0002 {_TRACE}"], None),
        (["INFO ORD-0001", f"ERROR {_TRACE}"], None),
        ([f"ERROR ORD-0003 {_TRACE}"], None),
        ([f"WARN ORD-0001 {_TRACE}"], None),
        (["INFO ORD-0001", _TRACE], None),
        (["order ORD-0001", _TRACE], None),
        ([_START_1, _LAST, f"ERROR {_LAST} {_TRACE}"], ("id", _TRACE)),
        ([_START_1, "INFO ORD-0001", f"ERROR {_TRACE}"], ("request", _TRACE)),
        (
            [f"INFO requestId={_R1} ORD-0001", f"ERROR requestId={_R1} {_TRACE}"],
            ("request", _TRACE),
        ),
        ([f"INFO requestId={_R1} ORD-0001", f"ERROR requestId={_R2} {_TRACE}"], None),
        ([_START_1, _START_2, "ORD-0001", f"ERROR {_TRACE}"], None),
        ([_START_1, "ORD-0001", _END_1, f"ERROR {_TRACE}"], None),
        # A batch, of which another message may have failed.
        ([_START_1, "INFO ORD-0001", "INFO ORD-9999", f"ERROR {_TRACE}"], None),
        (
            [
                _START_1,
                "2026-11-01T03:40:00.123Z INFO ORD-0001",
                "2026-11-01T03:40:00.456Z INFO ORD-9999",
                f"ERROR {_TRACE}",
            ],
            None,
        ),
        ([_START_1, "INFO ORD-0001", f"ERROR {_TRACE}", "ERROR a.BError: x"], None),
        ([_START_1, "INFO ORD-0001", f"ERROR ORD-0002 {_TRACE}"], None),
        ([_START_1, "INFO ORD-0001", f"ERROR of ORD-9999 {_TRACE}"], None),
        # What the platform says of a request holds for each copy that the request names.
        ([_START_1, f"INFO {_LAST}", _TIMED_OUT], ("request", _TIME_OUT)),
        ([_START_1, f"INFO {_LAST}", f"INFO {_OTHER}", _TIMED_OUT], ("request", _TIME_OUT)),
        ([_START_1, f"INFO {_LAST}", _REPORT], ("request", _TIME_OUT)),
        ([_START_1, f"INFO {_LAST}", _TIMED_OUT, _END_1, _REPORT], ("request", _TIME_OUT)),
        ([_START_1, "INFO ORD-0001", _TIMED_OUT], ("request", _TIME_OUT)),
        ([_START_1, "INFO ORD-0001", "INFO ORD-9999", _TIMED_OUT], None),
        ([_START_1, f"ERROR {_LAST} {_TRACE}", _TIMED_OUT], ("id", _TRACE)),
        ([_START_1, f"INFO {_LAST}", _END_1, f"REPORT RequestId: {_R1}\tDuration: 3.00 ms"], None),
    ],
)
def test_an_exception_belongs_to_the_one_dead_letter_that_its_record_or_request_names(
    texts: list[str], reason: tuple[str, str] | None
) -> None:
    assert _reasons(*texts).get(_FIRST) == reason


@pytest.mark.parametrize("start_ms", [900, 100_001])
def test_a_line_counts_only_in_the_time_in_which_the_message_can_have_failed(start_ms: int) -> None:
    assert _reasons(f"ERROR {_LAST} {_TRACE}", start_ms=start_ms) == {}


_FAILED_TWICE = (("a", 2000, f"ERROR {_LAST}"), ("b", 2001, f"ERROR {_OTHER}"))


@pytest.mark.parametrize(
    ("lines", "types"),
    [
        ((*_FAILED_TWICE[:1], ("a", 5000, _TRACE)), {}),
        (
            (*_FAILED_TWICE, ("a", 2002, _TRACE), ("b", 2003, "com.shop.OtherError: x")),
            {_FIRST: "com.shop.NoVatException", _OTHER: "com.shop.OtherError"},
        ),
    ],
)
def test_a_trace_that_comes_seconds_later_or_in_another_stream_is_not_joined(
    lines: tuple[tuple[str, int, str], ...], types: dict[str, str]
) -> None:
    events = [LogEvent("g", *line) for line in lines]

    reasons = Matcher(_LETTERS, {}, mask_error).reasons(events)

    assert {name: reason.error.type for name, reason in reasons.items()} == types


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

    yield from _interleaved(rng, list(map(of_one, batch)))


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

    yield from _interleaved(rng, list(map(of_one, batch)))


def _interleaved(rng: random.Random, requests: list[Lines]) -> Lines:
    while requests:
        lines = rng.choice(requests)
        text = next(lines, None)
        if text is None:
            requests.remove(lines)
        else:
            yield text


def _logged(rng: random.Random, orders: list[_Order]) -> list[LogEvent]:
    """What consumers in four languages log of the attempts at these orders, in batches of ten."""
    events: list[LogEvent] = []
    languages = (_python, _java, _node, _dotnet)
    for index, language in enumerate(languages):
        own = orders[index :: len(languages)]
        for attempt in range(4):
            due = [order for order in own if len(order.errors) > attempt]
            rng.shuffle(due)
            for start in range(0, len(due), 10):
                time_ms = START_MS + attempt * 6 * _HOUR_MS + start * 100 + rng.randrange(50)
                stream = f"{language.__name__}-{start // 10 % 7}"
                texts = language(rng, due[start : start + 10], attempt)
                for number, text in enumerate(texts):
                    events.append(LogEvent("/shop/orders", stream, time_ms + number, text))

    events.sort(key=lambda event: event.time_ms)
    return events


def _matcher(dead: dict[str, _Order]) -> Matcher:
    """Look for these dead letters, by their first ids; a value that several have finds none."""
    letters = {}
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for first_id, order in dead.items():
        copies = (first_id, order.copies[-1])
        letters[first_id] = DeadLetter(copies, START_MS, START_MS + 24 * _HOUR_MS)
        for value in TOKEN.findall(order.body):
            owners[value].add(first_id)

    values = {value: min(ids) for value, ids in owners.items() if len(ids) == 1}
    return Matcher(letters, values, mask_error)


def test_reasons_are_found_in_the_logs_of_four_languages() -> None:
    """95 % are right, and none is another message's.

    Consumers log their failures and work off batches of ten. Most messages succeed, some fail once
    and then succeed, some fail until they are dead letters. One event in fifty is lost. Where the
    last attempt's lines are lost, that of an earlier one may be found.
    """
    failures = 300
    rng = random.Random(23)
    orders = [_order(rng, index < failures) for index in range(failures * 6)]
    rng.shuffle(orders)
    events = [event for event in _logged(rng, orders) if rng.random() >= 0.02]
    dead = {order.copies[0]: order for order in orders if order.is_dead}

    reasons = _matcher(dead).reasons(events)

    raised = {}
    for first_id, reason in reasons.items():
        raised[first_id] = reason.error.type.rpartition(".")[2], reason.error.message
        assert raised[first_id] in dead[first_id].errors
    right = [key for key, order in dead.items() if raised.get(key) == order.errors[-1]]
    assert len(right) >= 0.95 * failures
    assert {reason.how for reason in reasons.values()} == {"id", "value", "request"}
