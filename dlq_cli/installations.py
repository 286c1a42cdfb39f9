"""Lists the installations of an account and Region: ``status`` without a stack."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from dlq_cli.stack_values import read_stacks
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE

if TYPE_CHECKING:
    from boto3.session import Session


def list_installations(session: "Session") -> int:
    """Print the installations, sorted by name; return the exit code.

    Raises:
        InputError: the stacks could not be listed.
    """
    found = sorted(read_stacks(session), key=lambda one: one.stack)

    def show() -> None:
        if not found:
            print_line("no installation in this account and Region (--region, --profile)")
            return
        print_table(
            ("stack", "main queue", "archive", "status"),
            [
                (
                    one.stack,
                    one.main_queue_url.rpartition("/")[2],
                    one.archive or "none",
                    one.status.lower().replace("_", " "),
                )
                for one in found
            ],
        )
        print_line("give one of these names as --stack")

    print_answer({"stacks": [asdict(one) for one in found]}, show)
    return DONE
