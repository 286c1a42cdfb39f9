import pytest

from dlq.aws.clients import dead_letter_sources, region_of, require_queue_url
from dlq.errors import InputError
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://sqs-fips.us-east-2.amazonaws.com", "us-east-2"),
        ("https://eu-west-1.queue.amazonaws.com", "eu-west-1"),
        ("https://vpce-0a1b-cd.sqs.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("https://sqs.ap-southeast-2.api.aws", "ap-southeast-2"),
        ("http://127.0.0.1:4566", "us-east-1"),
    ],
)
def test_host_of_the_queue_names_its_region_or_the_environment_does(host: str, region: str) -> None:
    assert region_of(f"{host}/123456789012/q", "us-east-1") == region


def test_missing_region_is_an_error_that_says_the_fix() -> None:
    with pytest.raises(InputError, match="names no Region; set AWS_REGION"):
        region_of("http://127.0.0.1:4566/123456789012/q", None)


def test_all_sources_of_a_dlq_are_found_over_several_pages() -> None:
    front = Front.of(SqsModel(VirtualClock()))
    dlq = ModelQueue(front, "dlq")
    policy = f'{{"deadLetterTargetArn":"{dlq.arn}","maxReceiveCount":"5"}}'
    for number in range(1001):
        ModelQueue(front, f"main-{number}", RedrivePolicy=policy)

    sources = dead_letter_sources(dlq.url, lambda _: client_for(front))

    assert sources is not None
    assert len(sources) == 1001


def test_wrong_queue_url_is_named_with_its_option() -> None:
    with pytest.raises(InputError, match="--to-queue-url orders: must be a queue URL"):
        require_queue_url("--to-queue-url", "orders")
