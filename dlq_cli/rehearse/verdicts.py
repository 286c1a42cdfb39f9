"""The rules of a rehearsal: what an outcome means for a message, and the sums. Pure.

A message passes only if everything that its handler asked for was answered. A handler may swallow
an error, so what was missing counts more than what the handler did with it.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from dlq_replay.failures import Failure as RecordedFailure
from dlq_replay.failures import one_line
from dlq_replay.masks import mask_text
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.signature import Signature, signature_of
from spark_reprocess.archive.rehearsals import MessageVerdict, Verdict
from spark_reprocess.figures import counted

REASON_CHARACTERS = 160
_REPORTED = "an unknown error (batchItemFailures names the message)"
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a handler failed; *type* is empty where nobody said."""

    type: str
    text: str

    def reason(self, masks: Masks) -> str:
        """Format it on one line, masked."""
        return masks.start(": ".join(filter(None, (self.type, self.text))), REASON_CHARACTERS)

    def signature(self, body: str) -> Signature:
        """Return the signature that it would have as a recorded failure, masked and shortened."""
        texts = {
            "message_id": "-",
            "error_type": one_line(self.type) or "Error",
            "error_message": mask_text(self.text),
        }
        recorded = RecordedFailure.from_item({name: {"S": one} for name, one in texts.items()})
        error = recorded.to_failure_error()
        return signature_of(body, None, error.type, error.message)


def failure_of(
    outcome: Mapping[str, Any], message_id: str, timeout_seconds: float
) -> Failure | None:
    """Return why the message would fail, None if it would not.

    Args:
        outcome: what the sandbox says about the call; see ``inside.Supervisor``.
        message_id: of the only record of the event.
        timeout_seconds: of the function.
    """
    match outcome.get("kind"):
        case "returned":
            return _failure_of_answer(outcome["answer"], outcome.get("failure"), message_id)
        case "timeout":
            return Failure("Timeout", f"no answer after {timeout_seconds:g} s")
        case "ended":
            return Failure("ProcessEnded", _ending(outcome.get("code")))
        case "refused":
            text = f"{outcome.get('type')}: {outcome.get('text')}"
            return Failure("ImportFailed", text)
        case _:
            return Failure(str(outcome.get("type", "Error")), str(outcome.get("text", "")))


def doubt_of(outcome: Mapping[str, Any]) -> str:
    """Return what of an answer depends on a setting that is not known here; empty for nothing."""
    answer = outcome.get("answer")
    if answer is None or answer == "" or isinstance(answer, dict):
        return ""
    return "the answer is no object: with ReportBatchItemFailures Lambda may refuse it"


def _failure_of_answer(
    answer: object, known: Mapping[str, Any] | None, message_id: str
) -> Failure | None:
    """Read a partial batch response as Lambda does.

    Nothing, an empty object, and an empty or null list say that all succeeded. A list of another
    form, or one that names another message, fails the whole batch. See
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """
    items = answer.get("batchItemFailures") if isinstance(answer, dict) else None
    if not items and isinstance(items, list | None):
        return None
    if not isinstance(items, list):
        return Failure("InvalidPartialResponse", "batchItemFailures is no list")
    ids = [one.get("itemIdentifier") if isinstance(one, dict) else None for one in items]
    if any(one != message_id for one in ids):
        return Failure("InvalidPartialResponse", "an itemIdentifier is not in the batch")
    if known is None:
        return Failure("", _REPORTED)
    return Failure(str(known.get("type", "")), str(known.get("text", "")))


