"""The command line: ``program`` is the command ``dlq VERB`` as a process.

Nothing is imported here but what Python itself has loaded: all else takes a part of a second, in
which Ctrl-C must have its usual effect.
"""

import os
import sys


def program() -> None:
    """Run the command, and end the process. This is the entry point of the installed command."""
    try:
        if sys.argv[1:2] == ["--candidates"]:
            from dlq.cli.candidates import main as print_candidates

            print_candidates(sys.argv[2:])
            return

        # pyarrow's own allocator takes 80 MB more. pyarrow reads this when it is imported.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        # NumPy's matrices are small here: its threads wait for each other for most of the time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

        from dlq.cli.command import main
        from dlq.cli.running import end_process

        end_process(main())
    except KeyboardInterrupt:
        try:
            message = b"interrupted; nothing is lost, run the same command again"
            if "--json" in sys.argv:
                os.write(2, b'{"version": 1, "error": "%s", "exit_code": 130}\n' % message)
            else:
                os.write(2, b"dlq: %s\n" % message)
        finally:
            os._exit(130)
