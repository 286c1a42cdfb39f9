"""The ``dlq`` command.

=================  ==========================================================================
``__main__``       the entry point: selects the verb, adds the stack's values, runs it
``catalogue``      all verbs, in the groups of ``dlq --help``, and what they need
``stack_values``   queue URLs, archive, table and job from a stack's outputs
``on_glue``        runs a verb of the Spark job as a run of the stack's AWS Glue job
``verbs/``         one module for each verb that is not the Spark job's
``stack/``         the checks of ``doctor``, and the triggers that ``pause`` turns off
``simulate/``      the computation of ``simulate``
=================  ==========================================================================
"""
