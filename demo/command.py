"""One run from its options to its exit code: what is printed at the end, and where."""

import json
import sys
from collections.abc import Sequence

from demo.arguments import parse_options, work_folder
from demo.audit import PROCESSED, Fate
from demo.errors import DemoError, InputError
from demo.functions import WrapHandler
from demo.loading import load
from demo.tables import names
from demo.wiring import Cast, Result, run

EXIT_OK = 0
EXIT_NOT_ALL_WELL = 1
EXIT_BAD_INPUT = 2


def play_command(
    argv: Sequence[str] | None, wrap_replay_handler: WrapHandler | None, *, with_spark: bool
) -> int:
    """Play the demo that *argv* asks for; see ``demo.__main__.main``."""
    options = parse_options(argv)
    try:
        loaded = load(options)
        with work_folder(options.folder) as work:
            cast = Cast(
                messages=loaded.messages,
                is_invented=options.input_path is None,
                remarks=loaded.remarks,
                work=work,
                wrap_replay_handler=wrap_replay_handler,
                with_spark=with_spark,
                is_fifo=options.is_fifo,
            )
            return _conclude(run(cast))
    except InputError as error:
        return _fail(str(error), EXIT_BAD_INPUT)
    except DemoError as error:
        return _fail(str(error), EXIT_NOT_ALL_WELL)


def _conclude(result: Result) -> int:
    account = result.account
    for fate in Fate:
        if fate not in PROCESSED and account.of_fate(fate):
            _fail(f"{fate.value}: {names(account, result.sent, fate)}.", EXIT_NOT_ALL_WELL)
    if account.altered:
        _fail(f"altered on the way: {', '.join(sorted(account.altered))}.", EXIT_NOT_ALL_WELL)
    if account.out_of_order:
        groups = ", ".join(sorted(account.out_of_order))
        _fail(f"dead letters came back out of order in: {groups}.", EXIT_NOT_ALL_WELL)
    summary = {**account.summary(), "seconds": round(result.seconds, 1)}
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()
    return EXIT_OK if account.is_all_well else EXIT_NOT_ALL_WELL


def _fail(sentence: str, exit_code: int) -> int:
    sys.stderr.write(f"{sentence}\n")
    return exit_code
