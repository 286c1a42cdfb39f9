"""``make accuracy DATA=FOLDER``: how well failures are grouped and explained, on others' data.

FOLDER may hold any of these files, and what it lacks is left out. A *row* of a report is a group,
or several similar ones.

==========================  ======================================================================
``error-pairs*.jsonl``      ``error_type, a, b, same``: one row if the same, else two groups
``pairs.jsonl``             the same
``error-families*.jsonl``   ``error_type, truth, texts, each``: each text has so many messages. Kept
                            ``apart``: a group for each text; ``together``: one row for all
``families*.jsonl``         ``error_type, texts, groups``: so many groups; of one failure, one row
``defects4j-*.jsonl.xz``    ``queue, bug, error_type, message, frames``: failures of known bugs
``log-records*.jsonl``      ``events, errors``: the errors that the records of these lines have
``wrapped-logs*.jsonl``     ``records, groups``: so many groups, and an error in each record
``shapes*.jsonl``           ``a, b, groups``: bodies without a recorded error
``loghub-*.jsonl.xz``       ``system, content, event``: lines of logs. Grouping accuracy is the
                            share of lines whose group, or row, is just that of their event
``robustspot-*.jsonl.xz``,  ``case, setting, causes, leaves``: the failed messages of a case are
``squeeze-*.jsonl.xz``      one group, the others another. A cause counts if it is a lead exactly
==========================  ======================================================================

With ``ARGS=--failed`` each case that is wrong is named.
"""

import json
import lzma
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dlq.explain.grouping import grouped
from dlq.explain.leads.feature_extraction import leads_among
from dlq.explain.leads.features import features_of
from dlq.explain.logs.events import LogEvent, records
from dlq.explain.logs.exceptions import logged_error
from dlq.explain.signature.mask import Masks
from dlq.explain.signature.names import mask_name
from dlq.explain.signature.signature import signature_of
from dlq_replay.rules.failures import Failure

Row = dict[str, Any]


class _Error(NamedTuple):
    """What is known of a failure; *frames* as recorders write them, the innermost first."""

    type: str
    text: str
    frames: str = ""


class _Places(NamedTuple):
    """The group of each error, and its row in the report."""

    groups: list[str]
    rows: list[str]


def _rows(folder: Path, *patterns: str) -> Iterator[Row]:
    paths = {path for pattern in patterns for path in folder.glob(pattern)}
    for path in sorted(paths):
        content = path.read_bytes()
        text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode()
        yield from map(json.loads, text.splitlines())


def _print(what: str) -> None:
    print(what)  # noqa: T201 - the answer


def _key(error: _Error) -> str:
    recorded = Failure("1", error.type, error.text, frames=error.frames).to_failure_error()
    signature = signature_of("", None, error.type, error.text, error_place=recorded.place)
    return signature.group_key


def _places(errors: Sequence[_Error], each: int = 1) -> _Places:
    """Group errors as if they were all messages of an archive, with *each* so many messages."""
    keys = [_key(error) for error in errors]
    counts = {key: count * each for key, count in Counter(keys).items()}
    _, grouping = grouped((), counts)
    groups = [grouping.ids[key] for key in keys]
    rows = [grouping.similar.get(group_id, group_id) for group_id in groups]
    return _Places(groups, rows)


def _print_share(what: str, results: Iterable[tuple[str, bool]], *, is_verbose: bool) -> None:
    """Print how many of the named results are right; nothing without any."""
    listed = list(results)
    wrong = [name for name, is_right in listed if not is_right]
    if listed:
        _print(f"{what}: {len(listed) - len(wrong)} of {len(listed)}")
    for name in wrong if is_verbose else ():
        _print(f"    wrong: {name}")


def _print_groups(folder: Path, *, is_verbose: bool) -> None:
    """Print the figures of texts of which it is known which are one failure."""
    families = list(_rows(folder, "error-families*.jsonl"))
    for truth, what in (("apart", "sets of different failures apart"), ("together", "one failure")):
        of_truth = [row for row in families if row["truth"] == truth]
        results = [(row["family"], _is_right_set(row)) for row in of_truth]
        _print_share(f"{what}, {truth}", results, is_verbose=is_verbose)
    kinds = [
        (f"{row['id']} {row['what']}", _has_so_many(row)) for row in _rows(folder, "families.jsonl")
    ]
    _print_share("kinds of text behind public reports", kinds, is_verbose=is_verbose)
    pairs = list(_rows(folder, "error-pairs*.jsonl", "pairs.jsonl"))
    for is_same, what in ((False, "pairs of different failures apart"), (True, "equal together")):
        results = [
            (f"{pair['a']} | {pair['b']}", _is_right_pair(pair))
            for pair in pairs
            if pair["same"] is is_same
        ]
        _print_share(what, results, is_verbose=is_verbose)


