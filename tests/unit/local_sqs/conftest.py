import pytest

from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver
from local_sqs.front import Front
from local_sqs.model import SqsModel


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def front(clock: VirtualClock) -> Front:
    return Front(SqsModel(clock, seed=1))


@pytest.fixture
def sqs(front: Front) -> Driver:
    return Driver(client_for(front))
