"""The answer as text, for a terminal or a pipe."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from dlq_cli.simulate.bill import Bill
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.prices import FUNCTION_GB, PRICES_AS_OF, PRICES_REGION, format_dollars
from dlq_cli.simulate.recovery import BREAKER, Recoveries, Recovery
from dlq_cli.simulate.scenario import Scenario
from spark_reprocess.figures import duration, percent, quantity

ACCEPTED_SHARE = 0.001
"""The report warns if a greater share of the messages is parked."""

CURVE_LINES = 4
PLAIN_POINTS = 15
_MARGIN_COLUMNS = 2
_LABEL_COLUMNS = 40
_VALUE_COLUMNS = 13

_BLANK = 0x2800
_LEFT_DOTS = (0x40, 0x04, 0x02, 0x01)
_RIGHT_DOTS = (0x80, 0x20, 0x10, 0x08)
"""The bits of the dots of a character, from the bottom up."""

_TITLES = {
    BREAKER: "with breaker",
    Jitter.FULL: "full jitter",
    Jitter.EQUAL: "equal jitter",
    Jitter.NONE: "no jitter",
}

_COLOURS = {BREAKER: "36", Jitter.FULL: "32", Jitter.EQUAL: "33", Jitter.NONE: "31"}


@dataclass(frozen=True, slots=True)
class Screen:
    """A terminal that shows braille."""

    columns: int
    has_colours: bool


def text_report(recoveries: Recoveries, bills: Mapping[str, Bill], screen: Screen | None) -> str:
    """Return the results of the policy, next to those with other kinds of jitter.

    Args:
        recoveries: by jitter, and with the breaker. FULL is required.
        bills: with the breaker and with full jitter, without those that were not simulated.
        screen: to draw the load on; None lists it in numbers.
    """
    load = _listed(recoveries) if screen is None else _drawn(recoveries, screen)
    full = recoveries[Jitter.FULL]
    product = recoveries.get(BREAKER, full)
    blocks = [_setting(full.scenario), _table(recoveries), _verdict(product), load, _costs(bills)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _setting(scenario: Scenario) -> list[str]:
    policy, burst = scenario.policy, scenario.burst_count
    capacity, step_seconds = scenario.capacity_per_second, scenario.step_seconds
    outage = duration(scenario.outage_seconds)
    arrived = quantity(scenario.arrived_count)
    at_once = f", and {burst:,} at once when it begins" if burst else ""
    timeout = duration(scenario.visibility_timeout_seconds)
    cap = duration(policy.backoff.cap_seconds)
    return _without_blanks(
        f"An outage of {outage}: every try of the consumer fails.",
        f"{arrived} messages arrive in it: {scenario.arrivals_per_second:,g} a second{at_once}.",
        f"The consumer can make {capacity:,g} tries a second." if capacity else "",
        f"A copy is tried {scenario.max_receive_count} times, {timeout} apart, before it is a dead "
        f"letter; it is replayed {policy.max_attempts} times at most.",
        f"Replay n waits 0 to {policy.backoff.rate_seconds:g} * 2^n seconds, {cap} at most.",
        f"Computed in steps of {step_seconds} s." if step_seconds > 1 else "",
    )


def _without_blanks(*lines: str) -> list[str]:
    return [line for line in lines if line]


def _table(recoveries: Recoveries) -> list[str]:
    rows: Sequence[tuple[str, Callable[[Recovery], str]]] = [
        ("recovered by themselves", lambda r: quantity(r.recovered)),
        ("parked", lambda r: quantity(r.parked)),
        ("  share of all", lambda r: percent(r.parked_share)),
        ("after the outage: half through in", lambda r: duration(r.through_seconds(0.5))),
        ("                  99 % through in", lambda r: duration(r.through_seconds(0.99))),
        ("                  the last one in", lambda r: duration(r.through_seconds(1))),
        (
            "                  highest load, a second",
            lambda r: quantity(r.peak_per_second()),
        ),
        (
            "                  most replays, a second",
            lambda r: quantity(r.peak_replays_per_second()),
        ),
        ("replays", lambda r: quantity(r.replays)),
        ("tries that failed", lambda r: quantity(r.failed_tries)),
        ("  of replayed messages", lambda r: quantity(r.failed_tries_of_replays)),
        ("what never succeeds is parked in", lambda r: duration(round(r.seconds_to_park))),
    ]
    return [
        _row("", (_TITLES[jitter] for jitter in recoveries)),
        *(_row(label, map(form, recoveries.values())) for label, form in rows),
        *_breaker_changes(recoveries),
    ]


def _breaker_changes(recoveries: Recoveries) -> Iterator[str]:
    if BREAKER not in recoveries:
        return
    one = recoveries[BREAKER]
    changes = [
        *((at, "opens") for at in one.opened_seconds),
        *((at, "closes") for at in one.closed_seconds),
    ]
    events = [f"{change} after {duration(at)}" for at, change in sorted(changes)]
    yield f"The circuit breaker {', '.join(events) or 'stays closed'}."


def _verdict(product: Recovery) -> list[str]:
    if product.parked_share < ACCEPTED_SHARE:
        return []
    accepted = f"1 in {1 / ACCEPTED_SHARE:,.0f}"
    return [f"More than {accepted} is parked: --find prints how many replays are enough."]


def _drawn(recoveries: Recoveries, screen: Screen) -> list[str]:
    loads = _recovery_loads(recoveries)
    top = max(max(load) for load in loads.values())
    width = max(20, screen.columns - _MARGIN_COLUMNS)
    seconds = len(loads[Jitter.FULL]) * _scenario(recoveries).step_seconds
    lines = [_load_title(recoveries)]
    for jitter, load in loads.items():
        lines.append(f"{_TITLES[jitter]}, at most {quantity(max(load))}")
        for row in filled_curve(load, top, width, CURVE_LINES):
            dots = f"\x1b[{_COLOURS[jitter]}m{row}\x1b[0m" if screen.has_colours else row
            lines.append(" " * _MARGIN_COLUMNS + dots)
    end = f"{duration(seconds)} later"
    return [*lines, f"{'':{_MARGIN_COLUMNS}}{'the end of the outage':{width - len(end)}}{end}"]


def _listed(recoveries: Recoveries) -> list[str]:
    loads = _recovery_loads(recoveries)
    step_seconds = _scenario(recoveries).step_seconds
    count = min(PLAIN_POINTS, len(next(iter(loads.values()))))
    columns = [highest_in_columns(load, count) for load in loads.values()]
    steps = len(next(iter(loads.values())))
    lines = [_load_title(recoveries)]
    for index, values in enumerate(zip(*columns, strict=True)):
        after = timedelta(seconds=steps * index // count * step_seconds)
        lines.append(_row(f"from {after} on", map(quantity, values)))
    return lines


def _load_title(recoveries: Recoveries) -> str:
    normal = _scenario(recoveries).arrivals_per_second
    return f"Load on the consumer from the end of the outage on, a second ({normal:,g} is normal):"


def _recovery_loads(recoveries: Recoveries) -> dict[str, list[float]]:
    """Return the load per second after the outage, padded to the same length."""
    scenario = _scenario(recoveries)
    first = scenario.outage_seconds // scenario.step_seconds
    loads = {jitter: one.load_per_second()[first:] for jitter, one in recoveries.items()}
    longest = max(map(len, loads.values()))
    normal = scenario.arrivals_per_second
    return {jitter: load + [normal] * (longest - len(load)) for jitter, load in loads.items()}


def _scenario(recoveries: Recoveries) -> Scenario:
    return recoveries[Jitter.FULL].scenario


def _costs(bills: Mapping[str, Bill]) -> list[str]:
    rows: Sequence[tuple[str, Callable[[Bill], str]]] = [
        ("SQS requests around the DLQ", lambda b: quantity(b.replay_requests)),
        ("SQS requests of the consumer", lambda b: quantity(b.consumer_requests)),
        ("  together", lambda b: format_dollars(b.sqs_dollars)),
        ("invocations of the function", lambda b: quantity(b.invocations)),
        ("  at once, at most", lambda b: quantity(b.peak_concurrency)),
        (f"  with time at {FUNCTION_GB * 1024:g} MB", lambda b: format_dollars(b.lambda_dollars)),
    ]
    return [
        _row("What it costs:", (_TITLES[name] for name in bills)),
        *(_row(label, map(form, bills.values())) for label, form in rows),
        f"List prices of {PRICES_REGION}, {PRICES_AS_OF}, without free tier and normal traffic.",
    ]


def _row(label: str, values: Iterable[str]) -> str:
    return f"{label:{_LABEL_COLUMNS}}" + "".join(f"{value:>{_VALUE_COLUMNS}}" for value in values)


def highest_in_columns(values: Sequence[float], columns: int) -> list[float]:
    """Split *values* into columns and return the highest value of each, so that peaks stay."""
    cuts = [len(values) * column // columns for column in range(columns + 1)]
    return [max(values[first : max(end, first + 1)], default=0.0) for first, end in pairwise(cuts)]


def filled_curve(values: Sequence[float], top: float, width: int, height: int) -> list[str]:
    """Draw *values* in *width* characters and *height* lines; the top of the curve is *top*.

    A value above 0 has at least one dot.
    """
    dots = [_dots(value, top, 4 * height) for value in highest_in_columns(values, 2 * width)]
    return [
        "".join(
            chr(_BLANK + _cell(left - 4 * row, _LEFT_DOTS) + _cell(right - 4 * row, _RIGHT_DOTS))
            for left, right in zip(dots[::2], dots[1::2], strict=True)
        )
        for row in reversed(range(height))
    ]


def _dots(value: float, top: float, most: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    return min(most, max(1, round(value / top * most)))


def _cell(filled: int, bits: Sequence[int]) -> int:
    return sum(bits[: max(0, filled)])
