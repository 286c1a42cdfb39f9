"""``show``: what happened to one message."""

import argparse

from spark_reprocess.command_line.answers.show import history_json, print_history
from spark_reprocess.command_line.shared_arguments import add_claim_ttl, add_json
from spark_reprocess.command_line.terminal import say
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.upkeep.show import ShowOptions, show

_ABOUT = """\
Tells the whole history of one dead letter: every archived copy of it, why each was parked, and each
run that sent or discarded one: who, with whose credentials, why, when, where to, and under which
new id.

The id may be that of an archived copy, of the first copy, or of a copy that a redrive sent.
No body and no attribute's value is shown unless you ask for it. Reads only; needs no Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("message_id", metavar="MESSAGE_ID", help="SQS's id of a copy")
    add(
        "--body",
        dest="has_body",
        action="store_true",
        help="show bodies and attributes, with e-mail addresses, card numbers and tokens masked",
    )
    add(
        "--unmasked",
        dest="is_unmasked",
        action="store_true",
        help="show bodies and attributes as they are",
    )
    add_claim_ttl(parser)
    add_json(parser)


def _run(options: ShowOptions) -> int:
    history = show(options)
    if options.as_json:
        say(history_json(history))
    else:
        print_history(history)
    return DONE


VERB = Verb("show", "what happened to one message", _ABOUT, _add_arguments, ShowOptions, _run)
