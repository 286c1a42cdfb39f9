"""Invoke the built function with the events of ``events/`` and show what it did.

``python -m demo.sam_local [--engine docker|emulator] [EVENT ...]``
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo import ROOT, DemoError
from demo.sam_local.engines import Docker, Emulator, Engine, write_local_template
from demo.sam_local.trial import Outcome, event_names, try_event
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from local_sqs.process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BUILD = ROOT / ".aws-sam" / "build"
QUEUES = ("main", "dlq", "parked")


def main(argv: Sequence[str] | None = None) -> int:
    """Try the given events, or all; return 1 if a function did not answer."""
    arguments = _parser().parse_args(argv)
    console = Console()
    try:
        engine = make_engine(arguments.engine)
        with server_for(engine) as url:
            table = _table()
            for name in arguments.events or event_names():
                with console.status(f"{name}: invoking"):
                    table.add_row(*_row(try_event(name, engine, url)))
        console.print(table)
    except DemoError as error:
        console.print(Text(str(error), style="red"))
        return 1
    return 0


def make_engine(name: str) -> Engine:
    """Make the engine of that name.

    Raises:
        DemoError: the function is not built.
    """
    if not BUILD.is_dir():
        raise DemoError("Nothing is built; run make build first.")
    if name == "emulator":
        return Emulator(BUILD)
    return Docker(
        write_local_template(BUILD), tuple(os.environ.get("SAM_LOCAL_OPTIONS", "").split())
    )


@contextmanager
def server_for(engine: Engine) -> "Iterator[str]":
    """Serve SQS at an address that the function can reach; yield the server's URL."""
    with TemporaryDirectory() as folder:
        server = ServerProcess(["--host", engine.server_host], log=Path(folder, "sqs.log"))
        try:
            server.start()
            yield server.wait_for_url()
        finally:
            server.stop()


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("event")
    for queue in (*QUEUES, "left"):
        table.add_column(queue, justify="right")
    table.add_column("what arrived, or was left where it was", overflow="fold")
    return table


def _row(outcome: Outcome) -> list[Text]:
    left = [one["itemIdentifier"] for one in outcome.answer["batchItemFailures"]]
    counts = [len(outcome.arrived_in(queue)) for queue in QUEUES]
    marks = [f"{one.queue}: {_mark(one.attributes)}" for one in outcome.arrivals]
    marks += [f"left: {message_id[:8]}…" for message_id in left]
    cells = [outcome.event, *map(str, [*counts, len(left)]), "\n".join(dict.fromkeys(marks))]
    return [Text(cell) for cell in cells]


def _mark(attributes: "Mapping[str, Mapping[str, Any]]") -> str:
    ours = {name: one.get("StringValue", "") for name, one in attributes.items()}
    context = json.loads(ours.get(CONTEXT_ATTRIBUTE, "{}"))
    parts = [f"replay {ours[REPLAY_COUNT_ATTRIBUTE]}"] if REPLAY_COUNT_ATTRIBUTE in ours else []
    parts += [f"parked: {context['reason']}"] if "reason" in context else []
    return ", ".join(parts) or "as it was"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo.sam_local",
        description="Invoke the built replay function with the events of events/, on queues of an "
        "SQS server on this machine, and show the function's answer and what arrived where.",
        epilog="SAM_LOCAL_OPTIONS adds options to sam local invoke, e.g. --skip-pull-image.",
    )
    parser.add_argument("events", nargs="*", metavar="EVENT", help=f"of {', '.join(event_names())}")
    parser.add_argument(
        "--engine",
        choices=("docker", "emulator"),
        default="docker",
        help="docker: sam local invoke in a container; emulator: Lambda's Runtime API on this "
        "machine's Python, without Docker (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
