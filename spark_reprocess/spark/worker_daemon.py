"""PySpark's daemon, which forks the Python workers, without the zips on its path.

Spark puts pyspark.zip, py4j's zip and a jar of thousands of names before everything else on the
path of its workers, although PySpark is installed beside them. The zips hold no bytecode, so that
each daemon compiles PySpark anew; and before each task a worker has all importers look again
(``importlib.invalidate_caches``), for which Python 3.11 reads the whole directory of a zip, once
for each package that came from it: a second of processor time for a task of ten messages.

``session`` names this module to Spark where PySpark is installed. The JVM runs it as
``python -m spark_reprocess.spark.worker_daemon WORKER_MODULE``.
"""

import re
import sys


def without_sparks_own(path: list[str]) -> list[str]:
    """Return *path* without what Spark puts there; zips of others stay, such as one of this job."""
    return [
        place
        for place in path
        if not re.search(r"(?:^|/)(?:pyspark\.zip|py4j-[^/]*\.zip|[^/]*\.jar)$", place)
    ]


if __name__ == "__main__":
    sys.path[:] = without_sparks_own(sys.path)
    sys.path_importer_cache.clear()

    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
