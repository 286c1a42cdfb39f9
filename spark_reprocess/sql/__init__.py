"""Spark SQL's ``sqs`` format: peek at a queue, or send rows to one.

Register it once per session, then use it like any other format::

    from spark_reprocess.sql import SqsDataSource

    spark.dataSource.register(SqsDataSource)
    parked = spark.read.format("sqs").option("queueUrl", url).load().cache()
"""

from spark_reprocess.sql.source import SqsDataSource

__all__ = ["SqsDataSource"]