def _ending(code: object) -> str:
    if not isinstance(code, int):
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def verdict_of(
    message_id: str,
    body: str,
    failure: Failure | None,
    missing: Sequence[str],
    own_kinds: frozenset[str] | None,
    masks: Masks,
) -> MessageVerdict:
    """Return the verdict on one message.

    Args:
        message_id: its id.
        body: as the handler got it.
        failure: why the handler failed; None if it did not.
        missing: what the handler asked for and did not get.
        own_kinds: ids of the signatures of the group's failures; None where none was recorded.
        masks: what the reason must not show.
    """
    if missing:
        reason = masks.start("; ".join(missing), REASON_CHARACTERS)
        return MessageVerdict(message_id, Verdict.UNKNOWN, reason)
    if failure is None:
        return MessageVerdict(message_id, Verdict.PASS)
    is_new = (
        own_kinds is not None
        and bool(failure.type)
        and failure.signature(body).group_id not in own_kinds
    )
    return MessageVerdict(message_id, Verdict.FAIL, failure.reason(masks), is_new)


def network_reason(host: str) -> str:
    """Say which host could not be reached; empty where only the attempt is known."""
    return f"network: {host or 'a host'} is not reachable in a rehearsal"


@dataclass(frozen=True, slots=True)
class Kind:
    """How many messages have the same verdict for the same reason.

    Attributes:
        examples: the ids of the first few.
    """

    verdict: Verdict
    reason: str
    is_new_kind: bool
    count: int
    examples: tuple[str, ...]


_EXAMPLES = 3
_ORDER = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS)


def kinds_of(verdicts: Iterable[MessageVerdict]) -> tuple[Kind, ...]:
    """Add verdicts up by reason: failures first, then what is unknown; the frequent ones first."""
    found: dict[tuple[Verdict, str, bool], list[str]] = {}
    for one in verdicts:
        found.setdefault((one.verdict, one.reason, one.is_new_kind), []).append(one.message_id)
    kinds = (Kind(*key, len(ids), tuple(ids[:_EXAMPLES])) for key, ids in found.items())
    return tuple(sorted(kinds, key=lambda k: (_ORDER.index(k.verdict), -k.count, k.reason)))


def sentence(kinds: Sequence[Kind], recorded: Mapping[str, int]) -> str:
    """Format the result in one line."""
    counts = Counter[Verdict]()
    for kind in kinds:
        counts[kind.verdict] += kind.count
    parts = [f"{counts[Verdict.PASS]:,} would pass"]
    parts += [
        f"{kind.count:,} {'fail with' if kind.verdict is Verdict.FAIL else 'unknown'}"
        f"{_format_reason(kind)}"
        for kind in kinds
        if kind.verdict is not Verdict.PASS
    ]
    written = [f"{count:,} {name}" for name, count in sorted(recorded.items())]
    end = f" · recorded: {', '.join(written)}" if written else ""
    return f"{counted(counts.total(), 'message')}: {', '.join(parts)}{end}"


def _format_reason(kind: Kind) -> str:
    if kind.verdict is Verdict.UNKNOWN:
        return f" ({kind.reason})"
    return f" {kind.reason}{' (a new kind)' if kind.is_new_kind else ''}"


def junit(verdicts: Sequence[MessageVerdict], group_id: str, handler: str) -> bytes:
    """Return the verdicts as JUnit XML: a test case for each message; no body is in it.

    What is unknown is an error: it is neither a success nor a failure of the code.
    """
    counts = Counter(one.verdict for one in verdicts)
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_xml(f"rehearsal {group_id}"),
        tests=str(len(verdicts)),
        failures=str(counts[Verdict.FAIL]),
        errors=str(counts[Verdict.UNKNOWN]),
        skipped="0",
    )
    for one in verdicts:
        case = ET.SubElement(suite, "testcase", classname=_xml(handler), name=_xml(one.message_id))
        if one.verdict is Verdict.FAIL:
            text = f"{one.reason}{' (a new kind)' if one.is_new_kind else ''}"
            ET.SubElement(case, "failure", message=_xml(text))
        elif one.verdict is Verdict.UNKNOWN:
            ET.SubElement(case, "error", message=_xml(one.reason))
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _xml(text: str) -> str:
    """Return *text* without characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", text)
