"""The verbs ``redrive`` and ``restore``: messages of the archive are sent again.

- ``redrive`` and ``restore``: the pipelines; ``watch``: what fails again afterwards.
- ``request``: what a person asks for; ``send_run``: the run, checked before an engine starts.
- ``resolving/``: one disposition for each message, with its destination and its edit.
- ``run_record``: how a run begins and ends in the ledger; ``totals`` adds up its ``summary``.
- ``sending/``: in the driver ``task_runner``, ``task_division`` and ``waiting``; between the driver
  and its tasks ``written_rows``; in a task ``send_task``, with its rate and its reasons to stop.
- ``ramping/``: step after step. ``ramp`` conducts; ``step_records`` are in the archive, and
  ``readings`` come from AWS; ``verdict_rules`` judge, and ``verdicts`` says who may go on.
"""
