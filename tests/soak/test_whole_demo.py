"""The whole demo, on both kinds of queue: on standard ones with a user's messages."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from demo.workload import broken_count
from tests.e2e.test_demo import finish, start

OWN_MESSAGES = 24


def canary_verdicts(kept: Path) -> list[set[str]]:
    """What each canary said of its groups, in the order in which they were sent."""
    records = sorted(kept.glob("archive/ledger/plan_id=*/canary/*.json"), key=lambda p: p.name)
    found = [json.loads(record.read_text()) for record in records]
    return [{group["verdict"] for group in record["groups"]} for record in found]


def own_lines() -> Iterator[str]:
    """A user's messages: a few whose letters and digits must not change, and events."""
    amounts = '{"amount": 12345678901234567890123, "share": 1.10, "none": -0.0, "many": 1e999}'
    texts = ("Grüße, 你好, \U0001f389 \u202e", '"\\u00e9\\ud83d"', amounts, '{"a": 1,  "a": 2}\n')
    yield from (json.dumps({"body": body}) for body in texts)
    for number in itertools.count():
        event = {"action": ("opened", "closed")[number % 2], "number": number}
        yield json.dumps({"body": json.dumps(event)})


def test_demo_loses_nothing_and_ends_with_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    lines = [*itertools.islice(own_lines(), OWN_MESSAGES), "not a message"]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    process = start("--input", str(path), "--keep", str(tmp_path / "kept"))
    exit_code, numbers, err = finish(process)

    assert err == ""
    assert exit_code == 0
    assert (numbers["sent"], numbers["processed"]) == (OWN_MESSAGES, OWN_MESSAGES)
    assert (numbers["lost"], numbers["altered"]) == (0, 0)
    assert numbers["parked"] == numbers["redriven"] == broken_count(OWN_MESSAGES)
    assert broken_count(OWN_MESSAGES) < numbers["replayed"] < OWN_MESSAGES
    assert list((tmp_path / "kept" / "archive" / "messages").iterdir())
    assert list((tmp_path / "kept").glob("archive/reports/*/plan.yaml"))
    assert canary_verdicts(tmp_path / "kept") == [{"failed"}, {"passed"}]


def test_fifo_demo_loses_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    process = start("--queue", "fifo", "--messages", "28", "--keep", str(tmp_path / "kept"))

    exit_code, numbers, err = finish(process)

    assert err == ""
    assert exit_code == 0
    assert (numbers["sent"], numbers["processed"]) == (28, 28)
    assert (numbers["lost"], numbers["altered"], numbers["out_of_order"]) == (0, 0, 0)
    # What stands behind a broken message in its group may be parked with it.
    assert 3 <= numbers["parked"] == numbers["redriven"]
    assert numbers["parked"] < numbers["replayed"] < 28
    before_the_fix, after_it = canary_verdicts(tmp_path / "kept")
    assert "failed" in before_the_fix
    assert after_it == {"passed"}
