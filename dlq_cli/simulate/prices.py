"""List prices and what is counted by them. Pure.

us-east-1, without the free tier, as of 2026-11, in dollars. Where they come from, and how to ask
AWS for those of today: docs/growth.md, "Where the prices come from".
"""

PRICES_AS_OF = "2026-11"
PRICES_REGION = "us-east-1"

SQS_STANDARD_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334

SQS_CHUNK_BYTES = 65_536
"""A request is billed once for each 64 KiB that it carries."""

SQS_BATCH_ENTRIES = 10
"""Messages in a receive, a send or a delete at most."""

FUNCTION_GB = 0.25
EVENT_MESSAGES = 100
"""Of the template: memory of the function, messages in one invocation at most."""

S3_PER_PUT = 0.005e-3
S3_PER_GB_MONTH = 0.023
GLUE_PER_DPU_HOUR = 0.308
"""Of Glue 6.0: 30 % below the versions before it."""
