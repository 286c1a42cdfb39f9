"""How far a run is, as one line. Pure but for the clock it is given."""

from collections import deque
from collections.abc import Callable, Mapping

from spark_reprocess import figures
from spark_reprocess.archive.ledger import Outcome
from spark_reprocess.redrive.selection import Fate

_RATE_SECONDS = 15.0
_TROUBLE = {
    Outcome.FAILED: "failed",
    Outcome.IN_DOUBT: "in doubt",
    Fate.BUSY: "busy",
    Fate.WAITS: "waiting",
}


class Headway:
    """Says what was done, how fast lately, what is left and when it will be done."""

    def __init__(
        self,
        total: int,
        counts: Callable[[], Mapping[str, int]],
        now_seconds: Callable[[], float],
    ) -> None:
        """Take the number of messages to settle and what tells how many are settled, by word."""
        self._total = total
        self._counts = counts
        self._now_seconds = now_seconds
        self._past = deque([(now_seconds(), 0)])

    def __call__(self) -> str:
        """Return the line as of now."""
        counts, now = self._counts(), self._now_seconds()
        # A task that Spark starts again tells once more what the first one did.
        settled = min(sum(counts.values()), self._total)
        while len(self._past) > 1 and self._past[1][0] <= now - _RATE_SECONDS:
            self._past.popleft()
        since, before = self._past[0]
        self._past.append((now, settled))
        rate = (settled - before) / (now - since) if now > since else 0.0
        left = self._total - settled
        parts = [f"{settled:,} of {self._total:,} messages", f"{figures.rate(rate)}/s"]
        if rate and left:
            parts.append(f"{figures.duration(left / rate)} left")
        sent = min(counts.get(Outcome.SENT, 0), settled)
        parts += [f"{sent:,} sent"] if sent != settled else []
        parts += [f"{counts[word]:,} {name}" for word, name in _TROUBLE.items() if counts.get(word)]
        return ", ".join(parts)
