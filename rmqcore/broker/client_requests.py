"""Requests of the broker to clients: matching the answers, and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from rmqcore.broker.channel import Channel, Loop, Timer
from rmqcore.remoting.command import RemotingCommand

OnAnswer = Callable[[RemotingCommand | None], object]
"""Called once: with the response, or with None where the time is over or the connection closed."""
_OPAQUES = 1 << 31


class ClientRequests:
    """The requests that no client has answered yet. Its methods are called by the loop's thread only.

    Source: RocketMQ 5.5.0 NettyRemotingAbstract#invokeSyncImpl, #processResponseCommand; Broker2Client#callClient.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._opaques = count(1)
        self._waiting: dict[tuple[Channel, int], tuple[OnAnswer, Timer]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(
        self, channel: Channel, request: RemotingCommand, on_answer: OnAnswer, timeout_ms: int
    ) -> None:
        """Send a request under a number of the broker's own, and call `on_answer` later, never during this call."""
        opaque = next(self._opaques) % _OPAQUES
        request.opaque = opaque
        timer = self._loop.call_later(
            timeout_ms / 1000, partial(self._finish, (channel, opaque), None)
        )
        self._waiting[channel, opaque] = on_answer, timer
        if channel.closed:
            self._loop.call_soon_threadsafe(partial(self.channel_closed, channel))
        else:
            channel.send(request)

    def answered(self, channel: Channel, response: RemotingCommand) -> None:
        """Pass a response to the caller that asked; it is dropped if no caller waits for it any more."""
        self._finish((channel, response.opaque), response)

    def channel_closed(self, channel: Channel) -> None:
        """Report to all callers that wait for a client that it will not answer."""
        for key in [key for key in self._waiting if key[0] is channel]:
            self._finish(key, None)

    def _finish(self, key: tuple[Channel, int], response: RemotingCommand | None) -> None:
        found = self._waiting.pop(key, None)
        if found is not None:
            on_answer, timer = found
            timer.cancel()
            on_answer(response)
