"""``python -m spark_reprocess VERB``, and the file that ``spark-submit`` is given."""

import sys

from spark_reprocess.command_line.cli import main
from spark_reprocess.spark.session import end_session

if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    end_session()
    sys.exit(exit_code)
