"""A task's end of the line to its driver: the ``Gate`` that every call passes through."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spark_reprocess.redrive.pace import MOST_IN_A_CALL

SILENCE_SECONDS = 10.0
"""How long a task sends on without hearing from its driver, which speaks every second."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where tasks find their driver.

    Attributes:
        token: what makes a caller one of this run's tasks.
        call_messages: the most messages for one call.
        is_paced: whether each call has to be asked for.
    """

    host: str
    port: int
    token: str
    call_messages: int = MOST_IN_A_CALL
    is_paced: bool = False


class DriverUnreachableError(Exception):
    """There is no way from a task to its driver; the task has sent nothing."""


class Conducted:
    """A ``Gate`` that the driver opens; closed for good once the driver is gone or says stop."""

    def __init__(
        self,
        line: socket.socket,
        address: Address,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        """Take over a fresh connection to *address*; its time-out is how long silence may be.

        *now_seconds* goes on while the machine sleeps, which sockets' time-outs do not.
        """
        self.call_messages = address.call_messages
        self._is_paced = address.is_paced
        self._line = line
        self._changed = threading.Condition()
        self._asked = 0
        self._granted: dict[int, bool] = {}
        self._stopped_by = ""
        self._now_seconds = now_seconds
        self._silence_seconds = line.gettimeout() or SILENCE_SECONDS
        self._heard_at = now_seconds()
        self._say("hello", address.token)

    @property
    def stopped_by(self) -> str:
        """Why nothing more may be sent; empty while all is well."""
        return self._stopped_by

    def enter(self, messages: int, seconds: float) -> bool:
        """See ``Gate``."""
        if not self._hears():
            return False
        if not self._is_paced:
            return not self._stopped_by
        with self._changed:
            self._asked += 1
            number = self._asked
            self._granted[number] = False
            self._say("ask", number, messages)
            self._changed.wait_for(lambda: self._granted[number] or self._stopped_by, seconds)
            is_granted = self._granted.pop(number)
        if is_granted and self._stopped_by:
            self.leave(messages)
        return is_granted and not self._stopped_by

    def leave(self, messages: int) -> None:
        """See ``Gate``."""
        if self._is_paced:
            self._say("end", messages)

    def pause(self, seconds: float) -> None:
        """See ``Gate``."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped_by, seconds)

    def report(self, counts: Mapping[str, int]) -> None:
        """See ``Gate``."""
        self._say("report", counts)

    def stop(self, why: str) -> None:
        """See ``Gate``."""
        self._say("stop", why)
        self._close(why)

    def listen(self) -> None:
        """Heed the driver until it is gone; the body of a thread of its own."""
        try:
            with self._line.makefile("rb") as lines:
                for line in lines:
                    with self._changed:
                        self._heard_at = self._now_seconds()
                        self._changed.notify_all()
                    self._heed(*json.loads(line))
            self._close("the driver is gone")
        except TimeoutError:
            self._close(f"the driver has been silent for {self._line.gettimeout():.0f} s")
        except (OSError, ValueError):
            self._close("the line to the driver broke")

    def _hears(self) -> bool:
        """Whether the driver has spoken lately; after a silence, wait for its next word.

        A machine that slept goes on as if nothing had been, and meanwhile its run may have come to
        count as dead. The driver knows, and asks itself before it speaks.
        """
        if self._silence() <= self._silence_seconds:
            return True
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped_by or self._silence() <= self._silence_seconds,
                self._silence_seconds,
            )
            if self._silence() > self._silence_seconds:
                self._close(f"the driver has been silent for {self._silence():.0f} s")
            return not self._stopped_by

    def _silence(self) -> float:
        return self._now_seconds() - self._heard_at

    def _heed(self, word: str, *details: Any) -> None:  # noqa: ANN401 - JSON
        match word:
            case "go":
                self._grant(*details)
            case "stop":
                self._close(*details)

    def _grant(self, number: int, messages: int) -> None:
        with self._changed:
            is_awaited = number in self._granted
            if is_awaited:
                self._granted[number] = True
                self._changed.notify_all()
        if not is_awaited:
            self.leave(messages)

    def _close(self, why: str) -> None:
        with self._changed:
            self._stopped_by = self._stopped_by or why
            self._changed.notify_all()

    def _say(self, *words: object) -> None:
        # One small write; where the line is broken, ``listen`` learns of it and closes the gate.
        with self._changed, suppress(OSError):
            self._line.sendall(json.dumps(words).encode() + b"\n")


@contextmanager
def conducted(
    address: Address,
    silence_seconds: float = SILENCE_SECONDS,
    now_seconds: Callable[[], float] = time.time,
) -> Iterator[Conducted]:
    """Connect to the driver for as long as the block lasts.

    Raises:
        DriverUnreachableError: there is no way to it.
    """
    try:
        line = socket.create_connection((address.host, address.port), silence_seconds)
    except OSError as error:
        raise DriverUnreachableError(
            f"a task cannot reach the driver at {address.host}:{address.port}: "
            f"{error.strerror or error}; executors need a way to every port of spark.driver.host"
        ) from error
    with line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gate = Conducted(line, address, now_seconds)
        listener = threading.Thread(target=gate.listen, name="driver", daemon=True)
        listener.start()
        try:
            yield gate
        finally:
            # The driver reads to our end and closes; to close first could lose what was said last.
            with suppress(OSError):
                line.shutdown(socket.SHUT_WR)
            listener.join()
