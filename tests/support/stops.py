"""Why a run stopped, for assertions."""

from dlq.archive.ledger.stop import Stop


def sentence_of(stop: Stop | None) -> str:
    """Return what people read of a stop; there must be one."""
    assert stop is not None
    return stop.sentence
