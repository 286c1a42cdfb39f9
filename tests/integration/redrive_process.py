"""A redrive in a process of its own, to be killed: ``python -m tests.integration.redrive_process``.

Its argument is ``RedriveOptions`` as JSON; so are the counts that it prints, and what stopped it.
"""

import json
import sys
from collections import Counter

from dlq.cli.running import end_process
from dlq.redrive.redrive import redrive
from dlq.redrive.redrive_values import RedriveOptions
from spark_reprocess.session import get_session


def main() -> None:
    summary = redrive(get_session(), RedriveOptions(**json.loads(sys.argv[1])))
    counts = sum((Counter(group.counts) for group in summary.groups), Counter[str]())
    cause = summary.stopped_by.cause if summary.stopped_by else None
    print(json.dumps({"counts": counts, "stopped_by": cause}))  # noqa: T201
    end_process(0)


if __name__ == "__main__":
    main()
