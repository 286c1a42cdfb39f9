import inspect
import re

import pytest

from spark_reprocess.errors import InputError
from spark_reprocess.sql import SqsDataSource
from spark_reprocess.sql.options import PeekOptions, SendOptions, peek_options, send_options
from tests.builders import queue_url

URL = queue_url("parked")


def test_a_look_needs_only_the_queue() -> None:
    assert peek_options({"queueUrl": URL}) == PeekOptions(URL)


def test_option_names_know_no_case() -> None:
    options = {"QUEUEURL": URL, "Limit": "7", "waitseconds": "0", "giveback": "FALSE"}

    assert peek_options(options) == PeekOptions(URL, limit=7, wait_seconds=0, gives_back=False)


def test_the_sinks_options_are_its_own() -> None:
    assert send_options({"queueUrl": URL, "attempts": "5"}) == SendOptions(URL, attempts=5)
    with pytest.raises(InputError, match="limit: is not known; known are queueUrl, attempts"):
        send_options({"queueUrl": URL, "limit": "5"})


def test_every_fault_is_named_at_once() -> None:
    options = {"waitSeconds": "21", "limt": "5", "giveBack": "maybe", "limit": "0"}

    with pytest.raises(InputError) as raised:
        peek_options(options)

    text = str(raised.value)
    assert "waitSeconds: '21': must be a whole number from 0 to 20" in text
    assert "limt: is not known" in text
    assert "giveBack: 'maybe': must be true or false" in text
    assert "limit: '0': must be a whole number from 1 to 1,000,000" in text
    assert "queueUrl: is missing" in text


@pytest.mark.parametrize("text", ["", "parked", "https://host/only-one-part", "arn:aws:sqs:a:b:c"])
def test_a_queue_url_is_one(text: str) -> None:
    with pytest.raises(InputError, match=r"queueUrl: .*must be a queue URL"):
        peek_options({"queueUrl": text})


@pytest.mark.parametrize("text", ["1.5", "-1", "٣", "1e3", "0x10", "50000", " 5"])
def test_a_number_is_whole_and_in_range(text: str) -> None:
    with pytest.raises(InputError, match="visibilityTimeoutSeconds"):
        peek_options({"queueUrl": URL, "visibilityTimeoutSeconds": text})


def test_the_manual_names_every_option_with_its_default() -> None:
    manual = inspect.getdoc(SqsDataSource) or ""
    rows = re.findall(r"^``(\w+)``\s+(\S+)  ", manual, re.MULTILINE)
    with pytest.raises(InputError) as raised:
        peek_options({"nosuch": "1"})

    known = re.findall(r"known are (.*)", str(raised.value))[0].split(", ")
    assert [name for name, _ in rows] == known
    defaults = {name: default for name, default in rows if default != "required"}
    assert peek_options({"queueUrl": URL, **defaults}) == PeekOptions(URL)
