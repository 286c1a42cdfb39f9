"""What the viewer is shown of a moment: numbers, no drawing. Pure."""

from dataclasses import dataclass, field

from demo.world import Depth


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at everything.

    Attributes:
        phase: what happens now, a few words.
        replayed: messages that came back to the main queue by a replay.
        archived: messages that Spark took out of the parked queue.
        redriven: of those, the ones that came back.
    """

    phase: str = ""
    elapsed_seconds: float = 0.0
    total: int = 0
    sent: int = 0
    processed: int = 0
    replayed: int = 0
    archived: int = 0
    redriven: int = 0
    main: Depth = field(default_factory=Depth)
    dlq: Depth = field(default_factory=Depth)
    parked: Depth = field(default_factory=Depth)

    @property
    def backing_off(self) -> int:
        """Messages that wait for their replay: delayed in main, or, on FIFO, hidden in the DLQ."""
        return self.main.delayed + self.dlq.delayed

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way: main and DLQ are empty."""
        return self.main.total == 0 and self.dlq.total == 0

    def to_line(self) -> str:
        """One plain line, for a pipe."""
        return (
            f"main {self.main.total:>4}  backing off {self.backing_off:>4}"
            f"  DLQ {self.dlq.total:>4}  parked {self.parked.total:>4}  replayed {self.replayed:>4}"
            f"  processed {self.processed}/{self.total}"
        )
