"""What a verb's exit code says. 3 is for a redrive that its canary stopped."""

DONE = 0
SPARK_FAILED = 1
BAD_INPUT = 2
NOT_ALL_SENT = 4
INTERRUPTED = 130
