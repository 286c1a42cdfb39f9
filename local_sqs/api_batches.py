"""The common part of the three batch operations: limits, and one result for each entry."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local_sqs.errors import SqsError, missing_parameter, namespaced

MAX_ENTRIES = 10
"""SQSDeveloperGuide, message quotas."""

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

Entry = Mapping[str, Any]


class Parameters(dict[str, Any]):
    """The parameters of a request or an entry. Reading a missing one raises SqsError."""

    def __missing__(self, name: str) -> Any:
        raise missing_parameter(name)


def checked_entries(request: Mapping[str, Any], kind: str) -> Sequence[Entry]:
    """Check the number and the ids of the entries; return the entries.

    Args:
        request: has the entries under ``Entries``.
        kind: the operation, as SQS names it in the error for an empty batch.

    Raises:
        SqsError: no entries, too many, or an id that is malformed or not unique.
    """
    entries = [Parameters(entry) for entry in request["Entries"]]
    if not entries:
        text = f"There should be at least one {kind}RequestEntry in the request."
        raise namespaced("EmptyBatchRequest", text)
    if len(entries) > MAX_ENTRIES:
        text = f"Maximum number of entries per request are {MAX_ENTRIES}. You have sent"
        raise namespaced("TooManyEntriesInBatchRequest", f"{text} {len(entries)}.")
    ids = [entry["Id"] for entry in entries]
    if not all(_ENTRY_ID.fullmatch(entry_id) for entry_id in ids):
        text = "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
        raise namespaced("InvalidBatchEntryId", f"{text} It can be at most 80 letters long.")
    repeated = next((entry_id for entry_id in ids if ids.count(entry_id) > 1), None)
    if repeated is not None:
        raise namespaced("BatchEntryIdsNotDistinct", f"Id {repeated} repeated.")
    return entries


def each(
    entries: Sequence[Entry], act: Callable[[Entry], Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Call *act* for every entry. A refused entry does not stop the others."""
    answer: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        try:
            result = {"Id": entry["Id"], **act(entry)}
            answer.setdefault("Successful", []).append(result)
        except SqsError as error:
            answer.setdefault("Failed", []).append(failed(entry, error))
    return answer


def failed(entry: Entry, error: SqsError) -> dict[str, Any]:
    """Return an element of ``Failed``."""
    return {
        "Id": entry["Id"],
        "Code": error.code,
        "Message": error.message,
        "SenderFault": error.is_sender_fault,
    }
