"""Pages about jobs: what is pending, the list of jobs, and one job with its answer.

The forms start ``dlq`` commands, which check their options. A redrive begins with a dry run.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.message_state import PENDING
from dlq.archive.ledger.stop import stop_of
from dlq.aws.clients import QueueCounts, require_queue, sqs_client
from dlq.cli.outcomes import columns, problem_sentence
from dlq.cli.verb import FAILED_AGAIN, INTERRUPTED, NOT_ALL_SENT, PROGRAM, option
from dlq.console.jobs import MOST_STOPS, Job
from dlq.console.ramp_steps import ShownStep, StepRow, read_step_rows
from dlq.console.reports import entry_digest, find_report
from dlq.console.site import Console, Handler, Visit, page_route
from dlq.errors import InputError, JobError
from dlq.explain.outputs import read_findings
from dlq.inspect.outcomes import read_outcomes
from dlq.inspect.status import StatusOptions, status
from dlq.plan.plan import Action, PlannedGroup
from dlq.plan.plan_reading import ID
from dlq.redrive.summary import UNFINISHED, Tally
from dlq.report.views import quoted

STOP_POLLING = 286
"""The status with which htmx takes a fragment and then asks no more."""

_WHOLE_PLAN = "plan"
"""The value of the field ``what`` that means every group that the plan redrives."""

_OWN_PREFIXES = (f"{PROGRAM}: ", f"{PROGRAM} ")
"""Beginnings of the lines on standard error that are sentences for people."""

_UNFINISHED = {None, NOT_ALL_SENT, FAILED_AGAIN, INTERRUPTED}
"""Exit codes after which the same command goes on with the rest."""

_ACTED_ON = (Disposition.SEND, Disposition.SENT, Disposition.DISCARDED)
_FLAGS = {"include_foreign", "allow_reordering"}


def _words(visit: Visit, *names: str) -> list[str]:
    """Return the words of the options that these fields of the form fill in."""
    words: list[str] = []
    for name in names:
        value = visit.field(name).strip()
        if not value:
            continue
        option_name = f"--{name.replace('_', '-')}"
        if name in _FLAGS:
            words.append(option_name)
        else:
            words += option(option_name, value)
    return words


def _queue(visit: Visit, name: str) -> list[str]:
    """Return the words of a queue that only the form names."""
    return [] if name.replace("_", "-") in visit.console.values else _words(visit, name)


def _here(console: Console, verb: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command with the console's own options, and where it runs."""
    command = console.words(verb, *words, *console.mask_words)[1:]
    if console.on_glue:
        command.append("--on-glue")
    return command


def _collect(visit: Visit) -> list[str]:
    only = visit.field("only")
    words = [*_queue(visit, "parked_queue_url"), *_words(visit, "only")]
    if only != "analyze":
        words += _words(visit, "limit")
    if only != "drain":
        words += _words(visit, "since")
    return _here(visit.console, "collect", words)


def _dry_run(visit: Visit) -> list[str]:
    """Make the dry run of a redrive. It names its plan: a newer report may come.

    Raises:
        InputError: nothing is chosen, and there is no redrive of everything; or there is no plan.
    """
    selection = visit.field("what")
    plan = visit.field("plan")
    if not selection:
        raise InputError("choose what to redrive: one group, or every group of this action")
    if not ID.fullmatch(plan):
        raise InputError("this form names no plan; open it again")

    words = [*option("--plan", plan)]
    if selection != _WHOLE_PLAN:
        words += option("--group", selection)
    if not visit.console.queue_tag:
        words += _queue(visit, "main_queue_url")
    words += _words(
        visit, "queue", "to_queue_url", "where", "limit", "include_foreign", "allow_reordering"
    )
    return _here(visit.console, "redrive", words)


def _execution(visit: Visit) -> list[str]:
    """Make the command that executes a dry run.

    It has the words of the dry run and the digest of its decisions, and so refuses a plan whose
    decisions have changed since.

    Raises:
        InputError: there is no dry run, or it did not end well.
    """
    dry_run = _require_job(visit, visit.field("after"))
    answer = dry_run.answer()
    if dry_run.verb != "redrive" or "--execute" in dry_run.command:
        raise InputError(f"job {dry_run.job_id} is no dry run of a redrive")
    if dry_run.exit_code != 0 or answer is None:
        raise InputError("this dry run did not end well: make it again")

    words = [*dry_run.command, *option("--decisions-sha256", answer["decisions_sha256"])]
    if visit.field("how") == "all":
        words.append("--at-once")
    else:
        words += ["--ramp", *_words(visit, "allow_returns")]
    words += _words(visit, "max_rate")
    words += _unconfirmed(visit)
    words += ["--execute", *_words(visit, "reason")]
    return words


def _again(visit: Visit) -> list[str]:
    """Make the same command again."""
    return [*_require_job(visit).command, *_unconfirmed(visit)]


def _unconfirmed(visit: Visit) -> list[str]:
    """Return the option that also sends unconfirmed messages, if the form has ``unconfirmed``."""
    return ["--unconfirmed", "send"] if visit.field("unconfirmed") else []


