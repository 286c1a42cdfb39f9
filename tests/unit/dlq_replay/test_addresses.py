from collections.abc import Callable

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


PATHS = ("", "/", "/orders", "/a/b/c", "/1//orders", "/1/orders/more")


@pytest.mark.parametrize(
    ("read", "kind", "given"),
    [
        *((QueueAddress.from_url, "URL", f"https://host{path}") for path in PATHS),
        *((QueueAddress.from_url, "URL", url) for url in ("", "orders", "ftp://h/a/b")),
        *((QueueAddress.from_arn, "ARN", arn) for arn in ("", "orders", "arn:aws:sqs:r:1:a:b")),
        (QueueAddress.from_arn, "ARN", "arn:aws:sns:us-east-1:123456789012:orders"),
    ],
)
def test_address_of_another_form_is_refused(
    read: Callable[[str], object], kind: str, given: str
) -> None:
    with pytest.raises(ValueError, match=f"must be a queue {kind}"):
        read(given)


@pytest.mark.parametrize(("name", "is_fifo"), [("orders.fifo", True), ("orders", False)])
def test_fifo_queue_is_known_by_its_suffix(name: str, is_fifo: bool) -> None:
    arn = f"arn:aws-cn:sqs:cn-north-1:123456789012:{name}"

    assert is_fifo == QueueAddress.from_arn(arn).is_fifo
