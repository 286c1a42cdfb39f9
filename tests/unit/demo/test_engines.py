import socket
from typing import Self

import pytest

from demo.sam_local.engines import two_free_ports


def test_two_ports_differ_also_where_a_released_one_is_chosen_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = set[int]()

    class Socket:
        """A socket of a system that always chooses the lowest free port."""

        def __init__(self) -> None:
            self.port = 0

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            held.discard(self.port)

        def bind(self, address: tuple[str, int]) -> None:
            assert address == ("127.0.0.1", 0)
            self.port = next(one for one in (50_001, 50_002) if one not in held)
            held.add(self.port)

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", self.port

    monkeypatch.setattr(socket, "socket", Socket)

    assert two_free_ports() == (50_001, 50_002)
    assert held == set()
