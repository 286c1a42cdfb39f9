"""Chooses the engine for a verb of ``dlq``.

Up to ``LOCAL_MESSAGES`` messages and ``LOCAL_BYTES`` of bodies a verb works on this machine,
without Java. Above that it uses Spark, if it is installed. The Spark job always uses Spark.
"""

from collections.abc import Callable
from importlib.util import find_spec

from dlq.cli.terminal import print_notice
from dlq.cli.verb import ENGINE, LOCAL, SPARK, SPARK_INSTALL, job
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.figures import counted
from dlq.inspect.sizes import Size

LOCAL_MESSAGES = 10_000
LOCAL_BYTES = 256 * 1024 * 1024

_MIB = 1024 * 1024


def engine_for(verb: str, size: Callable[[], Size]) -> Engine:
    """Return the engine for *verb*, started.

    Args:
        verb: its name, for errors.
        size: returns what the verb will read at most. It is asked only if nobody chose the engine.

    Raises:
        InputError: Spark is needed, and is not installed or does not start. Nothing was done.
    """
    chosen = ENGINE.get()
    excess = ""
    if chosen is None:
        excess = _excess(verb, size())
        chosen = SPARK if excess else LOCAL

    if chosen == LOCAL:
        # DuckDB takes a tenth of a second to load.
        from dlq.local_engine import LocalEngine

        return LocalEngine()

    if not _is_spark_installed():
        raise InputError(_without_spark(verb, excess))
    if excess:
        print_notice(f"{excess}; so Spark does it, and --engine local would do it here")
    engine: Engine = job().start()
    return engine


def _excess(verb: str, size: Size) -> str:
    """Return what is too much for this machine by default; an empty text if nothing is."""
    if size.messages > LOCAL_MESSAGES:
        return (
            f"{verb} reads {counted(size.messages, 'message')}, "
            f"and by default this machine reads {LOCAL_MESSAGES:,}"
        )
    if size.body_bytes > LOCAL_BYTES:
        return (
            f"{verb} reads {size.body_bytes // _MIB:,} MiB of bodies, "
            f"and by default this machine reads {LOCAL_BYTES // _MIB}"
        )
    return ""


def _without_spark(verb: str, excess: str) -> str:
    """Return the error for a verb that needs Spark, which is not installed: how to go on."""
    install = f"{SPARK_INSTALL}, and Java 17 or later"
    if excess:
        return (
            f"{excess}; nothing was done: add --engine local to do it here all the same, or "
            f"install Spark with {install}"
        )
    return f"{verb} needs Spark: {install}; with --on-glue the stack's AWS Glue job runs it"


def engine_without_bodies(verb: str) -> Engine:
    """Return the engine for a verb that holds no body, however many messages there are."""
    return engine_for(verb, lambda: Size(0, 0))


def _is_spark_installed() -> bool:
    return find_spec("pyspark") is not None
