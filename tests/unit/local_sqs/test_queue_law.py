"""Any history of a queue, against a list that is searched from end to end."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local_sqs.clock import VirtualClock
from local_sqs.errors import SqsError
from local_sqs.messages import State, StoredMessage
from local_sqs.model import SqsModel

RETENTION_SECONDS = 60


@dataclass
class Expected:
    """One message of the list.

    Attributes:
        visible_ms: from when it can be received.
    """

    message_id: str
    group: str
    sent_ms: int
    visible_ms: int
    is_in_flight: bool = False
    handle: str = ""


class QueueLaw(RuleBasedStateMachine):
    is_fifo = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        attributes = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
        name = "q"
        if self.is_fifo:
            name, attributes["FifoQueue"] = "q.fifo", "true"
        self.queue = SqsModel(self.clock, seed=1).create_queue(name, attributes)
        self.expected: list[Expected] = []
        self.handles: list[str] = []
        self.count_sent = 0

    @rule(group=st.sampled_from("abc"), delay=st.sampled_from([0, 0, 3]))
    def send(self, group: str, delay: int) -> None:
        delay = 0 if self.is_fifo else delay
        self.count_sent += 1
        key = str(self.count_sent) if self.is_fifo else None
        accepted = self.queue.send(StoredMessage("x", {}, group, key, delay_seconds=delay))
        now_ms = self.clock.now_ms()
        visible_ms = now_ms + delay * 1000
        self.expected.append(Expected(accepted.message_id, group, now_ms, visible_ms))

    @rule(limit=st.integers(1, 4), timeout=st.sampled_from([0, 2, 5, 40]))
    def receive(self, limit: int, timeout: int) -> None:
        offered = [m.message_id for m in self._offered()]
        received = self.queue.receive(limit, timeout)
        ids = [m.message_id for m in received]

        assert len(ids) == len(set(ids)) == min(limit, len(offered))
        assert set(ids) <= set(offered)
        for message in received:
            mine = self._find(message.message_id)
            before = [m.message_id for m in self._offered() if m.group == mine.group]
            if self.is_fifo:
                of_group = [i for i in ids if self._find(i).group == mine.group]
                assert before[: len(of_group)] == of_group
        for message in received:
            mine = self._find(message.message_id)
            mine.is_in_flight = timeout > 0
            mine.visible_ms = self.clock.now_ms() + timeout * 1000
            mine.handle = message.handle
            self.handles.append(message.handle)

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(self.handles))
        held = [m for m in self.expected if m.handle == handle]
        if self.is_fifo and not (held and held[0].is_in_flight):
            self._delete_in_vain(handle)
        else:
            self.queue.delete(handle)
            self.expected = [m for m in self.expected if m.handle != handle]

    def _delete_in_vain(self, handle: str) -> None:
        """Refused, or without effect where the message is gone."""
        try:
            self.queue.delete(handle)
        except SqsError as error:
            assert "expired" in error.message  # noqa: PT017 - either outcome is right

    @precondition(lambda self: any(m.is_in_flight for m in self.expected))
    @rule(data=st.data(), seconds=st.sampled_from([0, 1, 4]))
    def change_visibility(self, data: st.DataObject, seconds: int) -> None:
        mine = data.draw(st.sampled_from([m for m in self.expected if m.is_in_flight]))
        self.queue.change_visibility(mine.handle, seconds)
        mine.is_in_flight = seconds > 0
        mine.visible_ms = self.clock.now_ms() + seconds * 1000

    @rule(seconds=st.sampled_from([1, 2, 10]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        now_ms = self.clock.now_ms()
        kept_from_ms = now_ms - RETENTION_SECONDS * 1000
        self.expected = [m for m in self.expected if m.sent_ms > kept_from_ms]
        for message in self.expected:
            message.is_in_flight = message.is_in_flight and message.visible_ms > now_ms

    def _find(self, message_id: str) -> Expected:
        return next(m for m in self.expected if m.message_id == message_id)

    def _offered(self) -> list[Expected]:
        now_ms = self.clock.now_ms()
        locked = {m.group for m in self.expected if m.is_in_flight and self.is_fifo}
        return [m for m in self.expected if m.visible_ms <= now_ms and m.group not in locked]

    @invariant()
    def counts_add_up(self) -> None:
        now_ms = self.clock.now_ms()
        in_flight = sum(m.is_in_flight for m in self.expected)
        ready = sum(m.visible_ms <= now_ms for m in self.expected)
        waiting = [m.visible_ms for m in self.expected if m.visible_ms > now_ms]

        assert self.queue.count(State.IN_FLIGHT) == in_flight
        assert self.queue.count(State.READY) == ready
        assert len(self.queue.messages()) == len(self.expected)
        assert self.queue.next_event_ms() == min(waiting, default=None)


class FifoLaw(QueueLaw):
    is_fifo = True


TestStandardQueue = QueueLaw.TestCase
TestFifoQueue = FifoLaw.TestCase
TestStandardQueue.settings = TestFifoQueue.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)


def test_due_times_of_deleted_messages_do_not_pile_up() -> None:
    queue = SqsModel().create_queue("q")
    for _ in range(1000):
        queue.send(StoredMessage("x"))
        (message,) = queue.receive(1)
        queue.delete(message.handle)

    assert len(queue._timers._heap) + len(queue._expiries._heap) < 300  # noqa: SLF001 - the size is the point
