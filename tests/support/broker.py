"""What a broker is tested with: a connection and a loop without sockets, whose clock the test drives."""

from __future__ import annotations

import queue
from collections.abc import Callable
from itertools import count

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.client_memory import ClientMemory
from rmqcore.remoting.command import RemotingCommand

MOST_SECONDS = 60.0
"""How long another thread may need for what a test waits for."""


class FakeChannel:
    """A connection that keeps what is sent over it."""

    def __init__(self, peer: str = "127.0.0.1:40000") -> None:
        self.peer = peer
        self.closed = False
        self.sent: list[RemotingCommand] = []
        self.held = self.kept = 0

    def send(self, command: RemotingCommand) -> None:
        if not self.closed:
            self.sent.append(command)

    def close(self) -> None:
        self.closed = True

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1

    def keep(self, size: int) -> None:
        self.kept += size


class FakeTimer:
    """A call of a `FakeLoop` at a later time."""

    def __init__(self, due_ms: int, number: int, callback: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.number = number
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """A loop that runs while a test calls `run`, `run_until` or `advance`.

    Attributes
    ----------
    now_ms : int
        The clock, for the loop's timers and, as `clock`, for a broker.
    stepped_ms : int
        How far the broker's clock has been set forward or back.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self.stepped_ms = 0
        self._timers: list[FakeTimer] = []
        self._soon: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._numbers = count()

    def clock(self) -> int:
        return self.now_ms + self.stepped_ms

    def call_later(self, delay: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(self.now_ms + round(delay * 1000), next(self._numbers), callback)
        self._timers.append(timer)
        return timer

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        self._soon.put(callback)
        return None

    def run(self) -> None:
        """Make all calls that are due now."""
        while not self._soon.empty():
            self._soon.get()()

    def run_until(self, done: Callable[[], bool]) -> None:
        """Make calls, those that other threads are still to ask for included, until something is so."""
        while not done():
            self._soon.get(timeout=MOST_SECONDS)()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and make each call when it is due."""
        end_ms = self.now_ms + milliseconds
        self.run()
        while due := [t for t in self._timers if not t.cancelled and t.due_ms <= end_ms]:
            timer = min(due, key=lambda t: (t.due_ms, t.number))
            self._timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.callback()
            self.run()
        self._timers = [t for t in self._timers if not t.cancelled]
        self.now_ms = end_ms

    def waiting_timers(self) -> int:
        """How many calls are asked for at a later time."""
        return sum(not timer.cancelled for timer in self._timers)


def ample(evict: Callable[[Channel], object] = Channel.close) -> ClientMemory:
    """Memory for clients that no test fills."""
    return ClientMemory(1 << 40, 1 << 40, evict)
