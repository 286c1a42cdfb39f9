"""The laws of claims: runs with any rates, killed at any step, over a store of conditional creates.

Drivers and tasks are threads that pause before and after each call to the store and to SQS. Chance
says which one goes on, which one is killed there, which one sleeps there until others have taken
the lock, closed its run, sealed its plan or removed its claims. No driver renews its lock, so each
one that waits takes it from one that is at work. The clock of each machine may be days off.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from threading import Semaphore, Thread, current_thread
from typing import Any, BinaryIO

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlq.archive.ledger.claims import (
    CLOSING,
    RESULTS,
    RUNS,
    SEALED,
    AttemptName,
    Ledger,
    run_path,
    timestamp,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import states_of, strongest
from dlq.archive.ledger.open_set import claimed_table
from dlq.archive.ledger.run_results import (
    clear_plans,
    ledger_files,
    names_of,
    read_results,
    write_result_files,
)
from dlq.archive.lock import (
    LockClock,
    LockHolder,
    LockUse,
    archive_lock,
    require_newest,
)
from dlq.archive.messages.message_index import find_attempts
from dlq.errors import ArchiveError, InputError
from dlq.redrive.request import RedriveRequest
from dlq.redrive.sending.send_task import ChunkSender, OutgoingMessage
from dlq.redrive.sending.task_context import TaskContext
from dlq_replay.replaying.sending import Confirmed, NotSent, Refused, SendResult, Unconfirmed
from dlq_replay.wire.message import SendEntry
from tests.support.builders import InlineExecutor, message, queue_url
from tests.support.claim_runs import Chunks, resolved
from tests.support.fake_limits import FakeSignals
from tests.support.ledgers import CLOCKS, MemoryArchive, attempts_of, begin
from tests.support.processes import Died, die

OPTIONS = RedriveRequest(reason="it is fixed")
OPEN = "its claim has no result"
PLAN = "p-1"


@dataclass
class StoreAndQueue:
    """The store, the queue, and what they saw.

    Attributes:
        ever: the files, and those of them that were removed.
        states: of each message that was claimed: ``OPEN``, or the outcome in its newest result.
        arrived: the ids of messages, in order.
        senders: of each of them, the run that sent it.
        doubted: ids of messages that a run may send again.
        late: ids of messages that a run claimed after somebody closed it. If the claim is in the
            run's file they are unconfirmed.
        threads: all that were started.
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
    late_claims: set[str] = field(default_factory=set)
    threads: "list[Actor]" = field(default_factory=list)
    now: float = 1_700_000_000.0
    is_well: bool = False

    def create(self, path: str, content: bytes, most: float) -> bool:
        if path in self.files:
            return False
        self.files[path] = content
        self.ever.setdefault(path, content)
        if not path.endswith(".claim.json"):
            return True
        ids = json.loads(content)["message_ids"]
        assert len(ids) <= most
        # A closed run sends nothing of what it claims, and may claim what another one has sent.
        if run_path(PLAN, path.split("/")[3], CLOSING) in self.files:
            self.late.update(ids)
            self.late_claims.add(path.removesuffix(".claim.json"))
            return True
        for message_id in ids:
            has_failed = self.states.get(message_id) in (None, Disposition.FAILED)
            assert has_failed or message_id in self.doubted, f"{message_id} is claimed twice"
            self.states[message_id] = OPEN
        return True

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content
        is_result = path.endswith(".result.jsonl")
        if self.ever.setdefault(path, content) is not content or not is_result:
            return
        results = [*map(json.loads, content.splitlines())]
        if path.removesuffix(".result.jsonl") in self.late_claims:
            assert {result["detail"] for result in results} == {Disposition.NOT_REACHED}
            return
        for result in results:
            self.states[result["message_id"]] = result["outcome"]

    def send(self, entry: SendEntry, run_id: str) -> SendResult:
        answers: list[SendResult] = [
            Confirmed("copy"),
            Refused("InvalidMessageContents"),
            NotSent(),
            Unconfirmed("lost"),
        ]
        weights = [1, 0, 0, 0] if self.is_well else [16, 2, 1, 1]
        [answer] = self.random.choices(answers, weights)

        has_arrived = isinstance(answer, Unconfirmed) and self.random.random() < 0.5
        if has_arrived or isinstance(answer, Confirmed):
            self.arrived.append(entry.body)
            self.senders.append(run_id)
        return answer

    def start(self, name: str, act: "Callable[[Actor], object]", ahead: float = 0) -> "Actor":
        actor = Actor(self, name, act, ahead=ahead)
        self.threads.append(actor)
        return actor.start()