def _start(command: Callable[[Visit], list[str]]) -> Handler:
    """Return the handler that starts a command, and sends the browser to its page.

    The form names the job that it starts: a form that is sent twice starts one job.
    """

    def handler(visit: Visit) -> Response:
        job = visit.console.jobs.start(visit.field("start_id"), command(visit))
        return visit.see_other(f"/jobs/{job.job_id}")

    return handler


def _stop(visit: Visit) -> Response:
    job_id = visit.request.path_params["job_id"]
    is_second = visit.field("number") == str(MOST_STOPS)
    visit.console.jobs.stop(job_id, MOST_STOPS if is_second else 1)
    return visit.see_other(f"/jobs/{job_id}")


def _require_job(visit: Visit, job_id: str = "") -> Job:
    job = visit.console.jobs.get(job_id or visit.request.path_params.get("job_id", ""))
    if job is None:
        raise InputError("there is no such job; old ones are removed")
    return job


def _jobs(visit: Visit) -> Response:
    jobs = visit.console.jobs
    return visit.page(
        "job_list.html.jinja" if visit.is_fragment else "jobs.html.jinja",
        jobs=jobs.all(),
        start_id=jobs.make_id(),
    )


def _counts(visit: Visit) -> Response:
    console = visit.console
    options = StatusOptions(
        console.archive.root,
        failure_table=console.failure_table,
        main_queue_url=console.values.get("main-queue-url"),
        dlq_url=console.values.get("dlq-url"),
        queue_tag=console.queue_tag,
    )
    counts = status(options)

    # If a queue cannot be asked, the counts of the archive must still be shown.
    parked: dict[str, QueueCounts] = {}
    faults: list[str] = []
    for url in console.parked_queue_urls:
        try:
            queue = require_queue("--parked-queue-url", url, sqs_client)
        except JobError as error:
            faults.append(str(error))
        else:
            parked[url.rpartition("/")[2]] = queue.counts
    return visit.page(
        "job_counts.html.jinja", counts=counts, parked=parked, faults=faults, PENDING=PENDING
    )


def _job(visit: Visit) -> Response:
    """Show a job with its answer. ``sentences`` are for people, ``log`` is the other output."""
    job = _require_job(visit)
    answer = None if job.exit_code is None else job.answer()
    sending = _sending(answer) if answer and job.verb == "redrive" else None
    sentences, log = _sentences_and_log(job)
    is_redrive = job.verb == "redrive"
    plan_id = _value(job, "--plan") if is_redrive else ""
    group_id = _value(job, "--group") if is_redrive else ""

    halts: list[Mapping[str, Any]] = []
    if sending and sending["halted"]:
        halts = _halts(visit.console, sending)
        # The page says the same, with a button.
        sentences = [line for line in sentences if not line.startswith("halted: ")]

    step_rows: list[StepRow] = []
    if plan_id and "--ramp" in job.command:
        # Optional: the answer, or the progress, must be shown without them.
        with suppress(JobError):
            step_rows = read_step_rows(
                visit.console.archive, plan_id, group_id or None, job.started_at
            )

    response = visit.page(
        "job_state.html.jinja" if visit.is_fragment else "one_job.html.jinja",
        job=job,
        command=" ".join(map(quoted, [PROGRAM, *job.command])),
        sentences=sentences,
        log=log,
        answer=answer,
        sending=sending,
        halts=halts,
        is_dry_run=is_redrive and "--execute" not in job.command,
        plan_id=plan_id,
        group_id=group_id,
        step_rows=step_rows,
        goes_on=not job.is_running and _goes_on(job.exit_code, sending),
        titles=_titles(visit.console, plan_id) if plan_id else {},
        seconds=((job.ended_at or visit.console.now()) - job.started_at).total_seconds(),
        start_id=visit.console.jobs.make_id(),
    )
    if visit.is_fragment and not job.is_running:
        response.status_code = STOP_POLLING
    return response


def _value(job: Job, name: str) -> str:
    """Return the value of an option of a job's command; empty without one."""
    words = [*job.command]
    if name in words[:-1]:
        return words[words.index(name) + 1]
    given = [word for word in words if word.startswith(f"{name}=")]
    return given[0].partition("=")[2] if given else ""


def _sentences_and_log(job: Job) -> tuple[list[str], str]:
    """Return the sentences for people on a job's standard error, and all else there."""
    sentences: list[str] = []
    others: list[str] = []
    for line in job.errors().splitlines():
        if line.startswith(_OWN_PREFIXES):
            sentences.append(line.removeprefix(f"{PROGRAM}: "))
        else:
            others.append(line)
    return sentences, "\n".join(others)


def _goes_on(exit_code: int | None, sending: Mapping[str, Any] | None) -> bool:
    """Return whether the same command would do the rest. A halted group waits for a person."""
    if exit_code == FAILED_AGAIN and sending is not None:
        return bool(sending["is_unfinished"])
    return exit_code in _UNFINISHED


