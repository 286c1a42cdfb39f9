"""Apply a policy to the groups of an analysis: the first rule that matches decides."""

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_reprocess.analysis.outputs import GROUPS_SCHEMA
from spark_reprocess.archive.files import read_text
from spark_reprocess.errors import InputError
from spark_reprocess.plan.policy import Policy, Rule, read_policy
from spark_reprocess.plan.yaml_text import Fault, refuse
from spark_reprocess.spark.allowed_sql import Place, condition, matching
from spark_reprocess.spark.failures import SPARK_FAILURES, condition_of


def load_policy(spark: SparkSession, location: str, sha256: str | None = None) -> Policy:
    """Read a policy's file, on disk or on S3, and check all of it.

    *sha256* is the SHA-256 that the file must have, in hex; None for any.

    Raises:
        InputError: there is no such file, it has another hash, or it has faults; all are named with
            their places.
        ArchiveError: S3 does not let us read it.
    """
    try:
        text = read_text(location)
    except InputError as error:
        raise InputError(f"--policy {error}") from error
    policy = read_policy(text, sha256, location)
    check_conditions(spark, policy, location)
    return policy


def check_conditions(spark: SparkSession, policy: Policy, name: str = "the policy") -> None:
    """Check every rule's condition against the columns of groups, before anything is done.

    Raises:
        InputError: some are no SQL or name columns that there are not; all are named with
            their places.
    """
    empty = spark.createDataFrame(GROUPS_SCHEMA.empty_table())
    faults: list[Fault] = []
    for index, rule in enumerate(policy.rules):
        try:
            matching(empty, rule.when, Place.POLICY_WHEN)
        except InputError as error:
            faults.append((("rules", index, "when"), f"rule {rule.name!r}: {error}"))
    refuse(name, faults)


def rules_by_group(spark: SparkSession, policy: Policy, groups: pa.Table) -> dict[str, Rule]:
    """Return the rule that decides about each group; groups that none matches are not in it.

    *groups* are the rows of ``groups.parquet``; the conditions must have been checked.

    Raises:
        InputError: a condition fails on a group (a bad cast, say).
    """
    if not groups.num_rows:
        return {}
    frame = spark.createDataFrame(groups)
    flags = [
        condition(frame, rule.when, Place.POLICY_WHEN).alias(f"rule_{n}")
        for n, rule in enumerate(policy.rules)
    ]
    try:
        rows = frame.select("group_id", *flags).collect()
    except SPARK_FAILURES as error:
        raise InputError(
            f"a condition of the policy fails on a group: {condition_of(error)}; "
            "use forms that give null instead, e.g. try_cast"
        ) from error
    # The first rule that matches comes last, and replaces the others.
    return {
        row["group_id"]: rule
        for row in rows
        for n, rule in reversed([*enumerate(policy.rules)])
        if row[f"rule_{n}"]
    }
