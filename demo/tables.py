"""The table at the end: every message by the way it went."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from demo.audit import PROCESSED, Account, Fate
from demo.workload import DemoMessage, Trait

_ALWAYS_SHOWN = (Fate.AT_ONCE, Fate.REPLAYED, Fate.REDRIVEN, Fate.LOST)


def account_table(account: Account, sent: Mapping[str, DemoMessage]) -> Table:
    """One row for each fate, and the sum; fates that must not happen appear when they do."""
    table = Table(title="Every message that was sent", title_justify="left", min_width=60)
    table.add_column("what became of it")
    for trait in Trait:
        table.add_column(trait.value, justify="right")
    table.add_column("all", justify="right", style="bold")
    for fate in Fate:
        identities = account.of_fate(fate)
        if identities or fate in _ALWAYS_SHOWN:
            counts = [sum(sent[i].trait is trait for i in identities) for trait in Trait]
            style = _style(fate, len(identities))
            table.add_row(Text(fate.value, style=style), *map(_cell, [*counts, len(identities)]))
    table.add_section()
    totals = [sum(m.trait is trait for m in sent.values()) for trait in Trait]
    table.add_row("all", *map(_cell, [*totals, len(sent)]))
    return table


def names(account: Account, sent: Mapping[str, DemoMessage], fate: Fate) -> str:
    """Name the messages that fared so, the first twenty of them."""
    identities = account.of_fate(fate)
    named = [f"message {sent[i].number} ({i[:12]})" for i in identities[:20]]
    more = len(identities) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _style(fate: Fate, count: int) -> str:
    if fate in PROCESSED:
        return "green"
    return "bold red" if count else "dim"


def _cell(count: int) -> str:
    return str(count) if count else "-"
