"""Errors of the wire: of what peers send, and of what a client does not get."""

from __future__ import annotations

from rmqcore.errors.foreign_text import shortened
from rmqcore.errors.stores import StoreError

# ---- the wire ---------------------------------------------------------------------------------------


class ProtocolError(StoreError):
    """Bytes from a peer that are no frame or no header of RocketMQ's protocol; the connection they came on is to be closed.

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

    code = "PROTOCOL"
    hint = "does the peer speak RocketMQ's remoting protocol, not gRPC, HTTP or TLS? Look at the address and port on both sides"

    def __init__(self, part: str, pos: int, field: str, expected: object, found: object) -> None:
        super().__init__(part, pos, field, expected, found)
        self.part = part
        self.pos = pos
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.part}@{self.pos}: {self.field} is {self.found}, expected {self.expected}"


class RequestError(StoreError):
    """A request whose fields or body cannot be used; it gets an error as its answer, and the connection goes on.

    Parameters
    ----------
    request : str
        Name of the request code.
    field : str
        The field of the request or of its body.
    expected, found : object
        What the field should hold, and what it holds.
    """

    code = "REQUEST"
    hint = "the request is not what RocketMQ's clients send: look at the client's version"

    def __init__(self, request: str, field: str, expected: object, found: object) -> None:
        super().__init__(request, field, expected, found)
        self.request = request
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.request}: {self.field} is {self.found}, expected {self.expected}"


class FilterExpressionError(StoreError):
    """The SQL92 expression of a subscription is none that RocketMQ takes.

    Parameters
    ----------
    text : str
        The expression.
    pos : int
        Position in it of the word that is wrong, counted from 0.
    expected, found : str
        What should stand there, and what does.
    """

    code = "FILTER_EXPRESSION"
    hint = "there is no LIKE and no arithmetic; texts stand in single quotes, and are not compared by < and >"

    def __init__(self, text: str, pos: int, expected: str, found: str) -> None:
        super().__init__(text, pos, expected, found)
        self.text = text
        self.pos = pos
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        start = max(0, self.pos - 20)
        near = ascii(self.text[start : self.pos + 20])
        return f"filter expression@{self.pos}, near {near}: found {self.found[:60]!a}, expected {self.expected}"


# ---- clients ----------------------------------------------------------------------------------------


class ClientError(StoreError):
    """A producer or consumer did not get from a name server or broker what it asked for."""

    code = "CLIENT"
    hint = (
        "look at the name server's address, and at whether the broker runs and is registered there"
    )


class NotReachedError(ClientError):
    """A name server or broker takes no connection, or a connection to it was lost before the answer came.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    reason : str
        What happened.
    """

    code = "NOT_REACHED"
    hint = "does it run, does it listen on this address, and is a firewall between? A request that was sent may have been done"

    def __init__(self, address: str, request: str, reason: str) -> None:
        super().__init__(address, request, reason)
        self.address = address
        self.request = request
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: {self.reason}"


class AnswerTimeoutError(ClientError):
    """A name server or broker did not answer in time; what was asked for may have been done.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    seconds : float
        How long the answer was waited for.
    """

    code = "ANSWER_TIMEOUT"
    hint = "the broker is overloaded, its disk is slow, or packets are lost: look at the broker, or wait longer (timeout=)"

    def __init__(self, address: str, request: str, seconds: float) -> None:
        super().__init__(address, request, seconds)
        self.address = address
        self.request = request
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.address}: {self.request}: no answer in {self.seconds:g} s"


class RefusedError(ClientError):
    """A name server or broker answered a request with an error.

    Parameters
    ----------
    address : str
        ``host:port`` of the peer.
    request : str
        Name of the request code.
    response_code : int
        Number of the response code.
    response : str
        Name of the response code; its number where it has none.
    remark : str
        What the peer says about it.
    """

    code = "REFUSED"
    hint = "the response code and the remark are the broker's own: its log says more"

    def __init__(
        self, address: str, request: str, response_code: int, response: str, remark: str
    ) -> None:
        super().__init__(address, request, response_code, response, remark)
        self.address = address
        self.request = request
        self.response_code = response_code
        self.response = response
        self.remark = remark

    def __str__(self) -> str:
        return (
            f"{self.address}: {self.request}: {self.response_code} {self.response}: "
            f"{shortened(self.remark)}"
        )


class BadAnswerError(ClientError):
    """A name server or broker answered a request with what is no answer to it.

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

    code = "BAD_ANSWER"
    hint = "is a RocketMQ name server or broker behind this address?"

    def __init__(
        self, address: str, request: str, field: str, expected: object, found: object
    ) -> None:
        super().__init__(address, request, field, expected, found)
        self.address = address
        self.request = request
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.address}: answer to {self.request}: {self.field} is {self.found}, "
            f"expected {self.expected}"
        )


class NoRouteError(ClientError):
    """No broker is known that has the topic, or the topic has no queue there that may be written."""

    code = "NO_ROUTE"
    hint = "create the topic, or let the broker do it (autoCreateTopicEnable); one that has just started is not registered yet"


class GroupNotFoundError(ClientError):
    """No broker has the consumer group.

    Parameters
    ----------
    group : str
    """

    code = "GROUP_NOT_FOUND"
    hint = "`Admin.list_groups()` lists the groups; a group appears with its first member, where brokers allow that"

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"no broker has consumer group {self.group}"


class SendFailedError(ClientError):
    """A message was sent to several queues, one after the other, and none took it; the cause is the last error.

    Parameters
    ----------
    topic : str
    reasons : tuple of str
        What each try ended with.
    """

    code = "SEND_FAILED"
    hint = "look at the brokers that are named; where an answer was lost, the message may be stored all the same"

    def __init__(self, topic: str, reasons: tuple[str, ...]) -> None:
        super().__init__(topic, reasons)
        self.topic = topic
        self.reasons = reasons

    def __str__(self) -> str:
        return f"topic {self.topic}: sent {len(self.reasons)} times: {'; '.join(self.reasons)}"


class NotAssignedError(ClientError):
    """A queue that this consumer does not read: another member of the group has it, or the topic has no such queue."""

    code = "NOT_ASSIGNED"
    hint = "`assignment()` lists the queues of this consumer; a group's queues are shared out anew when members come and go"


class ClientClosedError(ClientError):
    """The producer or consumer was closed, or it belongs to the process that this one was forked from."""

    code = "CLIENT_CLOSED"
    hint = "make a new one; after a fork each process needs its own"
