"""The local environment of ``make demo``: everything around the product, but no part of it.

The demo shows how messages fail, are replayed with backoff, held during an outage, parked, analyzed
and redriven. The replay Lambda, the sample consumer and the Spark job are the real ones. The AWS
services, the event source mapping, the consumer's work and the operator are simulated here.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

# The Lambda has the core in a layer, the Spark job in a zip; here it is in the source tree.
_CORE = str(ROOT / "layers" / "core")
if _CORE not in sys.path:
    sys.path.insert(0, _CORE)


class DemoError(Exception):
    """The demo cannot continue. The text is shown to the user."""


class InputError(DemoError):
    """The command line or the input file is invalid: exit code 2."""
