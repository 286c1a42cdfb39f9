"""Spark SQL's ``sqs`` format: a look at a queue, and a sink.

Register it once per session, then use it like any other format::

    from spark_reprocess.sql import SqsDataSource

    spark.dataSource.register(SqsDataSource)
    parked = spark.read.format("sqs").option("queueUrl", url).load().cache()
"""

from spark_reprocess.sql.source import SqsDataSource

__all__ = ["SqsDataSource"]
