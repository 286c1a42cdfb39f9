"""The demo's consumer as a Lambda function, ``app:lambda_handler``, for ``dlq rehearse``.

It is the product's sample consumer with the shop's work. The payments service is up. ``DEMO_FIXED``
names the bugs that are fixed, separated by commas; see ``business.Bug``.
"""

import os
from typing import TYPE_CHECKING

from demo.business import FIXED, Bug, Payments, Shop
from demo.functions import cold_start
from demo.identity import from_record
from demo.workload import DemoMessage

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

_payments = Payments(lambda _: None)
_payments.note_probe_return(TimeoutError.__name__)
_shop = Shop(_payments)
for _bug in filter(None, os.environ.get(FIXED, "").split(",")):
    _shop.fix_bug(Bug(_bug))


def _work(record: "SQSRecord") -> None:
    content = from_record(record.raw_event)
    _shop.process(DemoMessage.of(0, content), content.replay_count)


_sample = cold_start("sample_consumer")
_sample.work = _work
lambda_handler = _sample.lambda_handler
