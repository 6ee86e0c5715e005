"""One request with all that its handler needs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from sys import getsizeof
from typing import TYPE_CHECKING

from rmqcore.broker.channel import Asker, Channel
from rmqcore.errors import RequestError, StoreError
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand, code_name
from rmqcore.remoting.request_fields import RequestFields, parse_fields

if TYPE_CHECKING:
    from rmqcore.broker.broker import Broker

_WAITING_BYTES = 1_000
"""A request that waits, without its body."""
_LOG = logging.getLogger("rmqcore.broker")


class Call:
    """A request that came over a channel.

    A handler returns the response; or None, and then calls `answer` itself, at once or later, or never if the request
    wants no answer.

    Attributes
    ----------
    broker : Broker
    request : RemotingCommand
    channel : Asker
    code : RequestCode
    fields : RequestFields
        By RocketMQ's long names, each with its type.

    Raises
    ------
    RequestError
        A field is missing or no value of its type.
    """

    __slots__ = ("_kept", "broker", "channel", "code", "fields", "request")

    def __init__(self, broker: Broker, request: RemotingCommand, channel: Asker) -> None:
        self.broker = broker
        self.request = request
        self.channel = channel
        self._kept = 0
        self.code = RequestCode(request.code)
        self.fields: RequestFields = parse_fields(self.code, request.ext_fields)

    def respond(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        *,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return a response to the request; it is not sent."""
        return self.request.response(code, remark, ext_fields=ext_fields, body=body)

    def answer(self, response: RemotingCommand) -> None:
        """Send a response, unless the request wants none. Called by the loop's thread only."""
        if not self.request.is_oneway:
            self.channel.send(response)
        if self._kept:
            kept, self._kept = self._kept, 0
            self.channel.keep(-kept)

    def keep(self, size: int) -> None:
        """Count bytes, for example a message's, that the request keeps, one-way or not, until `answer` is called."""
        kept = size + _WAITING_BYTES
        self._kept += kept
        self.channel.keep(kept)

    def drop_frame(self) -> None:
        """Drop the frame of a waiting request, which only `fields` need: the limits of buffers do not count it."""
        self.request.body = b""
        self.request.remark = None
        self.request.ext_fields = {}

    def memory_bytes(self) -> int:
        """Estimated bytes that the texts of a request take while it waits without its frame."""
        return sum(getsizeof(value) for value in self.fields.values())


def error_response(
    request: RemotingCommand, channel: Channel, error: BaseException
) -> RemotingCommand:
    """Return the response to a request whose handler raised; an error that the request did not cause is logged."""
    if isinstance(error, RequestError):
        return request.response(ResponseCode.SYSTEM_ERROR, str(error))
    is_known = isinstance(error, StoreError | OSError | ValueError)
    level, trace = (logging.WARNING, None) if is_known else (logging.ERROR, error)
    _LOG.log(level, "%s of %s: %s", code_name(request.code), channel.peer, error, exc_info=trace)
    return request.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def answer_later(call: Call, step: Callable[[], RemotingCommand | None]) -> None:
    """Run a step of a call whose handler has returned, and send the response; an error becomes a response too."""
    try:
        response = step()
    except Exception as error:  # noqa: BLE001 as in `handle`: the client gets an answer, and the loop continues
        response = error_response(call.request, call.channel, error)
    if response is not None:
        call.answer(response)
