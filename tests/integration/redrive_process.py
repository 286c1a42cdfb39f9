"""A redrive in a process of its own, to be killed: ``python -m tests.integration.redrive_process``.

Its arguments are the name of an engine, the archive, and ``RedriveRequest`` as JSON. It prints the
counts and what stopped it as JSON, or that it was interrupted.
"""

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING

from dlq.archive.storage.files import open_archive
from dlq.cli.running import end_process
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest
from dlq.redrive.send_run import prepare

if TYPE_CHECKING:
    from dlq.engine import Engine


def engine_of(name: str) -> "Engine":
    """Start the engine of this name."""
    if name == "spark":
        from spark_reprocess.engine import SparkEngine  # noqa: PLC0415 - pyspark loads slowly
        from spark_reprocess.session import get_session  # noqa: PLC0415 - as above

        return SparkEngine(get_session())
    from dlq.local_engine import LocalEngine  # noqa: PLC0415 - DuckDB loads slowly

    return LocalEngine()


def main() -> None:
    _, name, place, request = sys.argv
    try:
        run = prepare(open_archive(place), RedriveRequest(**json.loads(request)))
        summary = redrive(engine_of(name), run)
    except KeyboardInterrupt:
        print(json.dumps({"interrupted": True}))  # noqa: T201
        end_process(130)
    counts = sum((Counter(group.counts) for group in summary.groups), Counter[str]())
    cause = summary.stopped_by.cause if summary.stopped_by else None
    print(json.dumps({"counts": counts, "stopped_by": cause}))  # noqa: T201
    end_process(0)


if __name__ == "__main__":
    main()
