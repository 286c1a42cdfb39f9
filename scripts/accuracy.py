"""``make accuracy DATA=FOLDER``: how well failures are grouped and explained, on others' data.

FOLDER may hold any of these files, and what it lacks is left out. A *row* of a report is a group,
or several similar ones.

==========================  ======================================================================
``error-pairs*.jsonl``      ``error_type, a, b, same``: one row if the same, else two groups
``pairs.jsonl``             the same
``error-families*.jsonl``   ``error_type, truth, texts, each``: each text has *each* messages.
                            Right for ``apart``: a group for each text; for ``together``: one row
``families*.jsonl``         ``error_type, texts, groups``: that number of groups; for 1, one row
``defects4j-*.jsonl.xz``    ``queue, bug, error_type, message, frames``: failures of known bugs
``log-records*.jsonl``      ``events, errors``: the errors that the records of these lines have
``wrapped-logs*.jsonl``     ``records, groups``: that number of groups, an error in each record
``shapes*.jsonl``           ``a, b, groups``: bodies without a recorded error
``loghub-*.jsonl.xz``       ``system, content, event``: lines of logs. Grouping accuracy is the
                            share of lines whose group, or row, is just that of their event
``robustspot-*.jsonl.xz``,  ``case, setting, causes, leaves``: the failed messages of a case are
``squeeze-*.jsonl.xz``      one group, the others another. A cause counts if it is a difference
exactly ==========================
======================================================================

With ``ARGS=--failed`` each case that is wrong is named.
"""

import json
import lzma
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dlq.explain.differences.feature_extraction import differences_among
from dlq.explain.differences.features import features_of
from dlq.explain.findings import Difference
from dlq.explain.grouping import grouped
from dlq.explain.logs.events import LogEvent, records
from dlq.explain.logs.exceptions import logged_error
from dlq.explain.signature.mask import Masks
from dlq.explain.signature.names import mask_name
from dlq.explain.signature.signature import signature_of
from dlq_replay.rules.failures import Failure

Row = dict[str, Any]


class _Error(NamedTuple):
    """A failure as it was recorded; *frames* as recorders write them, the innermost first."""

    type: str
    text: str
    frames: str = ""


class _Places(NamedTuple):
    """The group of each error, and its row in the report."""

    groups: list[str]
    rows: list[str]


@dataclass
class _Share:
    """Counts how many of the named cases of one kind are right."""

    what: str
    count: int = 0
    wrong_names: list[str] = field(default_factory=list)

    def add(self, name: str, *, is_right: bool) -> None:
        self.count += 1
        if not is_right:
            self.wrong_names.append(name)

    def print(self, *, is_verbose: bool) -> None:
        """Print the share; nothing without any case."""
        if self.count:
            right_count = self.count - len(self.wrong_names)
            _print(f"{self.what}: {right_count} of {self.count}")
        if is_verbose:
            _print_wrong(self.wrong_names)


def _print(text: str) -> None:
    print(text)  # noqa: T201 - the answer


def _print_wrong(names: Iterable[str]) -> None:
    for name in names:
        _print(f"    wrong: {name}")


def _rows(folder: Path, *patterns: str) -> Iterator[Row]:
    """Yield the rows of the files that match a pattern, in the order of their paths."""
    paths: set[Path] = set()
    for pattern in patterns:
        paths.update(folder.glob(pattern))

    for path in sorted(paths):
        content = path.read_bytes()
        if path.suffix == ".xz":
            content = lzma.decompress(content)
        for line in content.decode().splitlines():
            yield json.loads(line)


def _by_value(rows: Iterable[Row], name: str) -> Mapping[str, list[Row]]:
    """Return the rows by their value of that name."""
    by_value = defaultdict[str, list[Row]](list)
    for row in rows:
        by_value[row[name]].append(row)
    return by_value


def _sets(keys: Iterable[str], values: Iterable[str]) -> Mapping[str, set[str]]:
    """Return the values that occur beside each key."""
    sets = defaultdict[str, set[str]](set)
    for key, value in zip(keys, values, strict=True):
        sets[key].add(value)
    return sets


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _key(error: _Error) -> str:
    recorded = Failure("1", error.type, error.text, frames=error.frames).to_failure_error()
    signature = signature_of("", None, error.type, error.text, error_place=recorded.place)
    return signature.group_key


def _places(errors: Iterable[_Error], messages_each: int = 1) -> _Places:
    """Group errors as if they were all of an archive, each of that number of messages."""
    keys = [_key(error) for error in errors]
    counts = Counter[str]()
    for key in keys:
        counts[key] += messages_each
    _, grouping = grouped((), counts)

    groups = [grouping.ids[key] for key in keys]
    rows = [grouping.similar.get(group_id, group_id) for group_id in groups]
    return _Places(groups, rows)


def _places_of_texts(error_type: str, texts: Iterable[str], messages_each: int = 1) -> _Places:
    return _places((_Error(error_type, text) for text in texts), messages_each)


def _are_apart(ids: Sequence[str]) -> bool:
    return len(set(ids)) == len(ids)


