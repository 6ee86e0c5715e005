"""Protocols of a connection and its loop, as the broker uses them; tests have stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rmqcore.remoting.command import RemotingCommand


class Channel(Protocol):
    """A connection of a client. Connections compare by identity, and may be keys of a dict."""

    @property
    def peer(self) -> str:
        """Address of the client as ``ip:port``; ``[ip]:port`` for IPv6."""
        ...

    @property
    def closed(self) -> bool:
        """True if the connection is closed: nothing that is sent arrives any more."""
        ...

    def send(self, command: RemotingCommand) -> None:
        """Send a command, or drop it if the connection is closed. Called by the loop's thread only."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Asker(Channel, Protocol):
    """A channel over which requests come, which are answered in their order."""

    def hold(self) -> None:
        """Leave the requests that follow unanswered until `release` was called once for each `hold`."""
        ...

    def release(self) -> None:
        """Continue with the requests that followed. Called by the loop's thread only."""
        ...

    def keep(self, size: int) -> None:
        """Count bytes that a waiting request keeps; a negative number frees them. Above a bound, requests wait."""
        ...


class Timer(Protocol):
    """A call that was asked for at a later time."""

    def cancel(self) -> None:
        """Do not call."""
        ...


class Loop(Protocol):
    """The part of asyncio's event loop that a broker uses."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call in the loop's thread after `delay` seconds."""
        ...

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Call in the loop's thread as soon as it is free; the only method that other threads may call."""
        ...
