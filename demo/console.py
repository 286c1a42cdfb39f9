"""The console over the demo's world: the viewer puts the messages back, until Ctrl-C."""

import os
import subprocess
import sys
import time

from demo import ROOT, DemoError
from demo.context import RunContext
from demo.environment import FAILURE_TABLE
from demo.screen import Screen
from dlq_cli.console.work import MOST_STOPS, State, Works
from spark_reprocess.report.texts import quoted

_STOP_SECONDS = 30.0
_START = ("-m", "dlq_cli", "console")


def console_words(context: RunContext) -> list[str]:
    """Return the options of a console that has the demo's queues."""
    return [
        *("--archive", str(context.archive)),
        *("--main-queue-url", context.queues.main.url),
        *("--dlq-url", context.queues.dlq.url),
        *("--parked-queue-url", context.queues.parked.url),
        *("--failure-table", FAILURE_TABLE),
    ]


def console_command(context: RunContext) -> str:
    """Format the command that opens a console on the archive when the queues are gone."""
    python = os.path.relpath(sys.executable, ROOT)
    program = sys.executable if python.startswith("..") else python
    words = [program, *_START, "--archive", str(context.archive)]
    return " ".join(["PYTHONPATH=layers/core", *map(quoted, words)])


def open_console(context: RunContext, screen: Screen) -> None:
    """Start the console, show its address, and wait for Ctrl-C, or until the console ends.

    Raises:
        DemoError: it does not start.
    """
    state = context.work / "state"
    process = subprocess.Popen(
        [sys.executable, *_START, *console_words(context), "--no-browser"],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C must reach the demo, which then ends the console.
        start_new_session=True,
    )
    try:
        screen.say(f"open {_address(process)}", "green")
        screen.note("It works once. Ctrl-C here ends the console and accounts for every message.")
        process.wait()
    except KeyboardInterrupt:
        screen.say("the console is closed")
    finally:
        process.terminate()
        process.wait()
        _stop_work(Works.of(str(context.archive), {"XDG_STATE_HOME": str(state)}))


def _address(process: "subprocess.Popen[str]") -> str:
    lines = iter(process.stdout.readline, "") if process.stdout else iter(())
    address = next((line.strip() for line in lines if "http" in line), None)
    if address is None:
        raise DemoError("the console did not start; spark.log says why")
    return address


def _stop_work(works: Works) -> None:
    """Stop what the console started, as Ctrl-C does: the local queues end with the demo."""
    for number in range(1, MOST_STOPS + 1):
        deadline = time.monotonic() + _STOP_SECONDS
        while running := [one for one in works.all() if one.state is State.RUNNING]:
            for work in running:
                works.stop(work.work_id, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
