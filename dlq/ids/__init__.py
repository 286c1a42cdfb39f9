"""Rules about messages by their ids: Arrow tables in, Arrow tables out. No engine, files or AWS.

A table has one row for each message of a plan. Its columns are named in ``columns``. Each module is
one rule, and each rule is a function of its arguments alone:

- ``origins``: the queue that a message came from, and whether it forbids to send the message;
- ``room``: whether a message can carry the attributes that a redrive adds;
- ``dispositions``: the action of a run for each message, or the reason for no action;
- ``order``: the order in a FIFO message group: waiting, whole groups, positions; also the chunks of
  messages that are claimed together;
- ``limit``: the messages that are acted on under ``--limit``;
- ``steps``: the messages of a step of a ramp;
- ``counts``: the number of messages by disposition, and the causes of problems.
"""
