"""The command line of the demo, and the folder of a run."""

import argparse
import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo import ROOT, InputError

DEFAULT_MESSAGES = 150
DEFAULT_FOLDER = ROOT / ".demo"
_MAX_MESSAGES = 500

_DESCRIPTION = """\
Shows how messages fail, are replayed with backoff, parked, analyzed and redriven.

Starts an SQS server on this machine, runs the real replay Lambda and the real Spark job, causes
failures on purpose, and checks at the end where every message is. Needs no AWS account and uses
none. Takes a minute or two.
"""
_EPILOG = """\
examples:
  python -m demo                                   150 generated events of a shop
  python -m demo --messages 300 --seed 7           more, and different ones
  python -m demo --console                         you put the messages back, in a browser
  python -m demo --queue fifo                      FIFO queues: customers are message groups
  python -m demo --input messages.jsonl            your own, one JSON object a line:
      {"body": "any text"}
      {"body": "{\\"order\\": 7}", "attributes": {"tenant": "acme",
        "retries": {"DataType": "Number", "StringValue": "3"},
        "hmac": {"DataType": "Binary", "BinaryValue": "3q2+7w=="}}}

On FIFO queues a hash of each message selects its customer. The first message of a group that must
wait is hidden in the dead-letter queue, and its group waits with it.

The last line on standard output is one JSON object with the counts. Only with --queue fifo it has
"out_of_order": the number of groups whose dead letters came back in another order than they failed.
Exit code: 0 every message was processed unchanged and in order, 1 otherwise, 2 bad arguments or
input, 130 interrupted.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed command line.

    Attributes:
        messages: the most messages to send; None if not given.
        folder: folder for archive, report and logs; None: the default, which each run empties.
        is_fifo: whether the queues keep the order of message groups.
        has_console: whether the viewer puts the messages back, in the console.
    """

    messages: int | None
    seed: int
    input_path: Path | None
    folder: Path | None
    is_fifo: bool
    has_console: bool = False

    @property
    def message_limit(self) -> int:
        """The most messages to take from a file: the user waits for all of them."""
        return self.messages or _MAX_MESSAGES


def parse_options(argv: Sequence[str] | None) -> Options:
    """Read the command line; exit with 2 if it is invalid, as argparse does."""
    raw = _parser().parse_args(argv)
    return Options(
        raw.messages,
        raw.seed,
        raw.input,
        raw.keep,
        is_fifo=raw.queue == "fifo",
        has_console=raw.console,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds = ("standard", "fifo")
    parser.add_argument("--queue", choices=kinds, default=kinds[0], help="(default standard)")
    parser.add_argument(
        "--console",
        action="store_true",
        help="after the first canary leave the rest to you, in the console, until Ctrl-C",
    )
    parser.add_argument(
        "--messages",
        type=_count,
        metavar="N",
        help=f"send N messages, 1 to {_MAX_MESSAGES} (default {DEFAULT_MESSAGES}); "
        "with --input the first N of the file",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the generated messages (default 1)",
    )
    parser.add_argument(
        "--input", type=Path, metavar="PATH", help="send your own messages, as JSON lines"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep archive, report and logs in DIR, which must be empty or new "
        "(default .demo, which the next run empties)",
    )
    return parser


@contextmanager
def work_folder(folder: Path | None) -> Iterator[Path]:
    """Make the folder of this run: *folder*, or the default one, which is emptied.

    Raises:
        InputError: the folder is not empty or not a folder, or another run uses it.
    """
    if folder is not None:
        yield _fresh(folder)
        return
    DEFAULT_FOLDER.mkdir(exist_ok=True)
    with (DEFAULT_FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another demo uses {DEFAULT_FOLDER}: wait for its end, or give --keep DIR."
            ) from None
        run = DEFAULT_FOLDER / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        yield run


def _fresh(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"--keep {folder}: must be empty or new.")
    except OSError as error:
        raise InputError(f"--keep {folder}: {error.strerror}.") from None
    return folder.resolve()


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_MESSAGES:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MAX_MESSAGES}")
    return int(text)
