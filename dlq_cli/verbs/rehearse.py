"""``rehearse``: runs a consumer's code over the archived messages of a group."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dlq_cli.rehearse.endpoint import require_allowed
from dlq_cli.rehearse.forwarding import Forwarder
from dlq_cli.rehearse.rehearsal import RehearsalOptions, RehearsalResult, rehearse
from dlq_cli.rehearse.sandbox import Code
from dlq_cli.rehearse.stubs import Stub, read_stubs
from dlq_cli.rehearse.verdicts import junit, sentence
from dlq_cli.stack_values import read_stack
from spark_reprocess.analysis.mask import compile_masks
from spark_reprocess.archive.rehearsals import Verdict
from spark_reprocess.command_line.arguments import add_plan, positive_number, whole_number
from spark_reprocess.command_line.terminal import (
    print_answer,
    print_error,
    print_line,
    print_table,
)
from spark_reprocess.command_line.verb import (
    CHECK_FAILED,
    DONE,
    INTERRUPTED,
    Verb,
    progress_here,
    suggestion,
)
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from spark_reprocess.archive.dead_letter_schema import Row
    from spark_reprocess.editing.edit import AttributeChange, Edit

_ABOUT = """\
Runs your consumer's code over the archived messages of one group, and says of each message whether
a redrive would succeed with this code: pass, fail (and with what), or unknown. Nothing is sent to
any queue. Each message arrives as a redrive would deliver it: one message an event, edited if the
plan edits the group.

The code runs in a network namespace of its own, or in a container without a network (--image). It
reaches an AWS endpoint of ours alone. Writes are recorded and answered with an empty success. Reads
are answered from --stub files, or made with your credentials if --allow names them. A message whose
handler asks for anything else is unknown, whatever the handler makes of the error.

The verdicts go into the archive; redrive --rehearsed sends only what passed. Interrupted, rehearse
stores nothing. Needs no Spark, unless the plan has set_attributes. Exit code 1 if a message fails
or is unknown."""

_EXAMPLES = """\
examples:

  dlq rehearse --group g-53cb1ad25b --handler app:lambda_handler --path .aws-sam/build/Orders
  dlq rehearse --group g-53cb1ad25b --handler app.lambda_handler --image orders:fix

docs/rehearse.md explains stubs, and what a rehearsal cannot know."""

_SIGNS = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.UNKNOWN: "unknown"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--archive", metavar="PLACE", help="the archive (default: that of the stack)")
    add("--group", required=True, metavar="ID", help="the group: g-...")
    add("--handler", required=True, metavar="MODULE:FUNCTION", help="as your function has it")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--path",
        type=Path,
        metavar="DIR",
        help="the folder with the code and its packages (default: this folder)",
    )
    place.add_argument(
        "--image", metavar="IMAGE", help="a container image with the code, and with python3"
    )
    add(
        "--python",
        metavar="FILE",
        default=sys.executable,
        help="the interpreter for --path (default: that of dlq)",
    )
    add_plan(parser)
    add(
        "--main-queue-url",
        metavar="URL",
        help="the source queue of messages that name none (default: that of the stack)",
    )
    add(
        "--stub",
        dest="stub_files",
        action="append",
        default=[],
        metavar="FILE",
        help="answers to reads, in YAML or JSON; may be repeated",
    )
    add(
        "--allow",
        dest="allowed",
        action="append",
        default=[],
        metavar="SERVICE:OPERATION",
        help="make this read at AWS with your credentials; may be repeated",
    )
    add(
        "--env",
        dest="variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the handler; may be repeated",
    )
    add("--env-file", metavar="FILE", help="lines NAME=VALUE, for the handler")
    add(
        "--timeout-seconds",
        type=positive_number,
        default=30.0,
        metavar="S",
        help="the time-out of your function (default: 30)",
    )
    add(
        "--memory-mb",
        type=whole_number(128, 10_240),
        default=1024,
        metavar="MB",
        help="the memory of your function (default: %(default)s)",
    )
    add("--limit", type=whole_number(1), metavar="N", help="rehearse the first N messages alone")
    add("--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit XML")
    add("--log", type=Path, metavar="FILE", help="write what the handler prints, unmasked, to FILE")
    add(
        "--mask",
        dest="masks",
        action="append",
        default=[],
        metavar="REGEX",
        help="hide what a regular expression matches in failures; may be repeated",
    )
    add(
        "--allow-network",
        action="store_true",
        help="run without isolation: the code then reaches what it can reach",
    )


def _run(values: argparse.Namespace) -> int:
    masks = compile_masks(values.masks)
    options = _options(values)
    try:
        with ExitStack() as stack:
            log = _opened(stack, values.log)
            result = rehearse(
                options, Forwarder(values.session), _attribute_changes, masks, progress_here(), log
            )
    except KeyboardInterrupt:
        print_error("interrupted; no verdict was stored, run the same command again")
        return INTERRUPTED
    if values.junit:
        content = junit(result.verdicts, options.group, options.code.handler)
        _write(values.junit, content)
    print_answer(_fields(result), lambda: _print(options, result))
    passed = all(one.verdict is Verdict.PASS for one in result.verdicts)
    return DONE if passed else CHECK_FAILED


def _options(values: argparse.Namespace) -> RehearsalOptions:
    archive, main_queue_url = values.archive, values.main_queue_url
    if values.stack and not (archive and main_queue_url):
        of_stack = read_stack(values.session, values.stack)
        archive = archive or of_stack.archive
        main_queue_url = main_queue_url or of_stack.main_queue_url
    if not archive:
        raise InputError("--archive: is missing; give it, or --stack with the Spark job")
    folder = None if values.image else (values.path or Path()).absolute()
    if folder is not None and not folder.is_dir():
        raise InputError(f"--path {folder}: is no folder")
    if not values.handler.replace(":", ".").strip(".").count("."):
        raise InputError(f"--handler {values.handler}: write MODULE:FUNCTION, e.g. app:handler")
    if not os.access(values.python, os.X_OK):
        raise InputError(f"--python {values.python}: is no program")
    code = Code(
        handler=values.handler,
        folder=folder,
        image=values.image,
        python=str(Path(values.python).absolute()),
        environment=_environment(values.env_file, values.variables),
        region=values.session.region_name or "us-east-1",
        timeout_seconds=values.timeout_seconds,
        memory_mb=values.memory_mb,
        is_isolated=not values.allow_network,
    )
    return RehearsalOptions(
        archive=archive,
        plan=values.plan,
        group=values.group,
        main_queue_url=main_queue_url,
        code=code,
        stubs=[stub for name in values.stub_files for stub in _stubs(name)],
        allowed=[_allowed(name) for name in values.allowed],
        limit=values.limit,
    )


def _stubs(name: str) -> Sequence[Stub]:
    return read_stubs(_text(Path(name), "--stub"), name)


def _allowed(name: str) -> str:
    try:
        return require_allowed(name)
    except ValueError as error:
        raise InputError(f"--allow {error}") from error


def _environment(file: str | None, variables: Sequence[str]) -> dict[str, str]:
    """Read variables: those of the file first; an empty line or one with ``#`` is none."""
    lines = _text(Path(file), "--env-file").splitlines() if file else []
    wanted = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    found = {}
    for one in [*(line.removeprefix("export ") for line in wanted), *variables]:
        name, separator, value = one.partition("=")
        if not separator or not name.strip().isidentifier():
            # The value may be a secret.
            raise InputError(f"--env: {name!r}: write NAME=VALUE")
        found[name.strip()] = value
    return found


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{option} {path}: is no UTF-8 text") from error