@dataclass
class Actor:
    """A driver, a task, or whoever expires plans, in a thread. It is its own archive and queue.

    Attributes:
        name: the id of its run.
        ahead: by how many seconds its clock is ahead.
    """

    world: StoreAndQueue
    name: str
    act: "Callable[[Actor], object]"
    root: str = "memory"
    is_over: bool = False
    is_killed: bool = False
    error: BaseException | None = None
    most: float = 0
    thread: Thread | None = None
    ahead: float = 0
    go: Semaphore = field(default_factory=lambda: Semaphore(0))
    has_paused: Semaphore = field(default_factory=lambda: Semaphore(0))

    def now(self) -> float:
        return self.world.now + self.ahead

    def start(self) -> "Actor":
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
            self.act(self)
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.error = error
        self.is_over = True
        self.has_paused.release()

    def settle(self, chunks: Chunks) -> None:
        """Send as a task of its run."""
        archive: Any = self
        context = TaskContext(OPTIONS, PLAN, url_of(self.world), run_id=self.name, who="me")
        sender = ChunkSender(
            queue_until=lambda _: archive,
            claim_messages=self._claim_messages,
            executor=InlineExecutor(),
            ledger=Ledger(archive, PLAN, self.name),
            context=context,
            signals=FakeSignals(),
            now_seconds=self.now,
        )
        list(sender.settle_all(chunks))

    @property
    def url(self) -> str:
        return url_of(self.world)

    def _claim_messages(self) -> float:
        self.most = self.world.random.choice([1, 2, 3, 5, math.inf])
        return self.most

    def pause(self) -> None:
        if current_thread() is not self.thread:
            return
        self.has_paused.release()
        self.go.acquire()
        if self.is_killed:
            die()

    def sleep(self, seconds: float) -> None:
        self.pause()
        self.world.now += seconds

    def read(self, path: str) -> bytes | None:
        self.pause()
        return self.world.files.get(path)

    def open(self, path: str) -> BinaryIO | None:
        content = self.read(path)
        return None if content is None else BytesIO(content)

    def create(self, path: str, content: bytes) -> bool:
        self.pause()
        is_first = self.world.create(path, content, self.most)
        self.pause()
        return is_first

    def write(self, path: str, content: bytes) -> None:
        self.pause()
        self.world.write(path, content)
        self.pause()

    def list(self, folder: str) -> "list[str]":
        self.pause()
        return sorted(path for path in self.world.files if path.startswith(f"{folder}/"))

    def discard(self, path: str) -> None:
        self.world.files.pop(path, None)

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        self.pause()
        results = [self.world.send(entry, self.name) for entry in entries]
        self.pause()
        return results


def url_of(world: StoreAndQueue) -> str:
    return queue_url("main.fifo" if world.is_fifo else "main")


