"""What a task asks before it sends, and whom it tells how far it is."""

from collections.abc import Mapping
from typing import Protocol


class Gate(Protocol):
    """Every call passes through it. Safe to share between threads."""

    @property
    def call_messages(self) -> int:
        """The most messages for one call."""

    @property
    def stopped_by(self) -> str:
        """Why nothing more may be sent by anybody; empty while all is well."""

    def enter(self, messages: int, seconds: float) -> bool:
        """Wait until so many messages may go, *seconds* at most; return whether they may.

        After True the caller sends at once, and calls ``leave`` whatever comes of it.
        """

    def leave(self, messages: int) -> None:
        """Say that a call has ended."""

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than anybody may send."""

    def report(self, counts: Mapping[str, int]) -> None:
        """Say what became of a chunk's messages, by word."""

    def stop(self, why: str) -> None:
        """Stop all tasks: *why* concerns them all. The first reason is the one that counts."""