def _opened(stack: ExitStack, path: Path | None) -> IO[bytes] | None:
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise InputError(f"--log {path}: {error.strerror or error}") from error
    return stack.enter_context(os.fdopen(descriptor, "wb"))


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        fault = error.strerror or error
        raise InputError(f"--junit {path}: {fault}; the verdicts are stored") from error


def _attribute_changes(
    rows: "Sequence[Mapping[str, Any]]", edit: "Edit"
) -> "Mapping[str, Sequence[AttributeChange]]":
    """Evaluate ``set_attributes`` in Spark.

    Raises:
        InputError: Spark is not installed.
    """
    try:
        from spark_reprocess.command_line.spark_session import start_spark  # noqa: PLC0415
        from spark_reprocess.redrive.edits import attribute_changes  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InputError(
            "the plan's set_attributes are Spark SQL, and Spark is not installed here: "
            "pip install 'sqs-dlq-replay[spark]', and Java 17 or later"
        ) from error
    archived: Sequence[Row] = [dict(row) for row in rows]
    return attribute_changes(start_spark(), archived, edit)


def _fields(result: RehearsalResult) -> dict[str, object]:
    return {
        **asdict(result.rehearsal),
        "missing_messages": result.missing_messages,
        "kinds": [asdict(kind) for kind in result.kinds],
    }


def _print(options: RehearsalOptions, result: RehearsalResult) -> None:
    rehearsal = result.rehearsal
    print_table(
        ("verdict", "messages", "why", "for example"),
        [
            (
                _SIGNS[kind.verdict],
                kind.count,
                f"{kind.reason}{' (a new kind)' if kind.is_new_kind else ''}",
                kind.examples[0],
            )
            for kind in result.kinds
        ],
    )
    print_line(sentence(result.kinds, rehearsal.recorded))
    if result.missing_messages:
        print_line(f"note: {result.missing_messages:,} messages of the group were erased since")
    if not rehearsal.is_isolated:
        print_line("note: the code was not isolated; what it reached, it reached for real")
    if rehearsal.counts[Verdict.PASS.value]:
        words = ("--plan", rehearsal.plan_id, "--group", rehearsal.group_id, "--rehearsed")
        print_line("next, a dry run that sends only what passed:")
        print_line(f"  {suggestion('redrive', options.archive, *words)}")


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run, _EXAMPLES)