def _sending(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a redrive, with its table and its problems as sentences.

    A row is an id, its action, and a number for each column.
    """
    groups: Sequence[Mapping[str, Any]] = answer["groups"]
    counts = Counter[str]()
    halted_ids: list[str] = []
    for group in groups:
        counts.update(group["counts"])
        if group["counts"].get(Disposition.HALTED):
            halted_ids.append(group["group_id"])

    table = columns(counts)
    rows: list[tuple[str, str, list[int]]] = []
    for group in groups:
        # A plan of a thousand groups acts on a few.
        if group["action"] == "leave" and not any(map(group["counts"].get, _ACTED_ON)):
            continue
        rows.append(_row(group, table))

    problems = [Tally(**problem) for problem in answer["problems"]]
    dispositions = {problem.disposition for problem in problems}
    stopped_by = answer["stopped_by"]
    forecast = answer["forecast"]
    if forecast:
        forecast = {**forecast, "steps": tuple(map(ShownStep, forecast["sizes"]))}

    return {
        **answer,
        "forecast": forecast,
        "columns": list(table),
        "rows": rows,
        "why_stopped": stopped_by and stop_of(stopped_by).sentence,
        "planned": counts[Disposition.SEND],
        "done": counts[Disposition.SENT],
        "problems": list(map(problem_sentence, problems)),
        "is_unfinished": any(map(counts.get, UNFINISHED)),
        "halted": halted_ids,
        "has_unconfirmed": Disposition.UNCONFIRMED in dispositions,
    }


def _halts(console: Console, sending: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups that a redrive left halted, with what a form needs to decide again.

    ``why`` is empty where somebody has decided since, ``ramp`` is None where none went on, and
    ``planned`` is None where the plan cannot be read.
    """
    why: Mapping[str, str] = {}
    planned: dict[str, PlannedGroup] = {}
    with suppress(JobError):
        plan = find_report(console.archive, sending["plan_id"]).plan()
        planned = {group.group_id: group for group in plan.groups}
        why = read_memory(console.archive).halted

    ramps = {ramp["group_id"]: ramp for ramp in sending["ramp"]}
    halts: list[Mapping[str, Any]] = []
    for group in sending["groups"]:
        group_id = group["group_id"]
        if group_id not in sending["halted"]:
            continue
        entry = planned.get(group_id)
        halt = {
            "group_id": group_id,
            "planned": entry,
            "seen": entry_digest(entry) if entry else "",
            "why": why.get(group_id, ""),
            "ramp": ramps.get(group_id),
            "left": group["counts"][Disposition.HALTED],
        }
        halts.append(halt)
    return halts


def _row(
    group: Mapping[str, Any], table: Mapping[str, Sequence[str]]
) -> tuple[str, str, list[int]]:
    action = f"{group['action']}, edited" if group["is_edited"] else group["action"]
    counts = Counter[str](group["counts"])
    numbers = [sum(map(counts.__getitem__, dispositions)) for dispositions in table.values()]
    return group["group_id"], action, numbers


def _titles(console: Console, plan_id: str) -> dict[str, str]:
    with suppress(JobError):
        plan = find_report(console.archive, plan_id).plan()
        return {group.group_id: group.title for group in plan.groups}
    return {}


def _outcomes(visit: Visit) -> Response:
    console = visit.console
    group_id = visit.query.get("group")
    plan = find_report(console.archive, visit.query.get("plan")).plan()
    plan = plan.only(group_id) if group_id else plan
    outcomes = read_outcomes(console.archive, plan, console.failure_table, make_client=sqs_client)
    sent = [outcome for outcome in outcomes.values() if outcome.sent]
    response = visit.page(
        "outcomes.html.jinja",
        has_ids=not group_id,
        plan_id=plan.plan_id,
        outcomes=sorted(sent, key=lambda outcome: -(outcome.returned or 0)),
    )
    if all(outcome.is_known(console.now().timestamp()) for outcome in sent):
        response.status_code = STOP_POLLING
    return response


def _redrive(visit: Visit) -> Response:
    archive = visit.console.archive
    file = find_report(archive, visit.query.get("plan"))
    plan = file.plan()
    findings = read_findings(file.summary())
    return visit.page(
        "redrive.html.jinja",
        plan=plan,
        queues=sorted(findings.queues) if findings else [],
        halted=read_memory(archive).halted,
        redriven=[group for group in plan.groups if group.action is Action.REDRIVE],
        discarded=[group for group in plan.groups if group.action is Action.DISCARD],
        chosen=visit.query.get("group", ""),
        WHOLE_PLAN=_WHOLE_PLAN,
        start_id=visit.console.jobs.make_id(),
    )


ROUTES = (
    page_route("/jobs", _jobs),
    page_route("/jobs/counts", _counts),
    page_route("/jobs/collect", _start(_collect), "POST"),
    page_route("/jobs/{job_id}", _job),
    page_route("/outcomes", _outcomes),
    page_route("/jobs/{job_id}/again", _start(_again), "POST"),
    page_route("/jobs/{job_id}/stop", _stop, "POST"),
    page_route("/redrive", _redrive),
    page_route("/redrive", _start(_dry_run), "POST"),
    page_route("/redrive/execute", _start(_execution), "POST"),
)