@dataclass(frozen=True)
class Driver:
    """A run: it takes the lock, resolves, lets some tasks send, and writes its result file.

    Attributes:
        unconfirmed: see ``SendRequest``.
        tasks: Spark may start a task twice, or again.
    """

    chunks: Chunks
    unconfirmed: str = "leave"
    tasks: int = 1

    def __call__(self, actor: Actor) -> None:
        archive: Any = actor
        clock = LockClock(lambda: actor.world.now, actor.sleep, actor.now)
        holder = LockHolder(actor.name, LockUse.SEND, "plan p-1", "me")
        with (
            suppress(InputError, ArchiveError),
            archive_lock(archive, holder, clock=clock) as lock,
        ):
            rows = strongest(claimed_table(archive), "message_id").to_pylist()
            states = {row["message_id"]: row["state"] for row in rows}
            begin(archive, PLAN, actor.name, seconds=actor.now())
            require_newest(archive, lock.view)
            # A run that has lost the lock may see what another one claims, and does not come here.
            assert Disposition.IN_PROGRESS not in states.values()

            chunks = resolved(self.chunks, states, self.unconfirmed, is_fifo=actor.world.is_fifo)

            def send(task: Actor) -> None:
                task.settle(chunks)

            tasks = [actor.world.start(actor.name, send, actor.ahead) for _ in range(self.tasks)]
            while not all(task.is_over for task in tasks):
                actor.pause()
            write_result_files(archive, (PLAN, actor.name))


def expire(actor: Actor) -> None:
    """Seal the plan and remove its claims, as an erase by age does, which holds the lock."""
    archive: Any = actor
    clock = LockClock(lambda: actor.world.now, actor.sleep, actor.now)
    with archive_lock(
        archive, LockHolder(actor.name, LockUse.ERASE, "an erase", "me"), clock=clock
    ):
        clear_plans(archive, timestamp(actor.now() + 100 * 86_400))


def chunks_of(random: Random) -> Chunks:
    """Two chunks of a unit."""
    chunks = []
    for chunk in (1, 2):
        messages = [outgoing_of(random, chunk, number) for number in range(random.randint(1, 8))]
        chunks.append(("u", chunk, messages))
    return chunks


def outgoing_of(random: Random, chunk: int, number: int) -> OutgoingMessage:
    message_id = f"{chunk}-{number}"
    source = message(message_id, message_id, MessageGroupId=random.choice("abc"))
    return OutgoingMessage("g-1", Disposition.SEND, source)


def part_of(random: Random, chunks: Chunks) -> Chunks:
    """The messages that the condition of one run takes, or that an erasure leaves."""
    chosen = []
    for unit, chunk, messages in chunks:
        some_messages = [message for message in messages if random.random() < 0.8]
        chosen.append((unit, chunk, some_messages))
    return chosen


def check_readers(world: StoreAndQueue) -> None:
    """Readers return what all claims say, except those that a closed run made too late to send."""
    archive = MemoryArchive()
    archive.files.update(world.files)
    ever = MemoryArchive()
    ever.files.update(world.ever)

    paths, _ = ledger_files(archive)
    in_files = set[AttemptName]()
    for names in read_results(archive, paths, names_of):
        in_files.update(names)
    attempts = {}
    for attempt in attempts_of(ever):
        if run_path(*attempt.name.run, RESULTS) not in paths or attempt.name in in_files:
            attempts[attempt.name] = attempt

    claimed = set()
    for attempt in attempts.values():
        for message_id in attempt.claim.message_ids:
            claimed.add((attempt.name.run_id, message_id))
    ids = {message_id for _, message_id in claimed}
    assert {attempt.name: attempt for attempt in find_attempts(archive, ids)} == attempts

    rows = strongest(claimed_table(archive), "message_id").to_pylist()
    states = {row["message_id"]: row["state"] for row in rows}
    assert states == states_of(attempts.values())
    assert set(zip(world.senders, world.arrived, strict=True)) <= claimed


def finish(world: StoreAndQueue, actors: Sequence[Actor]) -> None:
    """Let these go on, one after the other, and all that they start."""
    for actor in actors:
        while not actor.is_over:
            actor.step()
            for other in world.threads:
                if other.name == actor.name and not other.is_over and other is not actor:
                    other.step()


