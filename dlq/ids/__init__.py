"""Rules about messages by their ids: Arrow tables in, Arrow tables out. No engine, files or AWS.

A table has one row for each message of a plan. Its columns are named in ``columns``. Each module is
one rule, and each rule is a function of its arguments alone:

- ``origins``: which queue a message came from, and what forbids to send it;
- ``room``: whether a message can carry what a redrive adds;
- ``dispositions``: what a run does with each message, or why it does nothing;
- ``order``: what order means in a FIFO message group: waiting, whole groups, positions; which
  messages are claimed together;
- ``limit``: which messages make work under ``--limit``;
- ``steps``: which messages a step of a ramp takes;
- ``counts``: how many messages have which disposition, and what hinders them.
"""
