"""Which exception a log record is about, which request wrote it, and whose it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.text.normalization import mask_error
from spark_reprocess.logs.events import LogEvent
from spark_reprocess.logs.exceptions import logged_error
from spark_reprocess.logs.matching import DeadLetter, Matcher
from tests.support.log_world import check_log_world

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
        *("NoVat", "no VAT rate for ***", _PYTHON_FRAMES),
    ),
    "Powertools for Node": (_FAILED | {"error": _OF_NODE}, "TypeError", "no VAT", _NODE_FRAME),
    "pino": ({"level": 50, "err": _OF_PINO}, "NoVat", "no VAT", ""),
    "logback": (
        _FAILED | {"stack_trace": JAVA.partition("\n")[2]},
        *("com.shop.NoVatException", "no VAT rate for HR", _JAVA_FRAMES),
    ),
    "serilog": (_OF_DOTNET, "Shop.NoVatException", "no VAT rate", _DOTNET_FRAME),
    "Lambda": (
        _BY_LAMBDA | {"stackTrace": [_STACK]},
        *("NoVat", "no VAT", _PYTHON_FRAMES.partition("\n")[0]),
    ),
    "Lambda of Go": (_BY_LAMBDA | {"stackTrace": [_GO_STACK]}, "NoVat", "no VAT", "app/tax.go:17"),
    "slog, JSON": (_FAILED | {"error": "no VAT"}, "error", "no VAT", ""),
}


@pytest.mark.parametrize("name", LOGGED)
def test_an_exception_has_type_text_and_own_frames(name: str) -> None:
    logged, *expected = LOGGED[name]

    found = logged_error(logged if isinstance(logged, str) else json.dumps(logged))

    assert found is not None
    assert [found.type, found.message, found.frames] == expected


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

    found = logged_error(f"ERROR com.shop.NoVat: no VAT{frames}")

    assert found is not None
    assert "anna@" not in found.frames
    assert 900 < len(found.frames) <= 1024


@given(st.lists(st.sampled_from([*_PARTS, *'{}[]":,0a \n\t']), max_size=30).map("".join))
def test_no_text_breaks_the_reading(text: str) -> None:
    logged_error(text)


_FIRST, _LAST, _OTHER = (f"0000000{n}-0ea4-451a-a703-a558b933e274" for n in (1, 2, 3))
_R1, _R2 = "11111111-0ea4-451a-a703-a558b933e274", "22222222-0ea4-451a-a703-a558b933e274"
_TRACE = "com.shop.NoVat: no VAT"
_LETTERS = {
    _FIRST: DeadLetter((_FIRST, _LAST), 1000, 100_000),
    _OTHER: DeadLetter((_OTHER, _OTHER), 1000, 100_000),
}
_VALUES = {"ORD-0001": _FIRST, "ORD-0002": _OTHER, "CUST-0001": _FIRST}


def _reasons(*texts: str, start_ms: int = 2000, stream: str = "s") -> dict[str, tuple[str, str]]:
    events = [LogEvent("g", stream, start_ms + n, text) for n, text in enumerate(texts)]
    found = Matcher(_LETTERS, _VALUES, mask_error).reasons(events)
    return {
        name: (one.how, f"{one.error.type}: {one.error.message}") for name, one in found.items()
    }


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([f"ERROR failed {_LAST}", _TRACE, "\tat com.shop.A.b(A.java:1)"], ("id", _TRACE)),
        ([f"ERROR failed {_FIRST} {_TRACE}"], ("id", _TRACE)),
        ([f"ERROR failed {_LAST} com.shop.Early: x", f"ERROR {_LAST} {_TRACE}"], ("id", _TRACE)),
        ([f"ERROR {_LAST} {_TRACE}", f"ERROR {_FIRST} com.shop.Late: x"], ("id", _TRACE)),
        ([f"ERROR {_FIRST} {_TRACE}", f"ERROR {_FIRST} com.shop.Late: x"], None),
        ([f"ERROR failed ORD-0001 {_TRACE}"], ("value", _TRACE)),
        ([f"ERROR ORD-0001 {_TRACE} 17", f"ERROR ORD-0001 {_TRACE} 18"], ("value", f"{_TRACE} 18")),
        ([f"ERROR ORD-0001 {_TRACE}", "ERROR ORD-0001 com.shop.Late: x"], None),
        ([f"ERROR CUST-0001 {_TRACE}", *["INFO CUST-0001"] * 3], ("value", _TRACE)),
        ([f"ERROR CUST-0001 {_TRACE}", *["INFO CUST-0001"] * 4], None),
        ([f"ERROR ORD-0001 and ORD-0002 {_TRACE}"], None),
        (["INFO ORD-0001", f"ERROR {_TRACE}"], None),
        ([f"ERROR ORD-0003 {_TRACE}"], None),
        ([f"WARN ORD-0001 {_TRACE}"], None),
        (["INFO ORD-0001", _TRACE], None),
        (["order ORD-0001", _TRACE], None),
        ([f"START RequestId: {_R1} V", _LAST, f"ERROR {_LAST} {_TRACE}"], ("id", _TRACE)),
    ],
)
def test_an_exception_belongs_to_the_one_dead_letter_that_its_record_names(
    texts: list[str], reason: tuple[str, str] | None
) -> None:
    assert _reasons(*texts).get(_FIRST) == reason


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([f"START RequestId: {_R1} V", "INFO ORD-0001", f"ERROR {_TRACE}"], ("request", _TRACE)),
        (
            [f"INFO requestId={_R1} ORD-0001", f"ERROR requestId={_R1} {_TRACE}"],
            ("request", _TRACE),
        ),
        ([f"INFO requestId={_R1} ORD-0001", f"ERROR requestId={_R2} {_TRACE}"], None),
        (
            [
                f"START RequestId: {_R1} V",
                f"START RequestId: {_R2} V",
                "ORD-0001",
                f"ERROR {_TRACE}",
            ],
            None,
        ),
        (
            [f"START RequestId: {_R1} V", "ORD-0001", f"END RequestId: {_R1}", f"ERROR {_TRACE}"],
            None,
        ),
        # A batch, of which another message may have failed.
        ([f"START RequestId: {_R1} V", "INFO ORD-0001", "INFO ORD-9999", f"ERROR {_TRACE}"], None),
        (
            [
                f"START RequestId: {_R1} V",
                "2026-11-01T03:40:00.123Z INFO ORD-0001",
                "2026-11-01T03:40:00.456Z INFO ORD-9999",
                f"ERROR {_TRACE}",
            ],
            None,
        ),
        ([f"START RequestId: {_R1} V", "INFO ORD-0001", f"ERROR {_TRACE}", "ERROR a.B: x"], None),
        ([f"START RequestId: {_R1} V", "INFO ORD-0001", f"ERROR ORD-0002 {_TRACE}"], None),
        ([f"START RequestId: {_R1} V", "INFO ORD-0001", f"ERROR of ORD-9999 {_TRACE}"], None),
    ],
)
def test_an_exception_belongs_to_the_one_dead_letter_of_its_request(
    texts: list[str], reason: tuple[str, str] | None
) -> None:
    assert _reasons(*texts).get(_FIRST) == reason


@pytest.mark.parametrize("start_ms", [900, 100_001])
def test_a_line_counts_only_in_the_time_in_which_the_message_can_have_failed(start_ms: int) -> None:
    assert _reasons(f"ERROR {_LAST} {_TRACE}", start_ms=start_ms) == {}


def test_a_trace_that_comes_seconds_later_is_not_joined() -> None:
    texts = ((2000, f"ERROR {_LAST}"), (5000, _TRACE))
    events = [LogEvent("g", "s", time_ms, text) for time_ms, text in texts]

    assert Matcher(_LETTERS, {}, mask_error).reasons(events) == {}


def test_a_trace_of_another_stream_is_not_joined() -> None:
    events = [
        LogEvent("g", "a", 2000, f"ERROR {_LAST}"),
        LogEvent("g", "b", 2001, f"ERROR {_OTHER}"),
        LogEvent("g", "a", 2002, _TRACE),
        LogEvent("g", "b", 2003, "com.shop.Other: x"),
    ]
    found = Matcher(_LETTERS, {}, mask_error).reasons(events)

    assert {name: one.error.type for name, one in found.items()} == {
        _FIRST: "com.shop.NoVat",
        _OTHER: "com.shop.Other",
    }


def test_reasons_are_found_in_the_logs_of_four_languages() -> None:
    check_log_world(300, seed=23)
