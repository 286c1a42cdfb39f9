"""The ``dlq`` command.

=================  ==========================================================================
``__main__``       the entry point of the process
``command``        all verbs; selects one, adds the stack's values, runs it
``stack_values``   queue URLs, archive, table and job from a stack's outputs
``on_glue``        runs a verb of the Spark job as a run of the stack's AWS Glue job
``verbs/``         one module for each verb that is not the Spark job's
``stack/``         the checks of ``doctor``
=================  ==========================================================================
"""
