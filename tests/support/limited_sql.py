"""``python -m tests.support.limited_sql SECONDS VERB``: ``spark_reprocess``, its SQL limited."""

import sys

from dlq.cli.running import end_process, main
from dlq.sql import sql_errors

if __name__ == "__main__":
    sql_errors.LIMIT_SECONDS = float(sys.argv[1])
    end_process(main(sys.argv[2:]))
