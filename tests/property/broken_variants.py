"""Searches for a scenario in which a variant that breaks a law is caught."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

S = TypeVar("S")
E = TypeVar("E")


def assert_caught(
    law: Callable[[E], None],
    play: Callable[[S], E],
    among: SearchStrategy[S],
    max_examples: int = 2000,
) -> None:
    """Assert that *law* fails for what *play* makes of one of the scenarios *among* these."""

    @settings(
        max_examples=max_examples,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(among)
    def check(scenario: S) -> None:
        law(play(scenario))

    with pytest.raises(AssertionError):
        check()
