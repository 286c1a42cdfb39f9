"""A redrive in a process of its own, to be killed: ``python -m tests.e2e.redrive_process``.

Its first argument are ``RedriveOptions`` as JSON, its second how often at most the plan is carried
out, until every message is sent. The last line is JSON, too: of the last run, the count of each
disposition and outcome, and what stopped it.
"""

import json
import sys
from collections import Counter

from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.spark.session import end_session, get_session

SENT = {"sent", "sent_before"}


def main() -> None:
    options, runs = RedriveOptions(**json.loads(sys.argv[1])), int(sys.argv[2])
    session = get_session()
    counts = Counter[str]({"untried": 1})
    while runs and counts.keys() - SENT:
        summary = redrive(session, options)
        counts = sum((Counter(group.counts) for group in summary.groups), Counter[str]())
        runs -= 1
    print(json.dumps({"counts": counts, "stopped_by": summary.stopped_by}), flush=True)  # noqa: T201
    end_session()


if __name__ == "__main__":
    main()
