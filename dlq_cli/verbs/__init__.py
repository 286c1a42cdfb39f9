"""The verbs that are not the Spark job's: a module each, which defines it as ``VERB``.

Their options are an ``argparse.Namespace`` with the values of their arguments, and with ``stack``
(the name given, or None) and ``session`` (boto3's).
"""
