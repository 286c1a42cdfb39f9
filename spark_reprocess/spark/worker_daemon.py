"""PySpark's daemon, which forks the Python workers, without the zips on its path.

Spark puts pyspark.zip, py4j's zip and a jar of thousands of names before everything else on the
path of its workers, although PySpark is installed beside them. The zips hold no bytecode, so that
each daemon compiles PySpark anew; and before each task a worker has all importers look again
(``importlib.invalidate_caches``), for which Python 3.11 reads the whole directory of a zip, once
for each package that came from it: a second of processor time for a task of ten messages.

``session`` names this module to Spark where PySpark is installed. The JVM runs it as
``python -m spark_reprocess.spark.worker_daemon WORKER_MODULE``.
"""

import sys

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()

    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
