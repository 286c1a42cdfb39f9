"""Gets the messages of a run: invented, or read from the viewer's file."""

import random
from dataclasses import dataclass, replace

from demo.arguments import DEFAULT_MESSAGES, Options
from demo.errors import InputError
from demo.groups import in_groups
from demo.input_file import LineFault, parse_lines
from demo.workload import DemoMessage, from_input, invent

_FAULTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """Messages to send, and what the viewer should know about lines that are not among them."""

    messages: list[DemoMessage]
    remarks: list[str]


def load(options: Options) -> Loaded:
    """Make or read the messages; for FIFO queues, each with its group.

    Raises:
        InputError: the file cannot be read, or holds no message.
    """
    loaded = _load(options)
    return replace(loaded, messages=in_groups(loaded.messages)) if options.is_fifo else loaded


def _load(options: Options) -> Loaded:
    if options.input_path is None:
        count = options.messages or DEFAULT_MESSAGES
        return Loaded(invent(count, random.Random(options.seed)), [])
    try:
        lines = options.input_path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{options.input_path} cannot be read: {error.strerror}.") from None
    parsed = parse_lines(lines)
    taken = parsed.messages[: options.message_limit]
    messages, repeats = from_input(taken)
    remarks = _remarks([*parsed.faults, *repeats])
    if not messages:
        raise InputError("\n".join([*remarks, f"{options.input_path} holds no message to send."]))
    if len(taken) < len(parsed.messages):
        remarks.append(f"the first {len(taken)} of {len(parsed.messages)} messages are taken")
    return Loaded(messages, remarks)


def _remarks(faults: list[LineFault]) -> list[str]:
    ordered = sorted(faults, key=lambda fault: fault.line)
    remarks = [f"line {fault.line} is left out: {fault.rule}" for fault in ordered[:_FAULTS_SHOWN]]
    if len(faults) > _FAULTS_SHOWN:
        remarks.append(f"{len(faults) - _FAULTS_SHOWN} more lines are left out")
    return remarks
