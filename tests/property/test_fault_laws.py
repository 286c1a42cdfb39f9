"""The laws under faults, over the real adapter; ``tests/mutants.toml`` has what breaks each."""

from hypothesis import given, settings

from tests.property.fault_world import (
    LAWS,
    Scenario,
    partial_failures,
    play,
    repeated_calls,
    scenarios,
)

EXAMPLES_FACTOR = 8
"""A scenario covers all laws at once, on more messages than an example of a single value."""


@settings(max_examples=settings().max_examples * EXAMPLES_FACTOR)
@given(scenarios | partial_failures | repeated_calls)
def test_laws_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    for law in LAWS:
        law(ending)
