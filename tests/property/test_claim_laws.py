"""The laws of claims: runs with any rates, killed at any step, over a store of conditional creates.

Each run is a thread that pauses before and after each call to the store and to SQS. Chance says
which one goes on, which one is killed there, and which one sleeps there until others have closed
it, sealed its plan or removed its claims. The clock of each run's machine may be days off.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from random import Random
from threading import Semaphore, Thread, current_thread
from typing import Any, BinaryIO

from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.replaying.sending import Confirmed, InDoubt, NotSent, Refused, SendResult
from dlq_replay.wire.message import SendEntry
from spark_reprocess.archive.ledger.claims import (
    CLOSING,
    PLACES,
    RESULTS,
    RUNS,
    SEALED,
    Ledger,
    close_open_runs,
    run_path,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.message_state import entries_of, strongest
from spark_reprocess.archive.ledger.open_set import claimed_table
from spark_reprocess.archive.ledger.run_results import (
    clear_plans,
    ledger_files,
    names_of,
    read_results,
    write_result_files,
)
from spark_reprocess.archive.messages.message_index import find_attempts
from spark_reprocess.errors import InputError
from spark_reprocess.redrive.redrive_values import RedriveOptions
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.send_task import ChunkSender, Item
from tests.support.builders import InlineExecutor, message, queue_url
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import CLOCKS, MemoryArchive, attempts_of, begin
from tests.support.processes import Died, die

OPTIONS = RedriveOptions("a", reason="it is fixed")
OPEN = "its claim has no result"

Chunks = Sequence[tuple[str, int, Sequence[Item]]]


@dataclass
class StoreAndQueue:
    """The store, the queue, and what they saw.

    Attributes:
        ever: the files, and those of them that were removed.
        states: of each message that was claimed: ``OPEN``, or the outcome in its newest result.
        arrived: the ids of messages, in order.
        senders: of each of them, the run that sent it.
        doubted: ids of messages that a run may send again.
        late: ids of messages that a run claimed while somebody closed it. If the claim is in the
            run's file they are in doubt.
        is_well: whether SQS confirms everything.
    """

    random: Random
    is_fifo: bool
    files: dict[str, bytes] = field(default_factory=dict)
    ever: dict[str, bytes] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    arrived: list[str] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    now: float = 1_700_000_000.0
    is_well: bool = False

    def create(self, path: str, content: bytes, most: float) -> bool:
        if path in self.files:
            return False
        self.files[path] = content
        self.ever.setdefault(path, content)
        if not path.endswith(".claim.json"):
            return True
        claim = json.loads(content)
        ids = claim["message_ids"]
        # Those that share the last one's place go, too.
        assert sum(place_of(one) != place_of(ids[-1]) for one in ids) < most
        # A closed run sends nothing of what it claims, and may claim what another one has sent.
        if self.is_closing(claim["run_id"]):
            self.late.update(ids)
            return True
        for one in ids:
            is_free = self.states.get(one) in (None, Disposition.FAILED) or one in self.doubted
            assert is_free, f"{one} is claimed twice"
            self.states[one] = OPEN
        return True

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content
        if self.ever.setdefault(path, content) is not content:
            return
        for result in map(json.loads, content.splitlines()):
            self.states[result["message_id"]] = result["outcome"]

    def is_closing(self, run_id: str) -> bool:
        return run_path("p-1", run_id, CLOSING) in self.files

    def send(self, entry: SendEntry, run_id: str) -> SendResult:
        lost, refused = InDoubt("lost"), Refused("InvalidMessageContents")
        answers: list[SendResult] = [Confirmed("copy"), refused, NotSent(), lost]
        weights = [1, 0, 0, 0] if self.is_well else [16, 2, 1, 1]
        [answer] = self.random.choices(answers, weights)
        is_here = isinstance(answer, InDoubt) and self.random.random() < 0.5
        if is_here or isinstance(answer, Confirmed):
            self.arrived.append(entry.body)
            self.senders.append(run_id)
        return answer


@dataclass
class Run:
    """A run in a thread of its own. It is the archive of its ledger and its queue, too.

    Attributes:
        act: what it does instead of sending; None to send *chunks*.
        until: when its calls must have begun, by its clock.
        ahead: by how many seconds its clock is ahead.
        in_doubt: see ``ResendOptions``.
    """

    world: StoreAndQueue
    name: str
    chunks: Chunks = ()
    act: Callable[[Any], object] | None = None
    root: str = "memory"
    is_over: bool = False
    is_killed: bool = False
    error: BaseException | None = None
    most: float = 0
    thread: Thread | None = None
    until: float = math.inf
    ahead: float = 0
    in_doubt: str = "leave"
    go: Semaphore = field(default_factory=lambda: Semaphore(0))
    has_paused: Semaphore = field(default_factory=lambda: Semaphore(0))

    def now(self) -> float:
        return self.world.now + self.ahead

    @property
    def url(self) -> str:
        return queue_url("main.fifo" if self.world.is_fifo else "main")

    def start(self) -> "Run":
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def step(self) -> None:
        """Let it go on to its next pause."""
        self.go.release()
        self.has_paused.acquire()
        if self.error:
            raise self.error

    def _run(self) -> None:
        self.go.acquire()
        try:
            self._act()
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.error = error
        self.is_over = True
        self.has_paused.release()

    def _act(self) -> None:
        archive: Any = self
        if self.act:
            self.act(archive)
            return
        with suppress(InputError):
            begin(archive, "p-1", self.name, seconds=self.now())
            self._settle(archive)

    def _settle(self, archive: Any) -> None:
        options = replace(OPTIONS, in_doubt=self.in_doubt)
        context = RunContext(options, "p-1", self.url, run_id=self.name, who="me")
        sender = ChunkSender(
            queue_until=self._queue_until,
            claim_messages=self._claim_messages,
            executor=InlineExecutor(),
            ledger=Ledger(archive, "p-1"),
            context=context,
            signals=FakeSignals(),
            now_seconds=self.now,
        )
        list(sender.settle_all(self.chunks))

    def _queue_until(self, until: float) -> "Run":
        self.until = until
        return self

    def _claim_messages(self) -> float:
        self.most = self.world.random.choice([1, 2, 3, 5, math.inf])
        return self.most

    def _pause(self) -> None:
        if current_thread() is not self.thread:
            return
        self.has_paused.release()
        self.go.acquire()
        if self.is_killed:
            die()

    def read(self, path: str) -> bytes | None:
        self._pause()
        return self.world.files.get(path)

    def open(self, path: str) -> BinaryIO | None:
        content = self.read(path)
        return None if content is None else BytesIO(content)

    def create(self, path: str, content: bytes) -> bool:
        self._pause()
        is_first = self.world.create(path, content, self.most)
        self._pause()
        return is_first

    def write(self, path: str, content: bytes) -> None:
        self._pause()
        self.world.write(path, content)
        self._pause()

    def list(self, folder: str) -> "list[str]":
        self._pause()
        return sorted(path for path in self.world.files if path.startswith(f"{folder}/"))

    def discard(self, path: str) -> None:
        self.world.files.pop(path, None)

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        self._pause()
        is_late = self.now() >= self.until
        results = [NotSent() if is_late else self.world.send(entry, self.name) for entry in entries]
        self._pause()
        return results


def chunks_of(random: Random) -> Chunks:
    """Two chunks of a unit. Some messages share a place."""
    places = random.choice([2, 8, PLACES])
    return [
        ("u", chunk, [item_of(random, chunk, *one) for one in enumerate(sorted(of_chunk))])
        for chunk, of_chunk in (
            (chunk, random.choices(range(places), k=random.randint(1, 8))) for chunk in (1, 2)
        )
    ]


def place_of(message_id: str) -> str:
    return message_id.rpartition("-")[0]


def item_of(random: Random, chunk: int, number: int, place: int) -> Item:
    message_id = f"{chunk}-{place:05d}-{number}"
    source = message(message_id, message_id, MessageGroupId=random.choice("abc"))
    return Item("g-1", place, Disposition.SEND, source)


def some(random: Random, chunks: Chunks) -> Chunks:
    """What the condition of one run takes, or an erasure leaves."""
    return [(unit, n, [one for one in items if random.random() < 0.8]) for unit, n, items in chunks]


def closers(world: StoreAndQueue, number: int) -> list[Run]:
    """What the holders of the plan lock do beside sending, each of which may be killed, too."""
    now = world.now + world.random.choice(CLOCKS)
    oldest, run = timestamp(now - 1), ("p-1", "nobody")

    def close(archive: Any) -> None:
        close_open_runs(archive)
        write_result_files(archive, run)

    acts: list[Callable[[Any], object]] = [
        close,
        lambda archive: clear_plans(archive, oldest),
    ]
    return [Run(world, f"closer-{number}", act=world.random.choice(acts)).start()]


def check_readers(world: StoreAndQueue) -> None:
    """Readers say what all claims say, but those that a closed run made too late to send."""
    archive, ever = MemoryArchive(), MemoryArchive()
    archive.files.update(world.files)
    ever.files.update(world.ever)
    paths, _ = ledger_files(archive)
    in_files = {name for names in read_results(archive, paths, names_of) for name in names}
    said = {
        one.name: one
        for one in attempts_of(ever)
        if run_path("p-1", one.claim.run_id, RESULTS) not in paths or one.name in in_files
    }
    ids = {message_id for one in said.values() for message_id in one.claim.message_ids}
    assert {one.name: one for one in find_attempts(archive, ids)} == said
    now = world.now + world.random.choice(CLOCKS)
    entries = entries_of(said.values(), now)
    rows = strongest(claimed_table(archive, now), "message_id").to_pylist()
    assert {row["message_id"]: row["state"] for row in rows} == {
        message_id: entry.state for message_id, entry in entries.items()
    }
    claimed = {(one.claim.run_id, i) for one in said.values() for i in one.claim.message_ids}
    assert set(zip(world.senders, world.arrived, strict=True)) <= claimed


@settings(max_examples=300)
@given(st.integers(), st.booleans(), st.booleans())
def test_no_message_is_claimed_twice_and_each_is_claimed_in_the_end(
    seed: int, is_fifo: bool, has_closers: bool
) -> None:
    random = Random(seed)
    world, chunks, kills = StoreAndQueue(random, is_fifo), chunks_of(random), 0
    groups = {i.message_id: i.message.message_group_id for _, _, items in chunks for i in items}
    asleep: list[Run] = []
    for wave in range(random.randint(1, 4)):
        # An erase and a run exclude each other.
        chunks = some(random, chunks) if wave and not asleep else chunks
        runs = [
            Run(
                world,
                f"{wave}-{n}",
                chunks if is_fifo else some(random, chunks),
                ahead=random.choice(CLOCKS),
            ).start()
            for n in range(random.randint(1, 3))
        ]
        runs += [*asleep, *(closers(world, wave) if has_closers else ())]
        asleep = []
        while active := [run for run in runs if not run.is_over]:
            run = random.choice(active)
            if has_closers and random.random() < 0.02:
                asleep.append(run)
                runs.remove(run)
                continue
            run.is_killed = random.random() < 0.02
            kills += run.is_killed
            run.step()
        check_readers(world)
        # The next runs find claims without a result busy, or expired.
        world.now += random.choice([0, OPTIONS.claim_ttl_seconds])
    world.now += 100 * 86_400
    world.is_well = True
    # What slept wakes between two runs of which one sends the rest, and the other what it left.
    for run in (Run(world, "rest", chunks).start(), *asleep, Run(world, "last", chunks).start()):
        while not run.is_over:
            run.step()
    check_readers(world)

    assert len(world.arrived) == len(set(world.arrived))
    claims = [path for path in world.files if path.endswith(".claim.json")]
    without = [p for p in claims if p.replace("claim.json", "result.jsonl") not in world.files]
    assert len(without) <= kills
    items = [item for _, _, of_chunk in chunks for item in of_chunk]
    blocked = set[str | None]()
    is_sealed = f"{RUNS}/p-1/{SEALED}" in world.files
    for item in items:
        state = world.states.get(item.message_id)
        group = item.message.message_group_id if is_fifo else item.message_id
        # Behind a message in doubt the others of its message group wait for a person. A sealed plan
        # is not carried out again.
        is_settled = state in ("sent", OPEN, "in_doubt") or item.message_id in world.late
        assert is_settled or group in blocked or is_sealed
        blocked |= {group} if state != "sent" else set()
    arrived = list(world.arrived)
    doubted = {one for one, state in world.states.items() if state in (OPEN, "in_doubt")}
    # It shares the lock with no run, so all others have ended.
    world.doubted = doubted
    again = Run(world, "again", chunks, ahead=random.choice(CLOCKS), in_doubt="send").start()
    while not again.is_over:
        again.step()
    check_readers(world)
    in_chunks = {item.message_id for item in items}
    assert is_sealed or all(world.states[one] == "sent" for one in in_chunks)
    twice = Counter(world.arrived) - Counter(set(world.arrived))
    assert twice <= Counter(doubted)
    for group in "abc" if is_fifo else "":
        in_group = [message_id for message_id in arrived if groups[message_id] == group]
        assert in_group == sorted(in_group)
