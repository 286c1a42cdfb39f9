import pytest

from tests.sqs_world.client import client_for
from tests.sqs_world.clock import VirtualClock
from tests.sqs_world.driver import Driver
from tests.sqs_world.front import Front
from tests.sqs_world.model import SqsModel


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def front(clock: VirtualClock) -> Front:
    return Front(SqsModel(clock, seed=1))


@pytest.fixture
def sqs(front: Front) -> Driver:
    return Driver(client_for(front))
