"""Errors of the network: invalid bytes or requests from peers, and failed requests of clients."""

from __future__ import annotations

from typing import Any

from rmqcore.errors.foreign_text import shortened
from rmqcore.errors.stores import StoreError, WithFields

# ---- the wire ---------------------------------------------------------------------------------------


class ProtocolError(WithFields, StoreError):
    """Bytes from a peer are not a frame or header of RocketMQ's protocol; the connection must be closed.

    Parameters
    ----------
    part : str
        What was read: ``frame``, ``JSON header`` or ``binary header``.
    pos : int
        Position of the field in that part, of a frame counted from its first byte.
    field : str
        The field that is wrong.
    expected, found : object
        What the field should hold, and what it holds.
    """

    part: str
    pos: int
    field: str
    expected: object
    found: object

    code = "PROTOCOL"
    hint = (
        "check address and port on both sides: the peer must use RocketMQ's remoting protocol, "
        "not gRPC, HTTP or TLS"
    )

    def __str__(self) -> str:
        return f"{self.part}@{self.pos}: {self.field} is {self.found}, expected {self.expected}"


class RequestError(WithFields, StoreError):
    """The fields or body of a request are invalid; the peer gets an error response, and the connection stays open.

    Parameters
    ----------
    request : str
        Name of the request code.
    field : str
        The field of the request or of its body.
    expected, found : object
        What the field should hold, and what it holds.
    """

    request: str
    field: str
    expected: object
    found: object

    code = "REQUEST"
    hint = "RocketMQ's clients do not send such a request: check the client's version"

    def __str__(self) -> str:
        return f"{self.request}: {self.field} is {self.found}, expected {self.expected}"


class FilterExpressionError(WithFields, StoreError):
    """The SQL92 expression of a subscription is invalid in RocketMQ.

    Parameters
    ----------
    text : str
        The expression.
    pos : int
        Position of the wrong word in the expression, counted from 0.
    expected, found : str
        The expected text at that position, and the text found.
    """

    text: str
    pos: int
    expected: str
    found: str

    code = "FILTER_EXPRESSION"
    hint = (
        "LIKE and arithmetic are not supported; put texts in single quotes, and do not compare "
        "them by < and >"
    )

    def __str__(self) -> str:
        start = max(0, self.pos - 20)
        near = ascii(self.text[start : self.pos + 20])
        return f"filter expression@{self.pos}, near {near}: found {self.found[:60]!a}, expected {self.expected}"


# ---- clients ----------------------------------------------------------------------------------------


class ClientError(StoreError):
    """A request of a client to a name server or broker failed; base class of the client's errors."""

    code = "CLIENT"
    hint = "check the name server's address, and that the broker runs and is registered there"


class NotReachedError(WithFields, ClientError):
    """A name server or broker cannot be reached, or the connection was lost before its response.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    reason : str
        What happened.
    """

    address: str
    request: str
    reason: str

    code = "NOT_REACHED"
    hint = (
        "check that it runs, listens on this address, and is not behind a firewall; a request "
        "that was sent may have been carried out"
    )

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: {self.reason}"


class AnswerTimeoutError(WithFields, ClientError):
    """A name server or broker did not respond in time; the request may have been carried out.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    seconds : float
        How long the client waited.
    """

    address: str
    request: str
    seconds: float

    code = "ANSWER_TIMEOUT"
    hint = (
        "the broker is overloaded, its disk is slow, or packets are lost: check the broker, or "
        "raise timeout="
    )

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: no answer in {self.seconds:g} s"


class RefusedError(WithFields, ClientError):
    """A name server or broker responded with an error.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    response_code : int
        Number of the response code.
    response : str
        Name of the response code; its number if it has no name.
    remark : str
        The peer's explanation.
    """

    address: str
    request: str
    response_code: int
    response: str
    remark: str

    code = "REFUSED"
    hint = "the broker chose response code and remark: see its log for details"

    def __str__(self) -> str:
        return (
            f"{self.address}: {self.request}: {self.response_code} {self.response}: "
            f"{shortened(self.remark)}"
        )


class BadAnswerError(WithFields, ClientError):
    """The response of a name server or broker cannot be decoded.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    field : str
        The field of the answer or of its body.
    expected, found : object
        What the field should hold, and what it holds.
    """

    address: str
    request: str
    field: str
    expected: object
    found: object

    code = "BAD_ANSWER"
    hint = "check that a RocketMQ name server or broker runs at this address"

    def __str__(self) -> str:
        return (
            f"{self.address}: response to {self.request}: {self.field} is {self.found}, expected "
            f"{self.expected}"
        )


class NoRouteError(ClientError):
    """No registered broker has the topic, or its topic has no writable queue."""

    code = "NO_ROUTE"
    hint = (
        "create the topic, or let the broker create it (autoCreateTopicEnable); a broker that has "
        "just started may not be registered yet"
    )


class GroupNotFoundError(WithFields, ClientError):
    """No broker has the consumer group.

    Parameters
    ----------
    group : str
    """

    group: str

    code = "GROUP_NOT_FOUND"
    hint = (
        "`Admin.list_groups()` lists the groups; a group is created with its first member, if the "
        "broker allows that"
    )

    def __str__(self) -> str:
        return f"no broker has consumer group {self.group}"


class SendFailedError(WithFields, ClientError):
    """A message was sent to several queues in turn, and all failed; the cause is the last error.

    Parameters
    ----------
    topic : str
    reasons : tuple of str
        The error of each attempt.
    """

    topic: str
    reasons: tuple[str, ...]

    code = "SEND_FAILED"
    hint = (
        "check the brokers named in the message; if a response was lost, the message may be "
        "stored nevertheless"
    )

    def __str__(self) -> str:
        return f"topic {self.topic}: {len(self.reasons)} attempts failed: {'; '.join(self.reasons)}"


class PartlySentError(WithFields, ClientError):
    """Some of several messages are stored, and sending the others failed; the cause is the error of that part.

    Parameters
    ----------
    results : tuple of SendResult or None
        One for each message, in the order of the messages; None: no broker has acknowledged it.
    failed : tuple of int
        Positions of the messages of the part that failed. After a lost answer they may be stored nevertheless; those of all
        other messages without a result were not sent.
    reason : str
        The error of that part.
    """

    results: tuple[Any, ...]
    failed: tuple[int, ...]
    reason: str

    code = "PARTLY_SENT"
    hint = (
        "send the messages without a result again; those of `failed` may be stored already: "
        "consumers recognise a copy by its keys"
    )

    def __str__(self) -> str:
        stored = sum(one is not None for one in self.results)
        return f"{stored:,} of {len(self.results):,} messages are stored: {self.reason}"


class NotAssignedError(ClientError):
    """The queue is not assigned to this consumer: another member of the group reads it, or it does not exist."""

    code = "NOT_ASSIGNED"
    hint = (
        "`assignment()` lists the queues of this consumer; queues are reassigned when members of "
        "the group start or stop"
    )


class ClientClosedError(ClientError):
    """The client was closed, or this is a fork of the process that created it."""

    code = "CLIENT_CLOSED"
    hint = "create a new client; after a fork each process needs its own"
