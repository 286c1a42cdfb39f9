from botocore.exceptions import ClientError

from dlq_replay.aws.breaker_table import read_deletions


class Denying:
    def get_metric_statistics(self, **_: object) -> object:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetMetricStatistics")


def test_a_metric_that_cannot_be_read_is_unknown() -> None:
    assert read_deletions(Denying, "orders", 0, 60) == {}