def _are_one(ids: Sequence[str]) -> bool:
    return len(set(ids)) == 1


def _print_groups(folder: Path, *, is_verbose: bool) -> None:
    """Print the figures of texts for which the data say which are one failure."""
    apart = _Share("sets of different failures apart, apart")
    together = _Share("one failure, together")
    for row in _rows(folder, "error-families*.jsonl"):
        places = _places_of_texts(row["error_type"], row["texts"], row["each"])
        if row["truth"] == "apart":
            apart.add(row["family"], is_right=_are_apart(places.groups))
        else:
            together.add(row["family"], is_right=_are_one(places.rows))

    kinds = _Share("kinds of text behind public reports")
    for row in _rows(folder, "families.jsonl"):
        places = _places_of_texts(row["error_type"], row["texts"])
        if row["groups"] == 1:
            is_right = _are_one(places.rows)
        else:
            is_right = len(set(places.groups)) == row["groups"]
        kinds.add(f"{row['id']} {row['what']}", is_right=is_right)

    different = _Share("pairs of different failures apart")
    equal = _Share("equal together")
    for pair in _rows(folder, "error-pairs*.jsonl", "pairs.jsonl"):
        places = _places_of_texts(pair["error_type"], (pair["a"], pair["b"]))
        name = f"{pair['a']} | {pair['b']}"
        if pair["same"]:
            equal.add(name, is_right=_are_one(places.rows))
        else:
            different.add(name, is_right=_are_apart(places.groups))

    for share in (apart, together, kinds, different, equal):
        share.print(is_verbose=is_verbose)


def _print_bugs(folder: Path, *, is_verbose: bool) -> None:
    """Print how well failures of known bugs are told apart; one queue is one library."""
    rows_of_queue = _by_value(_rows(folder, "defects4j-*.jsonl.xz"), "queue")
    if not rows_of_queue:
        return

    bug_count = 0
    shared = list[str]()
    split = list[str]()
    precisions = list[float]()
    recalls = list[float]()
    for queue, rows in sorted(rows_of_queue.items()):
        bugs = [row["bug"] for row in rows]
        places = _places(map(_recorded_error, rows))
        groups_of_bug = _sets(bugs, places.groups)
        rows_of_bug = _sets(bugs, places.rows)
        bugs_of_group = _sets(places.groups, bugs)

        bug_count += len(groups_of_bug)
        for bug, groups in groups_of_bug.items():
            name = f"{queue} {bug}"
            if any(len(bugs_of_group[group_id]) > 1 for group_id in groups):
                shared.append(name)
            if len(rows_of_bug[bug]) > 1:
                split.append(name)

        for precision, recall in _b_cubed(bugs, places.groups):
            precisions.append(precision)
            recalls.append(recall)

    precision = _mean(precisions)
    recall = _mean(recalls)
    score = 2 * precision * recall / (precision + recall)
    _print(
        f"Defects4J: {len(shared)} of {bug_count} bugs share a group with another, "
        f"B3 F1 {score:.3f}"
    )
    _print(f"Defects4J: precision {precision:.3f}, recall {recall:.3f}, split: {len(split)}")
    if is_verbose:
        _print_wrong(shared)
        _print_wrong(f"{name} (split)" for name in split)


def _recorded_error(row: Row) -> _Error:
    return _Error(row["error_type"], row["message"] or "", "\n".join(row["frames"]))


