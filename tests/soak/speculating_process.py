"""A redrive on a cluster whose Spark starts a second attempt beside each slow task.

``python -m tests.soak.speculating_process MASTER EVENTS OPTIONS``: EVENTS is a folder for Spark's
event log, OPTIONS are ``RedriveOptions`` as JSON. The job's own session does not speculate; one
that a notebook brings along may. Prints the count of each disposition and outcome as JSON.
"""

import json
import os
import sys
from collections import Counter

from pyspark.sql import SparkSession

from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def main() -> None:
    master, events, options = sys.argv[1:]
    builder: SparkSession.Builder = SparkSession.builder
    places = {
        "spark.eventLog.dir": events,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    builder = builder.master(master)
    for name, value in {**SETTINGS, **places}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    summary = redrive(session, RedriveOptions(**json.loads(options)))
    counts = sum((Counter(group.counts) for group in summary.groups), Counter[str]())
    print(json.dumps({"counts": counts, "stopped_by": summary.stopped_by}), flush=True)  # noqa: T201
    session.stop()


if __name__ == "__main__":
    main()
