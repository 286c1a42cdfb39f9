import pytest

from spark_reprocess.clients import region_of, require_queue_url
from spark_reprocess.errors import InputError


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("sqs-fips.us-east-2.amazonaws.com", "us-east-2"),
        ("eu-west-1.queue.amazonaws.com", "eu-west-1"),
        ("vpce-0a1b-cd.sqs.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("sqs.ap-southeast-2.api.aws", "ap-southeast-2"),
    ],
)
def test_host_of_the_queue_names_its_region(host: str, region: str) -> None:
    assert region_of(f"https://{host}/123456789012/q", "us-east-1") == region


def test_local_endpoint_takes_the_region_of_the_environment() -> None:
    assert region_of("http://127.0.0.1:4566/123456789012/q", "us-east-1") == "us-east-1"


def test_missing_region_is_an_error_that_says_the_fix() -> None:
    with pytest.raises(InputError, match="names no Region; set AWS_REGION"):
        region_of("http://127.0.0.1:4566/123456789012/q", None)


def test_wrong_queue_url_is_named_with_its_option() -> None:
    with pytest.raises(InputError, match="--to-queue-url orders: must be a queue URL"):
        require_queue_url("--to-queue-url", "orders")
