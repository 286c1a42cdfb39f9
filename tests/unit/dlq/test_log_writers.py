"""Where each writer of a log puts type and text: a record, or the events of a stream, for each."""

# ruff: noqa: E501 - lines of logs as they are written

import json

import pytest

from dlq.explain.logs.events import LogEvent, records
from dlq.explain.logs.exceptions import logged_error
from dlq.explain.logs.traces import LoggedError, is_wrapper, unwrapped

_REQUEST = "5fea7756-0ea4-451a-a703-a558b933e274"
_TIME = "2026-11-01T03:40:00.123Z"
_PREFIX = f"{_TIME}\t{_REQUEST}\tERROR\t"
_NBSP = "\u00a0"
_START = f"START RequestId: {_REQUEST} Version: $LATEST"
_FRAME = f'{_NBSP}{_NBSP}File "/var/task/app.py", line 4, in handler'
_CODE = f"{_NBSP}{_NBSP}{_NBSP}{_NBSP}price(order)"
_TRACEBACK = "Traceback (most recent call last):"


def errors_in(*events: str) -> list[tuple[str, str]]:
    """Return type and text of each error in the events of a stream."""
    stream = [LogEvent("g", "s", 1000 + number, text) for number, text in enumerate(events)]
    errors = [logged_error(record.text) for record in records(stream)]
    return [(error.type, error.message) for error in errors if error]


