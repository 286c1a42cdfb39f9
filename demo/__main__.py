"""``python -m demo``."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from demo.terminal import ignore_interrupts, interruptible

if TYPE_CHECKING:
    from demo.functions import WrapHandler

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 1


def main(
    argv: Sequence[str] | None = None,
    replay_handler: "WrapHandler | None" = None,
    *,
    with_spark: bool = True,
) -> int:
    """Run the demo and return its exit code.

    Args:
        argv: the command line without the program; None: that of the process.
        replay_handler: for tests; takes the real handler, returns the one to use.
        with_spark: False ends after the first half, for tests.
    """
    try:
        with interruptible():
            # Imported here, so that Ctrl-C prints a sentence also while boto3 and rich load.
            from demo.run import play_command  # noqa: PLC0415

            return play_command(argv, replay_handler, with_spark=with_spark)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the local queues and Spark are stopped.\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    exit_code = main()
    ignore_interrupts()
    if exit_code == EXIT_INTERRUPTED:
        # If the interrupt came during an exec(), such as that of a dataclass, CPython would end the
        # process by SIGINT although it was caught. The cleanup is complete at this point.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)
