"""Programs for operators. They run on an operator's machine, never in a Lambda or on Spark.

============  ==================================================================
``simulate``  what a policy does in an outage: ``python -m dlq_cli.simulate``
``stack``     check, pause or resume a deployed stack: ``python -m dlq_cli.stack``
============  ==================================================================

No function, layer or Spark job imports this package.
"""
