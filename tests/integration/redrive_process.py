"""A redrive in a process of its own, to be killed: ``python -m tests.integration.redrive_process``.

Its argument are ``RedriveOptions`` as JSON. The last line is JSON, too: the count of each
disposition and outcome, and what stopped it.
"""

import json
import sys
from collections import Counter

from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.spark.session import end_session, get_session


def main() -> None:
    summary = redrive(get_session(), RedriveOptions(**json.loads(sys.argv[1])))
    counts = sum((Counter(group.counts) for group in summary.groups), Counter[str]())
    print(json.dumps({"counts": counts, "stopped_by": summary.stopped_by}), flush=True)  # noqa: T201
    end_session()


if __name__ == "__main__":
    main()
