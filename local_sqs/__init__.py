"""A local SQS server for the demo, the benchmarks and the tests. It is never deployed.

``python -m local_sqs`` serves a detailed model of SQS over HTTP. Tests also use the model in their
own process, on a virtual clock, and inject faults (throttling, errors, lost answers).
docs/decisions/0010-local-sqs.md says why it is not moto, and when to throw it away.

Bottom up::

    clock, errors            time; the errors of SQS
    settings, messages       the attributes of a queue; messages and their order
    content                  rules for the content of a message, as AWS documents them
    queues                   one queue
    model                    all queues of an account; redrive policies
    api                      the operations by their AWS names
    faults, front            fault injection; the log of requests
    client, model_queue      in-process: for boto3 code, for ``dlq_replay`` code
    server, process          over HTTP; in a process of its own
"""
