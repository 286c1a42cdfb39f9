"""The ``dlq`` command.

=================  ==========================================================================
``__main__``       the entry: chooses the verb, fills in the stack's values, runs it
``catalogue``      all verbs, in the groups of ``dlq --help``, and what they need
``stack_values``   queue URLs, archive, table and job from a stack's outputs
``verbs/``         a module for each verb that is not the Spark job's
``stack/``         what ``doctor`` examines and ``pause`` switches
``simulate/``      what ``simulate`` computes
=================  ==========================================================================
"""