# By writer: the events, and the one error in them. No event of another writer looks alike.
WRITERS: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "Lambda, Python, text: above the traceback, frames indented with U+00A0": (
        (_START, f"[ERROR] KeyError: 'vat'\n{_TRACEBACK}\n{_FRAME}\n{_CODE}"),
        ("KeyError", "'vat'"),
    ),
    "Lambda, Python, a type that does not end like an error": (
        (f"[ERROR] NoRate: no rate for HR\n{_TRACEBACK}\n{_FRAME}",),
        ("NoRate", "no rate for HR"),
    ),
    "Lambda, Python, a text of several lines": (
        (f"[ERROR] ValidationError: 1 error for Order\nvat\n  missing\n{_TRACEBACK}\n{_FRAME}",),
        ("ValidationError", "1 error for Order vat missing"),
    ),
    "Lambda, Python, without a text": (
        (f"[ERROR] StopIteration\n{_TRACEBACK}\n{_FRAME}",),
        ("StopIteration", ""),
    ),
    "Lambda, Python, a module that cannot be imported": (
        (
            (
                "[ERROR] Runtime.ImportModuleError: Unable to import module 'app': No module named 'x'"
                f"\n{_TRACEBACK}"
            ),
        ),
        ("Runtime.ImportModuleError", "Unable to import module 'app': No module named 'x'"),
    ),
    "Lambda, Python, JSON": (
        (
            json.dumps(
                {
                    "timestamp": _TIME,
                    "level": "ERROR",
                    "errorMessage": "no rate",
                    "errorType": "NoRate",
                    "requestId": _REQUEST,
                    "stackTrace": ['  File "/var/task/app.py", line 4, in handler\n    price()\n'],
                }
            ),
        ),
        ("NoRate", "no rate"),
    ),
    "Lambda, Node, text, an uncaught error": (
        (
            _PREFIX + "Uncaught Exception \t"
            '{"errorType":"NoRateError","errorMessage":"no rate","stack":["NoRateError: no rate"]}',
        ),
        ("NoRateError", "no rate"),
    ),
    "Lambda, Node, text, over several events": (
        (_PREFIX + "Invoke Error \t{", '  "errorType": "E1Error",', '  "errorMessage": "no"', "}"),
        ("E1Error", "no"),
    ),
    "Lambda, Node, JSON: one level deeper": (
        (
            json.dumps(
                {
                    "level": "ERROR",
                    "requestId": _REQUEST,
                    "message": {
                        "errorType": "NoRateError",
                        "errorMessage": "no rate",
                        "stackTrace": ["NoRateError: no rate", "    at f (/var/task/p.js:1:1)"],
                    },
                }
            ),
        ),
        ("NoRateError", "no rate"),
    ),
    "Lambda, Java: text and type, then type and text": (
        ("no rate: shop.NoRateException\nshop.NoRateException: no rate\n\tat shop.H.on(H.java:1)",),
        ("shop.NoRateException", "no rate"),
    ),
    "Lambda, Java, without a text": (
        (
            (
                "java.lang.NullPointerException: java.lang.NullPointerException\n"
                "java.lang.NullPointerException\n\tat shop.H.on(H.java:1)"
            ),
        ),
        ("java.lang.NullPointerException", ""),
    ),
    "Lambda, Java, JSON": (
        (
            json.dumps(
                {
                    "level": "ERROR",
                    "AWSRequestId": _REQUEST,
                    "message": "shop.NoRateException: no rate\n\tat shop.H.on(H.java:1)",
                }
            ),
        ),
        ("shop.NoRateException", "no rate"),
    ),
    "Lambda, Ruby: a sentence, then JSON over several lines": (
        (
            (
                'Error raised from handler method\n{\n  "errorMessage": "no rate",\n'
                '  "errorType": "Function<Shop::NoRate>",\n  "stackTrace": [\n    "/var/task/a.rb:3"\n'
                "  ]\n}"
            ),
        ),
        ("Shop::NoRate", "no rate"),
    ),
    "Lambda, .NET": (
        (f"{_TIME}\t{_REQUEST}\tfail\tShop.NoRateException: no rate\n   at Shop.P.Run() in P.cs",),
        ("Shop.NoRateException", "no rate"),
    ),
    "Lambda, Go, an error that was returned": (
        ('{"errorMessage": "no rate", "errorType": "errorString"}',),
        ("errorString", "no rate"),
    ),
    "Lambda, Rust: tracing's JSON": (
        (
            (
                '{"level": "ERROR", "fields": {"message": "failed", "error": "missing field"},'
                ' "target": "lambda_runtime"}'
            ),
        ),
        ("error", "missing field"),
    ),
    "Lambda, a time-out": (
        (_START, f"{_TIME} {_REQUEST} Task timed out after 3.00 seconds"),
        ("Sandbox.Timedout", "Task timed out after 3.00 seconds"),
    ),
    "Lambda, a time-out in the report": (
        (f"REPORT RequestId: {_REQUEST}\tDuration: 3000.00 ms\tMemory: 1 MB\tStatus: timeout",),
        ("Sandbox.Timedout", "Task timed out after 3.00 seconds"),
    ),
    "Lambda, a time-out in the report, JSON": (
        (
            json.dumps(
                {
                    "time": _TIME,
                    "type": "platform.report",
                    "record": {
                        "requestId": _REQUEST,
                        "metrics": {"durationMs": 3000.0},
                        "status": "timeout",
                    },
                }
            ),
        ),
        ("Sandbox.Timedout", "Task timed out after 3.00 seconds"),
    ),
    "Lambda, a process that was killed": (
        (
            (
                f"RequestId: {_REQUEST} Error: Runtime exited with error: signal: killed\n"
                "Runtime.ExitError"
            ),
        ),
        (
            "Runtime.ExitError",
            f"RequestId: {_REQUEST} Error: Runtime exited with error: signal: killed",
        ),
    ),
    "Lambda, out of memory, in the report": (
        (f"REPORT RequestId: {_REQUEST}\tStatus: error\tError Type: Runtime.OutOfMemory\n",),
        ("Runtime.OutOfMemory", ""),
    ),
    "Powertools for Python, a batch of which all failed for one reason": (
        (
            (
                "[ERROR] BatchProcessingError: All records failed processing. 2 individual errors"
                f" logged separately below.\n\n{_TRACEBACK}\n{_FRAME}\nNoRate: no rate for HR\n\n\n"
                f"{_TRACEBACK}\n{_FRAME}\nNoRate: no rate for HR\n\n{_TRACEBACK}\n{_FRAME}"
            ),
        ),
        ("NoRate", "no rate for HR"),
    ),
    "Powertools for Python, a batch that failed for several reasons": (
        (
            (
                "[ERROR] BatchProcessingError: All records failed processing. 2 individual errors"
                f" logged separately below.\n\n{_TRACEBACK}\n{_FRAME}\nNoRate: no rate for HR\n\n\n"
                f"{_TRACEBACK}\n{_FRAME}\nKeyError: 'vat'\n\n{_TRACEBACK}\n{_FRAME}"
            ),
        ),
        (
            "BatchProcessingError",
            "All records failed processing. 2 individual errors logged separately below.",
        ),
    ),
    "Python, an exception group of one": (
        (
            (
                "ERROR failed\n  + Exception Group Traceback (most recent call last):\n"
                '  |   File "/app/a.py", line 3, in run\n'
                "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
                "  +-+---------------- 1 ----------------\n"
                f"    | {_TRACEBACK}\n"
                '    |   File "/app/a.py", line 9, in price\n'
                "    | KeyError: 'vat'\n"
                "    +------------------------------------"
            ),
        ),
        ("KeyError", "'vat'"),
    ),
    "Python, raised from a cause by an exception that names nothing": (
        (
            (
                f'ERROR failed\n{_TRACEBACK}\n  File "/app/a.py", line 9, in price\n    x\n'
                "shop.NoRate: no rate for HR\n\n"
                "The above exception was the direct cause of the following exception:\n\n"
                f'{_TRACEBACK}\n  File "/app/a.py", line 3, in run\n    y\nRuntimeError: failed'
            ),
        ),
        ("shop.NoRate", "no rate for HR"),
    ),
    "log4j, a logger's name before the text": (
        (
            "2026-11-01 03:40:00,123 ERROR shop.pricing.PriceService: could not price 17",
            "java.lang.IllegalStateException: no rate",
            "\tat shop.pricing.PriceService.rate(PriceService.java:21)",
        ),
        ("java.lang.IllegalStateException", "no rate"),
    ),
    "a dotted name that its own frames show to be an exception": (
        ("ERROR failed shop.NoRate: no rate\n\tat shop.P.rate(P.java:21)",),
        ("shop.NoRate", "no rate"),
    ),
    "Spring Cloud AWS: the listener's wrappers": (
        (
            (
                "ERROR 1 --- [c-1] i.a.Sink : Error processing message 17.\n\n"
                "java.util.concurrent.CompletionException: io.awspring.cloud.sqs.listener."
                "AsyncAdapterBlockingExecutionFailedException: Error executing action\n"
                "\tat java.base/java.util.concurrent.CompletableFuture.f(CompletableFuture.java:1)\n"
                "Caused by: io.awspring.cloud.sqs.listener.ListenerExecutionFailedException: Listener"
                " failed to process message 17\n\tat io.awspring.X.y(X.java:1)\n"
                "Caused by: shop.NoRateException: no rate\n\tat shop.P.rate(P.java:21)\n"
                "Caused by: java.io.IOException: closed\n\tat shop.Db.read(Db.java:3)"
            ),
        ),
        ("shop.NoRateException", "no rate"),
    ),
    "ExecutionException": (
        (
            (
                "ERROR failed\njava.util.concurrent.ExecutionException: java.lang.RuntimeException:"
                " failed\n\tat shop.A.b(A.java:1)\nCaused by: java.lang.RuntimeException: failed\n"
                "\tat shop.A.b(A.java:2)\nCaused by: java.net.SocketTimeoutException: Read timed out\n"
                "\tat shop.A.c(A.java:3)"
            ),
        ),
        ("java.net.SocketTimeoutException", "Read timed out"),
    ),
    ".NET, an exception of reflection": (
        (
            (
                "fail: Shop.Worker[0]\nSystem.Reflection.TargetInvocationException: Exception has been"
                " thrown by the target of an invocation.\n ---> Shop.NoRateException: no rate\n"
                "   at Shop.P.Run()"
            ),
        ),
        ("Shop.NoRateException", "no rate"),
    ),
    "Node, [cause]": (
        (
            _PREFIX + "Error: record failed\n    at h (/var/task/h.js:1:1) {\n"
            "  [cause]: TypeError: x is not a function\n      at p (/var/task/p.js:2:2)\n}",
        ),
        ("TypeError", "x is not a function"),
    ),
    "pino, a cause as an object": (
        (
            json.dumps(
                {
                    "level": 50,
                    "err": {
                        "type": "Error",
                        "message": "record failed",
                        "cause": {"type": "NoRateError", "message": "no rate"},
                    },
                }
            ),
        ),
        ("NoRateError", "no rate"),
    ),
    "Laravel": (
        (
            (
                "[2026-11-01 03:40:00] production.ERROR: no rate for HR "
                '{"exception":"[object] (App\\\\NoRate(code: 0): no rate for HR at /srv/app/P.php:33)'
            ),
            "[stacktrace]",
            "#0 /srv/app/P.php(33): App\\P->rate()",
            '"}',
        ),
        ("App\\NoRate", "no rate for HR"),
    ),
    "Monolog": (
        (
            "[2026-11-01T03:40:00.1+00:00] app.ERROR: PDOException: SQLSTATE[HY000]: gone [] []",
            "Stack trace:",
            "#0 /srv/app/C.php(335): PDOStatement->execute(Array)",
        ),
        ("PDOException", "SQLSTATE[HY000]: gone [] []"),
    ),
    "Rails": (
        (
            (
                "[ActiveJob] [PriceJob] [17] Error performing PriceJob (Job ID: 17) from Sqs(default)"
                " in 4.2ms: NoMethodError (undefined method 'vat' for nil):"
            ),
            "/app/jobs/price_job.rb:12:in 'perform'",
        ),
        ("NoMethodError", "undefined method 'vat' for nil"),
    ),
    "Rust, a panic: the text is the next event": (
        ("thread 'worker' panicked at src/price.rs:40:9:", "called `unwrap()` on a `None` value"),
        ("panic", "called `unwrap()` on a `None` value"),
    ),
    "Rust, a panic of an older compiler": (
        ("thread 'main' panicked at 'no rate', src/price.rs:40:9",),
        ("panic", "no rate"),
    ),
    "Rust, tracing's text": (
        (f"{_TIME} ERROR shop::price: record failed error=missing field `vat` order=17",),
        ("error", "missing field `vat`"),
    ),
    "Elixir": (
        (
            "03:40:00.123 [error] GenServer #PID<0.9.0> terminating",
            "** (RuntimeError) no rate for HR",
            "    (shop 0.1.0) lib/shop/price.ex:12: Shop.Price.rate/1",
        ),
        ("RuntimeError", "no rate for HR"),
    ),
    "Go, zap's console form": (
        (f"{_TIME}\tERROR\tshop/price.go:57\tpricing failed: no rate for HR\t",),
        ("error", "no rate for HR"),
    ),
    "Go, logrus": (
        ('time="2026-11-01T03:40:00Z" level=error msg=failed error="no rate for HR"',),
        ("error", "no rate for HR"),
    ),
    "the Elastic Common Schema": (
        (
            json.dumps(
                {
                    "log.level": "ERROR",
                    "message": "failed",
                    "error.type": "shop.NoRateException",
                    "error.message": "no rate",
                    "error.stack_trace": "shop.NoRateException: no rate\n\tat shop.P.f(P.java:1)",
                }
            ),
        ),
        ("shop.NoRateException", "no rate"),
    ),
    "the Elastic Common Schema, nested": (
        (
            json.dumps(
                {
                    "log": {"level": "error"},
                    "error": {"type": "NoRateError", "message": "no rate"},
                }
            ),
        ),
        ("NoRateError", "no rate"),
    ),
    "log4j, JSON": (
        (
            json.dumps(
                {
                    "level": "ERROR",
                    "loggerName": "shop.Pricing",
                    "message": "failed",
                    "thrown": {"name": "shop.NoRateException", "message": "no rate"},
                }
            ),
        ),
        ("shop.NoRateException", "no rate"),
    ),
    "a container's log driver around a text": (
        ('{"log": "ERROR failed NoRateError: no rate", "container_name": "shop"}',),
        ("NoRateError", "no rate"),
    ),
    "Celery": (
        (
            (
                f"[2026-11-01 03:40:00,123: ERROR/Worker-1] Task price[17] raised unexpected: X\n"
                f"{_TRACEBACK}\n"
                '  File "/usr/lib/python3/dist-packages/celery/app/trace.py", line 451, in t\n    r\n'
                "  File \"/srv/shop.py\", line 3, in price\n    x\nKeyError: 'vat'"
            ),
        ),
        ("KeyError", "'vat'"),
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_puts_type_and_text_where_its_reader_looks(writer: str) -> None:
    events, error = WRITERS[writer]

    assert errors_in(*events) == [error]


@pytest.mark.parametrize(
    "event",
    [
        "2026-11-01 03:40:00 ERROR cannot reach db.Main: retry later",
        "ERROR shop.pricing.PriceService: could not price order 17",
        "[2026-11-01 03:40:00] production.INFO: PDOException: retried",
        f"[ERROR]\t{_TIME}\t{_REQUEST}\tcould not price: no rate for HR",
        f"{_TIME}\tERROR\tshop/price.go:57\tno rate",
        f"REPORT RequestId: {_REQUEST}\tDuration: 3.00 ms\tBilled Duration: 4 ms",
        f"REPORT RequestId: {_REQUEST}\tDuration: 3.00 ms\tStatus: error\tError Type: KeyError",
        '{"type": "platform.report", "record": {"status": "success", "metrics": null}}',
        '{"type": "platform.report", "record": []}',
        "12:00:00 [warning] ** (RuntimeError) retried",
        'level=warn msg=retried err="no rate"',
        "started (Puma): ready",
        "panic button pressed",
    ],
)
def test_what_names_no_error_gives_none(event: str) -> None:
    assert errors_in(event) == []


def test_frames_are_those_of_the_cause_that_gave_type_and_text() -> None:
    trace = WRITERS["Spring Cloud AWS: the listener's wrappers"][0][0]

    error = logged_error(trace)

    assert error is not None
    assert error.frames == "shop.P.rate(P.java:21)"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("shop.NoRate",), "shop.NoRate"),
        (("shop.NoRate", "java.io.IOException"), "shop.NoRate"),
        (("java.lang.RuntimeException", "shop.NoRate", "java.io.IOException"), "shop.NoRate"),
        (("a.ExecutionException", "java.lang.Exception"), "java.lang.Exception"),
        (("Error",), "Error"),
    ],
)
def test_a_chain_is_about_its_outermost_error_that_is_no_wrapper(
    types: tuple[str, ...], expected: str
) -> None:
    assert unwrapped([LoggedError(name, "") for name in types]).type == expected


@pytest.mark.parametrize("name", ["a.b.CompletionException", "App\\Exception", "A::StandardError"])
def test_a_wrapper_is_known_by_its_name_without_package(name: str) -> None:
    assert is_wrapper(name)
    assert not is_wrapper(f"{name}Two")
