"""``analyze``: archive to report and plan."""

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_reprocess.analysis.analyze import GROUPS_SCHEMA, AnalyzeOptions, analyze
from spark_reprocess.analysis.policy_actions import load_policy
from spark_reprocess.command_line.answers.analyze import print_analysis
from spark_reprocess.command_line.argument_types import WHERE, since
from spark_reprocess.command_line.shared_arguments import add_masks, add_policy_sha256
from spark_reprocess.command_line.verb import DONE, Verb, progress_here, start_spark
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_ABOUT = """\
Groups the archive's undecided messages by what failed, says of each group what sets it apart, and
writes report.html (one page that needs nothing else), summary.json and groups.parquet for machines,
and plan.yaml, in which every group's action is "leave" unless a rule of a policy says otherwise.
Touches no queue. Prints titles and leads on a terminal only: elsewhere, in the log of a scheduled
job, it prints group ids, counts and the report's address. docs/analysis.md says how groups and
leads come about."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for; a policy can only be checked once Spark runs."""

    options: AnalyzeOptions
    policy: str | None
    policy_sha256: str | None


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="FOLDER", help="the report's folder (default: FOLDER/reports/ID)")
    add("--where", metavar="SQL", help=WHERE)
    add(
        "--since",
        type=since,
        metavar="AGE|TIME",
        help="only messages that were parked since then: 45m, 12h, 7d, 2w, or a time such as "
        "2026-11-01T09:30:00Z; the plan keeps the time",
    )
    add(
        "--policy",
        metavar="FILE",
        help="rules that fill in the plan's actions: a file, or s3://BUCKET/KEY (see run --help)",
    )
    add_policy_sha256(parser)
    add_masks(
        parser,
        "hide a field with all that is below it (body.customer.name, attribute.tenant), or what a "
        "regular expression matches, in samples, titles and leads; besides e-mail addresses, card, "
        "phone and account numbers, tokens and fields named like secrets. Masks cannot know names, "
        "addresses and free text",
        "show no value of any message: no samples, no words of text bodies in titles; keys, values "
        "that name a kind of message (type, action) and recorded errors stay",
    )


def _make_options(*, masks: list[str], **values: object) -> _Asked:
    make: Callable[..., AnalyzeOptions] = AnalyzeOptions
    policy, sha256 = (
        None if value is None else str(value)
        for value in (values.pop("policy"), values.pop("policy_sha256"))
    )
    if sha256 and not policy:
        raise InputError("--policy-sha256 needs --policy: the file that has this hash")
    return _Asked(make(masks=tuple(masks), **values), policy, sha256)


def _run(asked: _Asked) -> int:
    spark, options = start_spark(), asked.options
    if asked.policy:
        policy = load_policy(spark, asked.policy, GROUPS_SCHEMA, asked.policy_sha256)
        options = replace(options, policy=policy)
    print_analysis(analyze(spark, options, progress=progress_here()))
    return DONE


VERB = Verb("analyze", "archive to report and plan", _ABOUT, _add_arguments, _make_options, _run)
