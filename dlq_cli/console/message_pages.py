"""The page of one message: every archived copy, and what runs did with each."""

from datetime import datetime

from starlette.responses import Response

from dlq_cli.console.shown import Shown
from dlq_cli.console.site import Visit, page_route, see_other
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.errors import InputError
from spark_reprocess.inspect.show import LedgerEntry, ShowOptions, show

_OUTCOMES: dict[str | None, str] = {
    Disposition.FAILED: "not sent",
    Disposition.IN_DOUBT: "in doubt: it may have been sent",
    None: "claimed, no result written",
}


def _message(visit: Visit) -> Response:
    console, message_id = visit.console, visit.request.path_params["message_id"]
    shown = Shown(console.masks, console.is_unmasked)
    # Read as it is, and masked here as samples are: fields by their names, too.
    options = ShowOptions(console.archive.root, message_id, is_unmasked=True)
    history = show(options, console.archive)
    copies = [
        {
            "archived": one,
            "sample": shown.sample(one),
            "error": ": ".join(filter(None, (one.error_type, shown.error(one.error_message)))),
            "entries": [_entry(entry) for entry in one.entries],
        }
        for one in history.copies
    ]
    words = ["--unmasked"] if console.is_unmasked else ["--body"]
    return visit.page(
        "message.html.jinja",
        history=history,
        copies=copies,
        group_id=visit.query.get("group", ""),
        shown_plan=visit.query.get("plan", ""),
        command=console.command("show", message_id, *words),
    )


def _entry(entry: LedgerEntry) -> dict[str, object]:
    return {
        "it": entry,
        "word": _OUTCOMES.get(entry.outcome, entry.outcome or ""),
        "claimed_at": _time(entry.claimed_at),
        "settled_at": _time(entry.settled_at),
        "caller": str(entry.caller) if entry.caller_arn or entry.caller_fault else "",
    }


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _find(visit: Visit) -> Response:
    """Open the page of the message whose id is in a form of the address."""
    message_id = visit.query.get("id", "").strip()
    if not message_id:
        raise InputError("give the id of a message")
    return see_other(f"/messages/{message_id}")


ROUTES = (
    page_route("/messages", _find),
    page_route("/messages/{message_id:path}", _message),
)
