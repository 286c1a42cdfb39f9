"""Reading by the open set is the same as reading everything, whatever came between.

Drains, runs, erasures and analyses follow each other in any order, for weeks, on machines whose
clocks are hours and days off. After each step the pending messages are computed from the open set,
and from all messages and all claims.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlq.archive.ledger.claims import (
    CHUNK_MESSAGES,
    OUTCOMES,
    Claim,
    Ledger,
    Result,
    list_runs,
    plan_folder,
    sent_text,
    timestamp,
)
from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.message_state import states_among, states_in
from dlq.archive.ledger.open_set import (
    OPEN_SET,
    claimed_of_plan,
    claimed_table,
    read_messages,
)
from dlq.archive.ledger.run_results import clear_plans, write_result_files
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import (
    drain_of,
    drains_of,
    message_files,
    remove_messages,
    rows_by_file,
    with_files,
    write_messages,
)
from dlq.errors import InputError
from dlq_replay.wire.message import Message
from tests.support.builders import message, queue_url
from tests.support.ledgers import CLOCKS, NOW, MemoryArchive, begin

DAY = 86_400
_OUTCOMES = (*OUTCOMES, *3 * [Disposition.DISCARDED], *2 * [Disposition.UNCONFIRMED])
"""More often what another attempt changes."""


def rows_of(archive: MemoryArchive, *columns: str) -> pa.Table:
    rows = with_files(rows_by_file(archive, message_files(archive), columns), columns)
    return rows.append_column("drain_id", drains_of(rows))


@dataclass
class Nights:
    """An archive, and what happens to it.

    Attributes:
        now: the time; SQS knows it.
        ahead: by how much the clock of the machine is ahead that acts.
        sent_at: the SentTimestamp of each message; None if it cannot be read.
        done: what runs did with each message, with the numbers of their locks; None while there is
            no result.
    """

    random: Random
    archive: MemoryArchive = field(default_factory=MemoryArchive)
    now: float = NOW
    ahead: float = 0
    number: int = 0
    sent_at: dict[str, datetime | None] = field(default_factory=dict)
    done: dict[str, dict[int, Disposition | None]] = field(default_factory=dict)
    drain_id: str = ""
    old: bytes = b""
    has_erased: bool = False
    unfinished: list[tuple[Ledger, int, Claim]] = field(default_factory=list)
    plans: list[tuple[str, set[str]]] = field(default_factory=list)
    """When each began, and what was pending."""

    @property
    def clock(self) -> float:
        return self.now + self.ahead

    def some(self, ids: "list[str]") -> "list[str]":
        return self.random.sample(ids, self.random.randint(0, min(5, len(ids))))

    def bring(self) -> None:
        """New messages, and some that SQS delivers again."""
        new = [f"m-{self.number}-{n}" for n in range(self.random.randint(0, 2))]
        for message_id in new:
            sent_at = datetime.fromtimestamp(self.now - self.random.randint(0, 14 * DAY), UTC)
            self.sent_at[message_id] = sent_at if self.random.random() < 0.95 else None

        at = datetime.fromtimestamp(self.clock, UTC)
        again = self.some(sorted(self.sent_at.keys() - set(new)))
        messages = map(self.message, [*new, *again])
        rows = [to_row(each, queue_url("p"), at) for each in messages]
        write_messages(self.archive, self.drain_id, self.random.randint(0, 1), rows)

    def message(self, message_id: str) -> Message:
        if not (sent_at := self.sent_at[message_id]):
            return message(message_id)
        return message(message_id, SentTimestamp=str(int(sent_at.timestamp() * 1000)))

    def new_id(self) -> str:
        return f"{datetime.fromtimestamp(self.clock, UTC):%Y%m%dT%H%M%SZ}-{self.number:06d}"

    def drain(self) -> None:
        self.drain_id = self.new_id()
        self.bring()

    def go_on(self) -> None:
        """The drain writes another file."""
        if self.drain_id:
            self.bring()

    def run(self) -> None:
        """A run claims what it likes, also what is decided, as a restore may."""
        rows = rows_of(self.archive, "message_id", "drained_at").to_pylist()
        rows.sort(key=lambda row: (row["drained_at"], row["drain_id"], row["file"]))
        first_drains = {row["message_id"]: row["drain_id"] for row in reversed(rows)}
        ids = self.some(sorted(first_drains))

        run_id = f"r-{self.number}"
        plan_id = f"p-{self.number // 4}"
        try:
            ledger = begin(self.archive, plan_id, run_id, seconds=self.clock)
        except InputError:
            return  # Its plan is sealed.
        first_sent_at, last_sent_at = self.sent_texts(ids)
        claim = Claim(
            who="me",
            reason="",
            destination="https://q",
            time=timestamp(self.clock),
            message_ids=tuple(ids),
            end=CHUNK_MESSAGES,
            lock=self.number,
            drain_ids=tuple(first_drains[message_id] for message_id in ids),
            first_sent_at=first_sent_at,
            last_sent_at=last_sent_at,
        )
        ledger.claim("u", self.number, claim)
        for message_id in ids:
            self.done.setdefault(message_id, {})[self.number] = None

        self.unfinished.append((ledger, self.number, claim))
        if self.random.random() < 0.8:
            self.finish(-1)
            if self.random.random() < 0.8:
                assert write_result_files(self.archive, (plan_id, run_id)) == ()

    def sent_texts(self, ids: "list[str]") -> tuple[str, str]:
        """The first and the last SentTimestamp of these; empty if there is one without it."""
        texts = []
        for message_id in ids:
            sent_at = self.sent_at[message_id]
            if sent_at is None:
                return "", ""
            texts.append(sent_text(sent_at))
        return min(texts, default=""), max(texts, default="")

    def finish(self, which: int = 0) -> None:
        """The result of a claim comes, maybe after its run was closed."""
        if self.unfinished:
            ledger, chunk, claim = self.unfinished.pop(which)
            results = []
            for message_id in claim.message_ids:
                outcome = self.random.choice(_OUTCOMES)
                results.append(Result(message_id, outcome, timestamp(self.clock)))
                self.done[message_id][claim.lock] = outcome
            ledger.record("u", chunk, results)

    def close(self) -> None:
        runs = list_runs(self.archive)
        if runs:
            assert write_result_files(self.archive, self.random.choice(sorted(runs))) == ()

    def clear(self) -> None:
        clear_plans(self.archive, timestamp(self.clock))

    def erase(self) -> None:
        self.has_erased = True
        ids = self.some(sorted(self.sent_at))
        for drain_id in {drain_of(path) for path in self.archive.list("messages")}:
            remove_messages(self.archive, drain_id, ids, lambda: None)
        for message_id in ids:
            # Delivered again, it would count as decided where it was.
            del self.sent_at[message_id]

    def analyze(self) -> None:
        plan_id = self.new_id()
        messages = read_messages(self.archive)
        messages.open_set.write(self.archive)
        messages.open_set.write_for_plan(self.archive, plan_id)
        pending_ids = set(map(str, messages.pending()["message_id"].to_pylist()))
        self.plans.append((plan_id, pending_ids))

        self.archive.opened.clear()
        read_messages(self.archive)
        # The drain of a message that was erased is read while an open run has claimed it.
        is_read = any(path.startswith("messages/") for path in self.archive.opened)
        assert not is_read or self.has_erased

    def lose_it(self) -> None:
        """Somebody removes or damages it, or what was stored for a plan."""
        of_plans = [f"{plan_folder(plan_id)}/known.parquet" for plan_id, _ in self.plans]
        path = self.random.choice([OPEN_SET, *of_plans])
        if content := self.archive.files.pop(path, None):
            self.archive.files.update(self.random.choice([{}, {path: content[:50]}]))

    def bring_an_old_one(self) -> None:
        """A writer that slept replaces it by what it read long ago."""
        if self.old:
            self.archive.write(OPEN_SET, self.old)
        self.old = self.archive.files.get(OPEN_SET, b"")

    def check(self) -> None:
        rows = rows_of(self.archive, "message_id")
        files = {(row["message_id"], row["file"]) for row in rows.to_pylist()}
        column = rows["message_id"].unique() if files else rows["message_id"].slice(0, 0)
        claimed = claimed_table(self.archive)
        all_states = states_by_id(claimed, column)
        for message_id, state in all_states.items():
            assert state in possible_states(self.done.get(message_id, {}))

        messages = read_messages(self.archive)

        rows = messages.pending()
        pending = rows.set_column(2, "state", states_in(rows["entry"])).to_pylist()
        pending_states = {row["message_id"]: row["state"] for row in pending}
        undecided = {i: state for i, state in all_states.items() if state not in DECIDED}
        assert pending_states == undecided
        assert len(pending) == len(pending_states)
        assert {(row["message_id"], row["file"]) for row in pending} <= files

        for plan_id, planned in self.plans:
            # The same for its messages, without the results that its analysis has read.
            of_plan = column.filter(pc.is_in(column, value_set=pa.array(planned, pa.string())))
            states = states_by_id(claimed_of_plan(self.archive, plan_id), of_plan)
            assert states.items() <= all_states.items()

        counts = Counter[str]()
        for (_, _, state), number in messages.counts().items():
            counts[state] += number
        assert counts == Counter(all_states.values())


def states_by_id(claimed: pa.Table, message_ids: Any) -> dict[str, str]:
    states = states_among(claimed, message_ids).to_pylist()
    return dict(zip(map(str, message_ids.to_pylist()), states, strict=True))


def possible_states(done: Mapping[int, Disposition | None]) -> set[str]:
    """The states that a message may have by the outcomes of runs, by lock, whatever the clocks."""
    by_lock = {lock: done[lock] for lock in sorted(done) if done[lock] is not Disposition.FAILED}
    for strongest in (Disposition.SENT, Disposition.RESTORED):
        if strongest in by_lock.values():
            return {strongest}
    if not by_lock:
        return {"pending"}
    last = [*by_lock.values()][-1] or Disposition.UNCONFIRMED
    is_open = None in by_lock.values()
    return {str(last), "in_progress"} if is_open else {str(last)}


STEPS = (
    Nights.drain,
    Nights.go_on,
    Nights.run,
    Nights.run,
    Nights.run,
    Nights.finish,
    Nights.close,
    Nights.run,
    Nights.go_on,
    Nights.analyze,
    Nights.analyze,
    Nights.analyze,
    Nights.erase,
    Nights.clear,
    Nights.lose_it,
    Nights.bring_an_old_one,
)


@settings(max_examples=60)
@given(st.integers())
@example(18_330)  # Two drains share a message, and their clocks disagree which was first.
def test_open_set_says_what_everything_says(seed: int) -> None:
    world = Nights(Random(seed))
    for number in range(world.random.randint(1, 40)):
        world.number = number
        world.now += world.random.choice([0, 1, 1000, DAY, 6 * DAY])
        world.ahead = world.random.choice(CLOCKS)
        world.random.choice(STEPS)(world)
        if world.random.random() < 0.3:
            world.check()
    world.check()
