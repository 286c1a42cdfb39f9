"""A local SQS server for the demo, the benchmarks and the tests. It is never deployed.

``python -m local_sqs`` serves a detailed model of SQS over HTTP. Tests also use the model in their
own process, on a virtual clock, and inject faults (throttling, errors, lost answers, SIGKILL).

Bottom up::

    clock, timers, errors, values      time, due times, errors, a message
    content, sending, settings         what SQS accepts, as AWS documents it
    delivery, states, fifo, receipts   order, states, the 5-minute deduplication memory, handles
    queues, move_tasks                 one queue; tasks that move messages
    model                              all queues of an account; redrive policies
    api, api_*                         the operations by their AWS names
    faults, front                      fault injection; the log of requests
    client, model_queue                in-process: for boto3 code, for ``dlq_replay`` code
    driver                             short calls for tests, through any boto3 client
    wire, http11, control, server      over HTTP
    process                            starts and stops a server process
"""
