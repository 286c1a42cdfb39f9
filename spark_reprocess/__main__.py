"""``python -m spark_reprocess VERB``, and the file that ``spark-submit`` is given."""

import sys

from spark_reprocess.command_line.cli import end_process, main

if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
