"""Which engine a verb of ``dlq`` runs on.

Up to ``LOCAL_MESSAGES`` messages and ``LOCAL_BYTES`` of bodies it works on this machine, without
Java. Above it uses Spark, where that is installed. The Spark job always does.
"""

from collections.abc import Callable
from importlib.util import find_spec

from dlq.cli.terminal import print_error
from dlq.cli.verb import ENGINE, LOCAL, SPARK_INSTALL, job
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.figures import counted
from dlq.inspect.sizes import Size

LOCAL_MESSAGES = 10_000
LOCAL_BYTES = 256 * 1024 * 1024

_WAYS = "add --engine local to do it here all the same"


def engine_for(verb: str, size: Callable[[], Size]) -> Engine:
    """Return the engine for *verb*, started.

    Args:
        verb: its name, for errors.
        size: returns what the verb will read at most. It is asked only if nobody chose the engine.

    Raises:
        InputError: Spark is needed, and is not installed or does not start. Nothing was done.
    """
    chosen = ENGINE.get()
    if chosen is None:
        what = size()
        if what.messages <= LOCAL_MESSAGES and what.body_bytes <= LOCAL_BYTES:
            return local_engine()
        why = f"{verb} reads {counted(what.messages, 'message')}"
        if what.messages <= LOCAL_MESSAGES:
            why = f"{verb} reads {what.body_bytes // 1024**2:,} MiB of bodies"
        most = f"at most {LOCAL_MESSAGES:,} messages and {LOCAL_BYTES // 1024**2} MiB are read here"
        if not _is_spark_installed():
            raise InputError(
                f"{why}, and {most} by default; nothing was done: {_WAYS}, or install Spark with "
                f"{SPARK_INSTALL}, and Java 17 or later"
            )
        print_error(f"{why}: on Spark, because {most} by default; --engine local does it here")
    if chosen == LOCAL:
        return local_engine()
    if not _is_spark_installed():
        raise InputError(
            f"{verb} needs Spark: {SPARK_INSTALL}, and Java 17 or later; "
            "with --on-glue the stack's AWS Glue job runs it"
        )
    engine: Engine = job().start()
    return engine


def local_engine() -> Engine:
    """Return the engine of this machine."""
    # DuckDB takes a tenth of a second to load.
    from dlq.local_engine import LocalEngine

    return LocalEngine()


def streaming_engine(verb: str) -> Engine:
    """Return the engine for a verb that holds no body, however many messages there are."""
    return engine_for(verb, lambda: Size(0, 0))


def _is_spark_installed() -> bool:
    return find_spec("pyspark") is not None
