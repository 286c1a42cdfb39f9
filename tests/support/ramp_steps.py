"""Steps of a ramp."""

from dlq.redrive.ramping.step_records import Step


def a_step(
    number: int,
    group_id: str,
    messages: int = 1,
    sent_at: float | None = 9.0,
    began_at: float = 5.0,
    **of_group: int,
) -> Step:
    """Make a step of one group; *of_group* are ``before``, ``halts``, ``proven``, ``left``."""
    numbers = {"before": 0, "halts": 0, "proven": 0, "left": 99, **of_group}
    return Step(
        number=number,
        run_id="run-1",
        began_at=began_at,
        messages={group_id: messages},
        returned_before={group_id: numbers["before"]},
        halts={group_id: numbers["halts"]},
        proven={group_id: numbers["proven"]},
        left={group_id: numbers["left"]},
        sent_at=sent_at,
    )
