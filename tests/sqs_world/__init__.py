"""An SQS for tests: a pure model on a clock of its own, a boto3 client and an HTTP server for it.

Bottom up::

    clock, timers, errors, values      time, due times, refusals, a message
    content, sending, settings         what SQS accepts, as AWS documents it
    lines, shelf, fifo, receipts       order, states, the 5-minute memory, handles
    queues, redrive, move_tasks        one queue; moves between two
    model                              all queues of an account
    api, api_*                         the operations by their AWS names
    faults, front                      what goes wrong on the way; the log of requests
    client, model_queue                in-process: for boto3 code, for ``dlq_replay`` code
    driver                             queues through any boto3 client, in few words
    wire, http11, control, server      over HTTP
"""
