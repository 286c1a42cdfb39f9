"""``python -m tests.support.limited_sql SECONDS VERB``: ``spark_reprocess``, its SQL limited."""

import sys

from spark_reprocess.command_line.cli import end_process, main
from spark_reprocess.sql import failures

if __name__ == "__main__":
    failures.LIMIT_SECONDS = float(sys.argv[1])
    end_process(main(sys.argv[2:]))
