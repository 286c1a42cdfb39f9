"""Our signature is botocore's, to the byte: whatever is sent, by whom, where to and when."""

from datetime import UTC, datetime
from typing import cast
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import example, given
from hypothesis import strategies as st

from dlq_replay.signing import FrozenCredentials, Signer, can_sign

_KEYS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", min_size=1)
_URLS = st.sampled_from(
    [
        "https://sqs.eu-central-1.amazonaws.com",
        "https://sqs.eu-central-1.amazonaws.com:443/",
        "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com",
        "http://127.0.0.1:5000",
        "http://localhost:80",
        "http://[::1]:5000",
        "http://gateway.example/aws/sqs~1/q%20",
    ]
)
_TOKENS = st.none() | _KEYS | st.just(" a  token that was pasted\n")
_CREDENTIALS = st.builds(ReadOnlyCredentials, _KEYS, _KEYS, _TOKENS)
_TIMES = st.datetimes(datetime(2015, 8, 30), datetime(2099, 12, 31))  # noqa: DTZ001 - given a zone below

OWN = {
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": "AmazonSQS.SendMessageBatch",
    "x-amzn-query-mode": "true",
}


def botocore_s(
    url: str, region: str, body: bytes, credentials: ReadOnlyCredentials, now: datetime
) -> dict[str, str]:
    request = AWSRequest("POST", url, OWN, body)
    with patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        SigV4Auth(credentials, "sqs", region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(
    url=_URLS,
    region=st.sampled_from(["eu-central-1", "us-gov-west-1", "cn-north-1"]),
    bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    credentials=st.lists(_CREDENTIALS, min_size=1, max_size=2),
    times=st.lists(_TIMES, min_size=1, max_size=2),
)
@example(
    url="https://sqs.eu-central-1.amazonaws.com",
    region="eu-central-1",
    bodies=[b"{}"],
    credentials=[ReadOnlyCredentials("AK", "secret", ""), ReadOnlyCredentials("AK", "new", "t")],
    times=[datetime(2026, 12, 31, 23, 59, 59), datetime(2027, 1, 1)],  # noqa: DTZ001 - as above
)
def test_one_signer_signs_as_botocore_does(
    url: str,
    region: str,
    bodies: list[bytes],
    credentials: list[ReadOnlyCredentials],
    times: list[datetime],
) -> None:
    signer = Signer(url, region)
    for now in (time.replace(tzinfo=UTC) for time in times):
        for own in credentials:
            for body in bodies:
                ours = signer.headers(OWN, body, cast("FrozenCredentials", own), now)
                theirs = botocore_s(url, region, body, own, now)

                assert ours.pop("host")
                if own.token:
                    assert ours.pop("x-amz-security-token").split() == own.token.split()
                    assert theirs.pop("x-amz-security-token").split() == own.token.split()
                assert ours == theirs


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("https://sqs.eu-central-1.amazonaws.com", True),
        ("http://127.0.0.1:5000/", True),
        ("http://gateway.example/aws/sqs", True),
        ("http://gateway.example//", False),
        ("http://gateway.example/a//b", False),
        ("http://gateway.example/a/..", False),
        ("http://gateway.example/./a", False),
        ("http://gateway.example/?a=1", False),
    ],
)
def test_urls_whose_signature_is_not_plain_are_left_to_botocore(url: str, is_known: bool) -> None:
    assert can_sign(url) is is_known
