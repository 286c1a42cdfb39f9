"""List prices in dollars, and the units that they apply to. Pure.

For us-east-1, as of 2026-11, without the free tier. docs/growth.md, "Where the prices come from",
has the sources and how to get the current prices.
"""

PRICES_AS_OF = "2026-11"
PRICES_REGION = "us-east-1"

SQS_STANDARD_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334

SQS_CHUNK_BYTES = 65_536
"""A request is billed once for each 64 KiB of its content."""

SQS_BATCH_ENTRIES = 10
"""The most messages in one receive, send or delete."""

FUNCTION_GB = 0.25
EVENT_MESSAGES = 100
"""Of the template: memory of the function, and the most messages in one invocation."""

S3_PER_PUT = 0.005e-3
S3_PER_GB_MONTH = 0.023
GLUE_PER_DPU_HOUR = 0.308
"""Of Glue 6.0: 30 % below earlier versions."""


def format_dollars(amount: float) -> str:
    """Format an amount to the cent; ``<$0.01`` below a cent."""
    return f"${amount:,.2f}" if amount >= 0.01 else "<$0.01"  # noqa: PLR2004 - a cent
