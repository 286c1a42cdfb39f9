"""``python -m demo``: the command line, the folder of a run, and the exit code."""

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from demo import ROOT, DemoError, InputError

DEFAULT_FOLDER = ROOT / ".demo"
_DEFAULT_MESSAGES = 150
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
  python -m demo --console                         you redrive the messages, in a browser
  python -m demo --queue fifo                      FIFO queues: customers are message groups
  python -m demo --input messages.jsonl            your own, one JSON object a line:
      {"body": "any text"}
      {"body": "{\\"order\\": 7}", "attributes": {"tenant": "acme",
        "retries": {"DataType": "Number", "StringValue": "3"},
        "hmac": {"DataType": "Binary", "BinaryValue": "3q2+7w=="}}}

The last line on standard output is one JSON object with the counts. Only with --queue fifo it has
"out_of_order": the number of groups whose dead letters came back in another order than they failed.
Exit code: 0 every message was processed unchanged and in order, 1 otherwise, 2 bad arguments or
input, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with the options *argv* and return its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = parse_options(argv)
        with work_folder(options.keep) as folder:
            # Imported here, so that Ctrl-C prints a sentence also while boto3 and rich load.
            from demo.story import play  # noqa: PLC0415

            return play(options, folder)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the local queues and Spark end, too.\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except DemoError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError) else 1


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; exit with 2 if it is invalid, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--queue",
        choices=("standard", "fifo"),
        default="standard",
        help="(default standard)",
    )
    parser.add_argument(
        "--console",
        action="store_true",
        help="leave the rest to you once the bugs are fixed",
    )
    parser.add_argument(
        "--messages",
        type=_count,
        metavar="N",
        help=f"send N messages, 1 to {_MAX_MESSAGES} (default {_DEFAULT_MESSAGES}); with --input "
        f"the first N, by default {_MAX_MESSAGES}",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of the generated messages (default 1)",
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="PATH",
        help="send your own messages, as JSON lines",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="an empty or new folder for archive, report and logs (default .demo, always emptied)",
    )

    options = parser.parse_args(argv)
    if options.messages is None:
        options.messages = _MAX_MESSAGES if options.input else _DEFAULT_MESSAGES
    return options


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_MESSAGES:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MAX_MESSAGES}")
    return int(text)


@contextmanager
def work_folder(folder: Path | None) -> Iterator[Path]:
    """Make the folder of this run: *folder*, or the default one, which is emptied.

    Raises:
        InputError: the folder is not empty or not a folder, or another run uses it.
    """
    if folder is not None:
        _make_empty(folder)
        yield folder.resolve()
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


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"--keep {folder}: must be empty or new.")
    except OSError as error:
        raise InputError(f"--keep {folder}: {error.strerror}.") from None


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait for threads, and after an interrupt during an exec(), such as that
    # of a dataclass, CPython would end the process by SIGINT although it was caught.
    os._exit(exit_code)
