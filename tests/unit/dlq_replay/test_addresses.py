import pytest

from dlq_replay.wire.addresses import QueueAddress


@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.eu-central-1.amazonaws.com/123456789012/orders",
        "https://eu-central-1.queue.amazonaws.com/123456789012/orders",
        "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/orders",
        "http://localhost:5000/123456789012/orders",
        "http://localhost:4566/queue/eu-central-1/123456789012/orders",
        "http://localhost:4566/queue/eu-central-1/123456789012/orders/",
    ],
)
def test_address_is_the_same_behind_every_host(url: str) -> None:
    assert QueueAddress("123456789012", "orders") == QueueAddress.from_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "orders",
        "https://host",
        "https://host/",
        "https://host/orders",
        "https://host/a/b/c",
        "https://host/1//orders",
        "https://host/1/orders/more",
        "ftp://h/a/b",
    ],
)
def test_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be a queue URL"):
        QueueAddress.from_url(url)


@pytest.mark.parametrize(
    "arn",
    ["", "orders", "arn:aws:sns:us-east-1:123456789012:orders", "arn:aws:sqs:us-east-1:1:a:b"],
)
def test_arn_of_another_form_is_refused(arn: str) -> None:
    with pytest.raises(ValueError, match="must be a queue ARN"):
        QueueAddress.from_arn(arn)


@pytest.mark.parametrize(("name", "is_fifo"), [("orders.fifo", True), ("orders", False)])
def test_fifo_queue_is_known_by_its_suffix(name: str, is_fifo: bool) -> None:
    arn = f"arn:aws-cn:sqs:cn-north-1:123456789012:{name}"

    assert is_fifo == QueueAddress.from_arn(arn).is_fifo