def _is_right_set(row: Row) -> bool:
    errors = [_Error(row["error_type"], text) for text in row["texts"]]
    places = _places(errors, row["each"])
    if row["truth"] == "apart":
        return len(set(places.groups)) == len(errors)
    return len(set(places.rows)) == 1


def _has_so_many(row: Row) -> bool:
    places = _places([_Error(row["error_type"], text) for text in row["texts"]])
    if row["groups"] == 1:
        return len(set(places.rows)) == 1
    return bool(len(set(places.groups)) == row["groups"])


def _is_right_pair(pair: Row) -> bool:
    places = _places([_Error(pair["error_type"], pair[name]) for name in ("a", "b")])
    if pair["same"]:
        return len(set(places.rows)) == 1
    return len(set(places.groups)) == len(places.groups)


def _print_bugs(folder: Path, *, is_verbose: bool) -> None:
    """Print how well failures of known bugs are told apart; one queue is one library."""
    queues = defaultdict[str, list[Row]](list)
    for row in _rows(folder, "defects4j-*.jsonl.xz"):
        queues[row["queue"]].append(row)
    if not queues:
        return
    shared, split, bugs = list[str](), list[str](), 0
    scores = list[tuple[float, float]]()
    for queue, rows in sorted(queues.items()):
        errors = [
            _Error(row["error_type"], row["message"] or "", "\n".join(row["frames"]))
            for row in rows
        ]
        places = _places(errors)
        of_bug, in_rows = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        of_group = defaultdict[str, set[str]](set)
        for row, group_id, shown in zip(rows, *places, strict=True):
            of_bug[row["bug"]].add(group_id)
            in_rows[row["bug"]].add(shown)
            of_group[group_id].add(row["bug"])
        bugs += len(of_bug)
        shared += [
            f"{queue} {bug}"
            for bug, groups in of_bug.items()
            if any(len(of_group[group_id]) > 1 for group_id in groups)
        ]
        split += [f"{queue} {bug}" for bug, shown in in_rows.items() if len(shown) > 1]
        scores += _b_cubed([row["bug"] for row in rows], places.groups)
    precision, recall = (sum(one) / len(scores) for one in zip(*scores, strict=True))
    score = 2 * precision * recall / (precision + recall)
    _print(f"Defects4J: {len(shared)} of {bugs} bugs share a group with another, B3 F1 {score:.3f}")
    _print(f"Defects4J: precision {precision:.3f}, recall {recall:.3f}, split: {len(split)}")
    for name in (*shared, *(f"{one} (split)" for one in split)) if is_verbose else ():
        _print(f"    wrong: {name}")


def _b_cubed(truths: Sequence[str], found: Sequence[str]) -> list[tuple[float, float]]:
    """Return precision and recall of each element (Bagga and Baldwin)."""
    both = Counter(zip(truths, found, strict=True))
    of_truth, of_found = Counter(truths), Counter(found)
    return [
        (both[truth, group] / of_found[group], both[truth, group] / of_truth[truth])
        for truth, group in zip(truths, found, strict=True)
    ]


def _print_logs(folder: Path, *, is_verbose: bool) -> None:
    """Print whether errors are found in log records, and kinds of jobs in bodies."""
    found = []
    for row in _rows(folder, "log-records*.jsonl"):
        events = [LogEvent("group", "stream", n, text) for n, text in enumerate(row["events"])]
        errors = filter(None, (logged_error(record.text) for record in records(events)))
        named = [[error.type, error.message] for error in errors]
        found.append((f"{row['id']} {row['what']}: {named}", named == row["errors"]))
    _print_share("log records: type and text found", found, is_verbose=is_verbose)
    wrapped = []
    for row in _rows(folder, "wrapped-logs*.jsonl"):
        logged = list(filter(None, map(logged_error, row["records"])))
        places = _places([_Error(one.type, one.message, one.frames) for one in logged])
        is_right = len(logged) == len(row["records"])
        is_right = is_right and len(set(places.groups)) == row["groups"]
        wrapped.append((f"{row['id']} {row['what']}", is_right))
    _print_share("wrapped causes are groups of their own", wrapped, is_verbose=is_verbose)
    shapes = []
    for row in _rows(folder, "shapes*.jsonl"):
        keys = {signature_of(row[name], None, None, None).group_key for name in ("a", "b")}
        shapes.append((row["what"], len(keys) == row["groups"]))
    _print_share("kinds of job by framework", shapes, is_verbose=is_verbose)


