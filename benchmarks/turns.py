"""Two programs measured by turns, so that what else the machine does meets both alike."""

from collections.abc import Callable
from typing import TypeVar

Product = TypeVar("Product")
Baseline = TypeVar("Baseline")


def by_turns(
    product: Callable[[], Product], baseline: Callable[[], Baseline], turns: int
) -> tuple[list[Product], list[Baseline]]:
    """Run both *turns* times; who goes first changes from turn to turn.

    Neither is warmed up here: run each once before, where the first run is unlike the others.
    """
    of_product: list[Product] = []
    of_baseline: list[Baseline] = []
    for turn in range(turns):
        if turn % 2:
            of_product.append(product())
            of_baseline.append(baseline())
        else:
            of_baseline.append(baseline())
            of_product.append(product())
    return of_product, of_baseline
