"""A run on AWS Glue, in the process of a test."""

import signal
from collections.abc import Callable, Sequence

import pytest

from dlq.aws.actor import JOB_RUN_ID
from dlq.cli.verb import PLACE_WORDS, STACK, TYPED
from spark_reprocess import glue_job


def run_on_glue(words: Sequence[str], main: Callable[[Sequence[str]], int]) -> None:
    """Run the script of the job with Glue's arguments *words*.

    On Glue it has a process of its own. What it changes in this one is changed back.
    """
    handler = signal.getsignal(signal.SIGINT)
    stack = STACK.set(None)
    typed = TYPED.set(())
    place = PLACE_WORDS.set(())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JOB_RUN_ID, "")
        try:
            glue_job.run(words, main)
        finally:
            signal.signal(signal.SIGINT, handler)
            STACK.reset(stack)
            TYPED.reset(typed)
            PLACE_WORDS.reset(place)