def _print_templates(folder: Path) -> None:
    """Print the grouping accuracy of lines of logs, by groups and by rows."""
    systems = defaultdict[str, list[Row]](list)
    for row in _rows(folder, "loghub-*.jsonl.xz"):
        systems[row["system"]].append(row)
    found = {}
    for name, lines in systems.items():
        places = _places([_Error("Error", line["content"]) for line in lines])
        events = [line["event"] for line in lines]
        found[name] = [_grouping_accuracy(events, ids) for ids in places]
        _print(f"grouping accuracy, {name}: {found[name][0]:.3f}, by rows {found[name][1]:.3f}")
    if found:
        groups, rows = (sum(one) / len(found) for one in zip(*found.values(), strict=True))
        _print(f"grouping accuracy, mean: {groups:.3f}, by rows {rows:.3f}")


def _grouping_accuracy(events: Sequence[str], ids: Sequence[str]) -> float:
    of_event, of_id = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for number, (event, group_id) in enumerate(zip(events, ids, strict=True)):
        of_event[event].add(number)
        of_id[group_id].add(number)
    exact = (lines for lines in of_id.values() if of_event[events[min(lines)]] == lines)
    return sum(map(len, exact)) / len(events)


_MOST_OF_A_GROUP = 20_000
_Cause = frozenset[tuple[str, str]]


def _causes_found(row: Row) -> list[_Cause]:
    """Return the leads of the group of failed messages of one case."""
    leaves = row["leaves"]
    rows = []
    for group_id, count in (
        ("bad", [leaf["_bad"] for leaf in leaves]),
        ("good", [leaf["_all"] - leaf["_bad"] for leaf in leaves]),
    ):
        numbers = np.repeat(np.arange(len(leaves)), count)
        np.random.default_rng(0).shuffle(numbers)
        rows += [(group_id, number) for number in numbers[:_MOST_OF_A_GROUP]]
    lines = []
    for leaf in leaves:
        fields = {name: value for name, value in leaf.items() if not name.startswith("_")}
        lines.append(features_of(json.dumps(fields), 0, (), {}))
    sampled = pa.Table.from_pylist(
        [
            {
                "group_id": group_id,
                "chance": chance,
                "is_by_shape": False,
                "features": lines[number],
                "shape": "one",
                "failed_at": math.nan,
            }
            for chance, (group_id, number) in enumerate(rows)
        ]
    )
    total = {one: sum(1 for group_id, _ in rows if group_id == one) for one in ("bad", "good")}
    return [
        frozenset((part.field.removeprefix("body."), part.value) for part in lead.parts)
        for lead in leads_among(sampled, total, Masks()).get("bad", ())
    ]


def _print_causes(folder: Path) -> None:
    first, among, cases = 0, 0, 0
    for row in _rows(folder, "robustspot-*.jsonl.xz"):
        causes, found = _true_causes(row), _causes_found(row)
        cases, first = cases + 1, first + (found[:1] != [] and found[0] in causes)
        among += any(one in causes for one in found)
    if cases:
        _print(f"exact cause first: {first} of {cases}, among five: {among}")
    settings = defaultdict[str, list[int]](lambda: [0, 0])
    for row in _rows(folder, "squeeze-*.jsonl.xz"):
        causes, leads = _true_causes(row), set(_causes_found(row))
        settings[row["setting"]][0] += 2 * len(causes & leads)
        settings[row["setting"]][1] += len(causes) + len(leads)
    scores = {name: right / most for name, (right, most) in settings.items()}
    for name, score in scores.items():
        _print(f"F1, {name}: {score:.3f}")
    if scores:
        _print(f"F1, mean: {sum(scores.values()) / len(scores):.3f}")


def _true_causes(row: Row) -> set[_Cause]:
    return {
        frozenset((mask_name(name), value) for name, value in one.items()) for one in row["causes"]
    }


def main(folder: Path, *, is_verbose: bool = False) -> None:
    """Print the figures of all that *folder* has."""
    _print_groups(folder, is_verbose=is_verbose)
    _print_bugs(folder, is_verbose=is_verbose)
    _print_logs(folder, is_verbose=is_verbose)
    _print_templates(folder)
    _print_causes(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_verbose="--failed" in sys.argv[2:])