def _b_cubed(truths: Sequence[str], groups: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Yield precision and recall of each element (Bagga and Baldwin)."""
    pair_counts = Counter(zip(truths, groups, strict=True))
    truth_counts = Counter(truths)
    group_counts = Counter(groups)
    for truth, group in zip(truths, groups, strict=True):
        common = pair_counts[truth, group]
        yield common / group_counts[group], common / truth_counts[truth]


def _print_logs(folder: Path, *, is_verbose: bool) -> None:
    """Print whether errors are found in log records, and kinds of jobs in bodies."""
    of_records = _Share("log records: type and text found")
    for row in _rows(folder, "log-records*.jsonl"):
        errors = list(_errors_of_lines(row["events"]))
        name = f"{row['id']} {row['what']}: {errors}"
        of_records.add(name, is_right=errors == row["errors"])

    wrapped = _Share("wrapped causes are groups of their own")
    for row in _rows(folder, "wrapped-logs*.jsonl"):
        logged = list(filter(None, map(logged_error, row["records"])))
        places = _places(_Error(error.type, error.message, error.frames) for error in logged)
        has_all = len(logged) == len(row["records"])
        is_right = has_all and len(set(places.groups)) == row["groups"]
        wrapped.add(f"{row['id']} {row['what']}", is_right=is_right)

    shapes = _Share("kinds of job by framework")
    for row in _rows(folder, "shapes*.jsonl"):
        keys = {signature_of(row[name], None, None, None).group_key for name in ("a", "b")}
        shapes.add(row["what"], is_right=len(keys) == row["groups"])

    for share in (of_records, wrapped, shapes):
        share.print(is_verbose=is_verbose)


def _errors_of_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield type and text of each error that the records of some lines have."""
    events = [LogEvent("group", "stream", number, line) for number, line in enumerate(lines)]
    for record in records(events):
        error = logged_error(record.text)
        if error:
            yield [error.type, error.message]


def _print_templates(folder: Path) -> None:
    """Print the grouping accuracy of lines of logs, by groups and by rows."""
    by_groups = list[float]()
    by_rows = list[float]()
    for system, lines in _by_value(_rows(folder, "loghub-*.jsonl.xz"), "system").items():
        events = [line["event"] for line in lines]
        places = _places_of_texts("Error", (line["content"] for line in lines))
        by_groups.append(_grouping_accuracy(events, places.groups))
        by_rows.append(_grouping_accuracy(events, places.rows))
        _print(f"grouping accuracy, {system}: {by_groups[-1]:.3f}, by rows {by_rows[-1]:.3f}")

    if by_groups:
        _print(f"grouping accuracy, mean: {_mean(by_groups):.3f}, by rows {_mean(by_rows):.3f}")


def _grouping_accuracy(events: Sequence[str], ids: Sequence[str]) -> float:
    """Return the share of lines whose group has all lines of their event, and no other."""
    line_counts = Counter(ids)
    event_counts = Counter(events)
    exact_count = 0
    for (event, group_id), count in Counter(zip(events, ids, strict=True)).items():
        if count == event_counts[event] == line_counts[group_id]:
            exact_count += count
    return exact_count / len(events)


_MOST_OF_A_GROUP = 20_000
_Cause = frozenset[tuple[str, str]]


def _differences_of_case(row: Row) -> list[_Cause]:
    """Return the differences of the group of failed messages of one case."""
    features = []
    bad_counts = []
    good_counts = []
    for leaf in row["leaves"]:
        features.append(_features_of_leaf(leaf))
        bad_counts.append(leaf["_bad"])
        good_counts.append(leaf["_all"] - leaf["_bad"])

    bad = _drawn(features, bad_counts)
    good = _drawn(features, good_counts)
    total = len(bad) + len(good)
    sampled = pa.table(
        {
            "group_id": ["bad"] * len(bad) + ["good"] * len(good),
            "chance": list(range(total)),
            "is_by_shape": [False] * total,
            "features": [*bad, *good],
            "shape": ["one"] * total,
            "failed_at": [math.nan] * total,
        }
    )
    counts = {"bad": len(bad), "good": len(good)}
    differences = differences_among(sampled, counts, Masks()).get("bad", ())
    return list(map(_fields_of, differences))


def _drawn(features: Sequence[str], counts: Sequence[int]) -> Sequence[str]:
    """Draw some messages of all leaves, which have *counts*; return the features of each."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    np.random.default_rng(0).shuffle(numbers)
    return [features[number] for number in numbers[:_MOST_OF_A_GROUP]]


def _features_of_leaf(leaf: Row) -> str:
    fields = {name: value for name, value in leaf.items() if not name.startswith("_")}
    return features_of(json.dumps(fields), 0, (), {})


def _fields_of(difference: Difference) -> _Cause:
    return frozenset((part.field.removeprefix("body."), part.value) for part in difference.parts)


def _true_causes(row: Row) -> set[_Cause]:
    causes = set()
    for cause in row["causes"]:
        causes.add(frozenset((mask_name(name), value) for name, value in cause.items()))
    return causes


def _print_causes(folder: Path) -> None:
    """Print how often the differences are the true causes of the failed messages."""
    _print_first_causes(_rows(folder, "robustspot-*.jsonl.xz"))
    _print_cause_scores(_by_value(_rows(folder, "squeeze-*.jsonl.xz"), "setting"))


def _print_first_causes(cases: Iterable[Row]) -> None:
    case_count = 0
    first_count = 0
    among_count = 0
    for case in cases:
        causes = _true_causes(case)
        differences = _differences_of_case(case)
        case_count += 1
        if differences and differences[0] in causes:
            first_count += 1
        if causes.intersection(differences):
            among_count += 1

    if case_count:
        _print(f"exact cause first: {first_count} of {case_count}, among five: {among_count}")


def _print_cause_scores(cases_of_setting: Mapping[str, Sequence[Row]]) -> None:
    scores = list[float]()
    for setting, cases in cases_of_setting.items():
        right_count = 0
        count = 0
        for case in cases:
            causes = _true_causes(case)
            differences = set(_differences_of_case(case))
            right_count += 2 * len(causes & differences)
            count += len(causes) + len(differences)
        scores.append(right_count / count)
        _print(f"F1, {setting}: {scores[-1]:.3f}")

    if scores:
        _print(f"F1, mean: {_mean(scores):.3f}")


def main(folder: Path, *, is_verbose: bool = False) -> None:
    """Print the figures of all that *folder* has."""
    _print_groups(folder, is_verbose=is_verbose)
    _print_bugs(folder, is_verbose=is_verbose)
    _print_logs(folder, is_verbose=is_verbose)
    _print_templates(folder)
    _print_causes(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_verbose="--failed" in sys.argv[2:])
