from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from dlq_replay.attributes import MessageAttribute
from spark_reprocess.sql import SqsDataSource
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import OWN, bodies, entry_of, parked, receive_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def sql(spark: "SparkSession") -> Iterator["SparkSession"]:
    spark.dataSource.register(SqsDataSource)
    yield spark
    spark.catalog.clearCache()


def look(sql: "SparkSession", url: str, **options: object) -> "DataFrame":
    reader = sql.read.format("sqs").option("queueUrl", url).option("waitSeconds", 0)
    for name, value in options.items():
        reader = reader.option(name, value)  # type: ignore[arg-type]
    return reader.load().cache()


def write(rows: "DataFrame", url: str) -> None:
    rows.write.format("sqs").option("queueUrl", url).mode("append").save()


def test_a_look_shows_typed_columns_and_deletes_nothing(
    sql: "SparkSession", make_queue: MakeQueue
) -> None:
    queue = make_queue("parked")
    queue.send([entry_of(parked(number, "too_old")) for number in range(1, 4)])

    seen = look(sql, queue.url)

    row = seen.where("get_json_object(body, '$.id') = 1").first()
    assert row is not None
    assert (row.parked_reason, row.replay_count) == ("too_old", 5)
    assert (row.error_type, row.first_id) == ("TimeoutError", "first-1")
    assert row.attributes["own-bytes"].binary_value == OWN["own-bytes"].value
    assert row.sent_at is not None
    assert len(receive_all(queue)) == 3


def test_a_look_with_a_limit_and_some_columns(sql: "SparkSession", make_queue: MakeQueue) -> None:
    queue = make_queue("parked")
    queue.send([entry_of(parked(number)) for number in range(10)])
    reader = sql.read.format("sqs").schema("message_id string, body_bytes long")

    seen = reader.option("queueUrl", queue.url).option("limit", 4).load().cache()

    assert seen.columns == ["message_id", "body_bytes"]
    assert seen.count() == 4


def test_faults_are_named_where_the_user_sees_them(
    sql: "SparkSession", make_queue: MakeQueue
) -> None:
    url = make_queue("parked").url

    with pytest.raises(AnalysisException, match=r"limit: 'none': must be a whole number"):
        look(sql, url, limit="none")
    with pytest.raises(AnalysisException, match="bodi: is not a column of this format"):
        sql.read.format("sqs").schema("bodi string").option("queueUrl", url).load().show()
    with pytest.raises(AnalysisException, match="a queue cannot be overwritten"):
        sql.sql("select 'b' body").write.format("sqs").option("queueUrl", url).mode(
            "overwrite"
        ).save()
    with pytest.raises(AnalysisException, match="body: is int; must be string"):
        write(sql.sql("select 1 body"), url)


def test_rows_become_messages(sql: "SparkSession", make_queue: MakeQueue) -> None:
    queue = make_queue("main")
    rows = sql.range(250).selectExpr(
        "concat('body ', id) body", "map('tenant', concat('t', id % 3)) attributes", "id ignored"
    )

    write(rows.repartition(3), queue.url)

    messages = receive_all(queue)
    assert sorted(bodies(messages)) == sorted(f"body {number}" for number in range(250))
    assert {one.attributes["tenant"] for one in messages} == {
        MessageAttribute("String", f"t{number}") for number in range(3)
    }


def test_what_was_looked_at_can_be_sent_elsewhere_without_loss(
    sql: "SparkSession", make_queue: MakeQueue
) -> None:
    source, target = make_queue("parked"), make_queue("main")
    source.send([entry_of(parked(number)) for number in range(1, 4)])

    write(look(sql, source.url).where("error_type = 'TimeoutError'"), target.url)

    arrived = receive_all(target)
    assert sorted(bodies(arrived)) == sorted(bodies([parked(1), parked(3)]))
    assert all(one.attributes.items() >= OWN.items() for one in arrived)


def test_fifo_groups_arrive_in_their_order(sql: "SparkSession", make_queue: MakeQueue) -> None:
    queue = make_queue("main.fifo")
    rows = sql.range(60).selectExpr(
        "concat(id % 3, ' ', lpad(id, 3, '0')) body",
        "concat('g', id % 3) message_group_id",
        "concat('d', id) deduplication_id",
    )

    write(rows.repartition(2, "message_group_id").sortWithinPartitions("body"), queue.url)

    messages = receive_all(queue)
    assert len(messages) == 60
    for group in "012":
        of_group = [one.body for one in messages if one.body.startswith(group)]
        assert of_group == sorted(of_group)


def test_a_write_that_could_not_send_all_says_so_and_keeps_what_it_sent(
    sql: "SparkSession", make_queue: MakeQueue
) -> None:
    queue = make_queue("main")
    rows = sql.sql("select '' body union all select 'fine' body")

    with pytest.raises(AnalysisException, match=r"1 rows were not sent, 1 were(.|\n)*body: is"):
        write(rows, queue.url)

    assert bodies(receive_all(queue)) == ["fine"]


def test_a_queue_that_is_gone_fails_the_write(sql: "SparkSession", make_queue: MakeQueue) -> None:
    url = make_queue("main").url + "-gone"

    with pytest.raises(AnalysisException, match=r"3 rows were not sent(.|\n)*NonExistentQueue"):
        write(sql.range(3).selectExpr("cast(id as string) body"), url)
