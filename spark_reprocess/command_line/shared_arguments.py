"""Arguments that mean the same for several verbs."""

import argparse

from spark_reprocess.command_line.argument_types import sha256_hex, whole_number


def add_claim_ttl(parser: argparse.ArgumentParser) -> None:
    """Add ``--claim-ttl``, which means the same for every verb that reads ledgers."""
    parser.add_argument(
        "--claim-ttl",
        dest="claim_ttl_seconds",
        type=whole_number(60, 43_200),
        default=900,
        metavar="S",
        help="seconds after which an unfinished run's claim counts as dead, unless that run asked "
        "for more (default: %(default)s)",
    )


def add_destination(parser: argparse.ArgumentParser) -> None:
    """Add ``--main-queue-url`` and ``--to-queue-url``."""
    parser.add_argument(
        "--main-queue-url",
        metavar="URL",
        help="the main queue: takes the messages that came from it; those of other queues are left",
    )
    parser.add_argument(
        "--to-queue-url",
        metavar="URL",
        help="another destination, for all messages; those parked as foreign_source are left",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", dest="as_json", action="store_true", help="answer with one JSON object"
    )


def add_masks(parser: argparse.ArgumentParser, hides: str, without_samples: str) -> None:
    """Add ``--mask`` and ``--no-samples``.

    Args:
        parser: of the verb.
        hides: what a mask hides, and where.
        without_samples: what is shown then, or not.
    """
    parser.add_argument(
        "--mask",
        dest="masks",
        action="append",
        default=[],
        metavar="FIELD|REGEX",
        help=f"{hides}; may be repeated",
    )
    parser.add_argument(
        "--no-samples", dest="has_samples", action="store_false", help=without_samples
    )


def add_policy_sha256(parser: argparse.ArgumentParser) -> None:
    """Add ``--policy-sha256``."""
    parser.add_argument(
        "--policy-sha256",
        type=sha256_hex,
        metavar="HEX",
        help="refuse a policy whose file has another SHA-256 (sha256sum FILE prints it)",
    )


def add_execution(parser: argparse.ArgumentParser, *, without: str = "nothing is sent") -> None:
    """Add ``--reason`` and ``--execute``; *without* it says what does not happen."""
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; goes into the ledger with --execute"
    )
    parser.add_argument("--execute", action="store_true", help=f"do it; without this {without}")