def run_waves(world: StoreAndQueue, chunks: Chunks, *, has_expiry: bool) -> tuple[int, list[Actor]]:
    """Start runs, a wave after the other, and let them go on until all are over or asleep.

    Return how many were killed, and those that sleep in the last wave.
    """
    random = world.random
    kills = 0
    asleep: list[Actor] = []
    for wave in range(random.randint(1, 4)):
        for number in range(random.randint(1, 2)):
            of_run = chunks if world.is_fifo else part_of(random, chunks)
            driver = Driver(of_run, tasks=random.randint(1, 3))
            world.start(f"{wave}-{number}", driver, random.choice(CLOCKS))
        if has_expiry and random.random() < 0.2:
            world.start(f"expiry-{wave}", expire)

        asleep = []
        while active := [a for a in world.threads if not a.is_over and a not in asleep]:
            actor = random.choice(active)
            if random.random() < 0.02:
                asleep.append(actor)
                continue
            actor.is_killed = random.random() < 0.01
            kills += actor.is_killed
            actor.step()
        check_readers(world)
    return kills, asleep


def check_settled(world: StoreAndQueue, messages: Sequence[OutgoingMessage]) -> None:
    """Each message was sent or is unconfirmed, unless one before it in its group was not sent.

    Behind an unconfirmed message the others of its message group wait for a person. A sealed plan
    is not carried out again.
    """
    is_sealed = f"{RUNS}/{PLAN}/{SEALED}" in world.files
    blocked = set[str | None]()
    for outgoing in messages:
        state = world.states.get(outgoing.message_id)
        group = outgoing.content.message_group_id if world.is_fifo else outgoing.message_id
        is_settled = state in ("sent", OPEN, "unconfirmed") or outgoing.message_id in world.late
        assert is_settled or group in blocked or is_sealed
        if state != "sent":
            blocked.add(group)


@settings(max_examples=300)
@given(st.integers(), st.booleans(), st.booleans())
# A run loses the lock before it has read what is claimed.
@example(9_438_468_815_373_932_108_447_744, False, True)  # noqa: FBT003 - as drawn
def test_no_message_is_claimed_twice_and_each_is_claimed_in_the_end(
    seed: int, is_fifo: bool, has_expiry: bool
) -> None:
    random = Random(seed)
    world = StoreAndQueue(random, is_fifo)
    chunks = chunks_of(random)
    messages = list[OutgoingMessage]()
    for _, _, messages_of_chunk in chunks:
        messages += messages_of_chunk

    kills, asleep = run_waves(world, chunks, has_expiry=has_expiry)
    world.is_well = True
    # The sleepers wake between two runs: one sends the rest, and the other what they left.
    finish(world, [world.start("rest", Driver(chunks))])
    finish(world, asleep)
    finish(world, [actor for actor in world.threads if not actor.is_over])
    finish(world, [world.start("last", Driver(chunks))])

    check_readers(world)
    check_settled(world, messages)
    arrived = list(world.arrived)
    assert len(arrived) == len(set(arrived))
    if is_fifo:
        check_groups(arrived, messages)
    claims = [path for path in world.files if path.endswith(".claim.json")]
    without = [p for p in claims if p.replace("claim.json", "result.jsonl") not in world.files]
    assert len(without) <= kills

    send_unconfirmed(world, chunks, random.choice(CLOCKS))
    check_readers(world)
    is_sealed = f"{RUNS}/{PLAN}/{SEALED}" in world.files
    assert is_sealed or all(world.states[message.message_id] == "sent" for message in messages)
    twice = Counter(world.arrived) - Counter(set(world.arrived))
    assert twice <= Counter(world.doubted)


def check_groups(arrived: Sequence[str], messages: Sequence[OutgoingMessage]) -> None:
    """The messages of each message group arrived in their order."""
    groups = {message.message_id: message.content.message_group_id for message in messages}
    for group in "abc":
        in_group = [message_id for message_id in arrived if groups[message_id] == group]
        assert in_group == sorted(in_group)


def send_unconfirmed(world: StoreAndQueue, chunks: Chunks, clock: float) -> None:
    """Send again what is pending or unconfirmed, which may then arrive twice."""
    for message_id, state in world.states.items():
        if state in (OPEN, "unconfirmed"):
            world.doubted.add(message_id)
    finish(world, [world.start("again", Driver(chunks, "send"), clock)])
