"""``python -m spark_reprocess VERB``, and the file that ``spark-submit`` is given.

Nothing is imported here but what Python itself has loaded: all else takes a part of a second, in
which Ctrl-C must have its usual effect.
"""

import os
import sys

if __name__ == "__main__":
    try:
        # pyarrow's own allocator takes 80 MB more. pyarrow reads this when it is imported.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        # NumPy's matrices are small here: its threads wait for each other for most of the time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

        from dlq.cli.running import end_process, main

        end_process(main(sys.argv[1:]))
    except KeyboardInterrupt:
        try:
            os.write(2, b"dlq: interrupted; nothing is lost, run the same command again\n")
        finally:
            os._exit(130)
