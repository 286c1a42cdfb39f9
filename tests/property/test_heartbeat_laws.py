"""A message that a heartbeat calls safe is safe in the model of SQS, whatever goes wrong."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_replay.errors import VisibilityLostError
from local_sqs.faults import Effect, Fault
from tests.simulation.beating import EXTEND, Work

MESSAGES = 3

faults = st.builds(
    Fault,
    st.sampled_from(
        [
            Effect.THROTTLE,
            Effect.ERROR,
            Effect.CLOSE,
            Effect.LOSE,
            Effect.HANG,
            Effect.DELAY,
            Effect.FAIL_ENTRIES,
        ]
    ),
    operation=st.just(EXTEND),
    nth=st.integers(1, 12),
    after=st.booleans(),
    entries=st.sampled_from([(), (0,), (1, 2)]),
    seconds=st.sampled_from([0.5, 5.0, 31.0, 61.0, 121.0, 500.0]),
)
configs = st.fixed_dictionaries(
    {
        "timeout_seconds": st.sampled_from([120, 30, 600]),
        "received_timeout_seconds": st.sampled_from([5, 30]),
    }
)
moves = st.lists(
    st.tuples(st.sampled_from(["work", "suspend", "done"]), st.integers(1, 300)), max_size=6
)
peaceful_moves = st.lists(
    st.tuples(st.sampled_from(["work", "done"]), st.integers(1, 400)), max_size=6
)


class Scene:
    """A heartbeat over the messages of a queue, and a rival who takes what it can get."""

    def __init__(self, config: dict[str, int], rules: list[Fault]) -> None:
        self.work = Work(MESSAGES, VisibilityTimeout=config["received_timeout_seconds"])
        self.work.front.faults.add(*rules)
        self.taken: set[str] = set()
        self.done: set[str] = set()
        self.beat = self.work.beat(**config)

    def is_safe(self, message_id: str) -> bool:
        try:
            self.beat.check(message_id)
        except VisibilityLostError:
            return False
        return message_id not in self.done

    def look(self) -> None:
        """No message that is called safe may be received by anyone else."""
        safe = {message_id for message_id in self.work.ids if self.is_safe(message_id)}
        received = {message["MessageId"] for message in self.work.queue.receive()}
        self.taken |= received
        assert not safe & received

    def run(self, plan: list[tuple[str, int]]) -> None:
        with self.beat:
            for move, seconds in plan:
                if move == "suspend":
                    self.work.clock.advance(seconds)
                    self.look()
                elif move == "done":
                    message_id = self.work.ids[seconds % MESSAGES]
                    self.done.add(message_id)
                    self.beat.done(message_id)
                else:
                    self.work.pass_time(self.beat, seconds, self.look)


@given(configs, st.lists(faults, max_size=6), moves)
def test_safe_message_is_never_received_by_another(
    config: dict[str, int], rules: list[Fault], plan: list[tuple[str, int]]
) -> None:
    Scene(config, rules).run(plan)


@given(configs, peaceful_moves)
@settings(max_examples=30)
def test_nothing_is_shown_while_sqs_answers_be_it_done_or_not(
    config: dict[str, int], plan: list[tuple[str, int]]
) -> None:
    scene = Scene(config, [])
    scene.run(plan)

    assert not scene.taken
