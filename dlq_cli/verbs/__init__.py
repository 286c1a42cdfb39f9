"""The verbs that are not the Spark job's.

Each has a module, which defines it as ``VERB``; ``trigger`` has two.

The options of a verb are an ``argparse.Namespace``: the values of its arguments, ``stack`` (a name
or None) and ``session`` (of boto3).
"""
