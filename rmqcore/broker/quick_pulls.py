"""Pulls that find messages, without the objects of a request and a response.

The answers are, byte for byte, those of `handlers.pull`, after the same checks and the same read of the queue. A pull
that is refused, held or redirected is left to `handlers.pull`.
"""

from __future__ import annotations

from rmqcore._native.broker.pull_reader import Pull, read_pull
from rmqcore.broker.broker import Broker
from rmqcore.broker.handlers.message_filters import PulledRecords
from rmqcore.broker.handlers.pull import (
    commit_offset,
    found_fields,
    look_up,
    note_pull,
    suggested_broker,
)
from rmqcore.broker.handlers.pull_checks import PullOrder, PullRefused, check_pull
from rmqcore.remoting.codes import RequestCode, ResponseCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import MAX_FRAME_SIZE, MAX_HEADER_SIZE, encode_words
from rmqcore.remoting.json_header import encode_json_header
from rmqcore.vocabulary.status import GetMessageStatus

_MOST_BODY = MAX_FRAME_SIZE - MAX_HEADER_SIZE


class QuickPulls:
    """The quick pulls of one broker. Used by the loop's thread only.

    Parameters
    ----------
    broker : Broker
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._header = _header_template()

    def feed(
        self, buffer: bytes | bytearray, begin: int, end: int, peer: str, most_bytes: int
    ) -> tuple[int, list[bytes]]:
        """Answer the pulls at the start of ``buffer[begin:end]``, up to the first that finds no messages.

        Parameters
        ----------
        buffer : bytes-like
        begin, end : int
        peer : str
            Address of the client.
        most_bytes : int
            Stop when the answers have this number of bytes.

        Returns
        -------
        taken : int
            Where the answered frames end, counted like `begin`.
        answers : list of bytes
            Pieces of frames, to be sent in this order.
        """
        answers: list[bytes] = []
        size = 0
        while size < most_bytes and (pull := read_pull(buffer, begin, end)) is not None:
            got = self._get(pull, peer)
            if got is None:
                break
            order, found = got
            commit_offset(self._broker, pull, order, peer)
            note_pull(self._broker, pull, order, found)
            answers += (self._start(pull, order, found), found.body)
            size += len(found.body)
            begin = pull.end
        return begin, answers

    def _get(self, pull: Pull, peer: str) -> tuple[PullOrder, PulledRecords] | None:
        """Return the messages of a pull; None, without side effects, if the handler has to answer."""
        try:
            order = check_pull(self._broker, pull, peer)
            found = look_up(self._broker, pull, order)
        except PullRefused:
            return None
        except Exception:  # noqa: BLE001 the handler raises it again, and answers with it
            return None
        if found is None:  # a read would wait for the disk
            return None
        is_plain = found.status is GetMessageStatus.FOUND and len(found.body) <= _MOST_BODY
        return (order, found) if is_plain else None

    def _start(self, pull: Pull, order: PullOrder, found: PulledRecords) -> bytes:
        """Return the bytes of the response before its body."""
        header = self._header % (
            order.group.group_sys_flag,
            found.max_offset,
            found.min_offset,
            found.next_begin_offset,
            suggested_broker(self._broker, order.group, found),
            order.topic.topic_sys_flag,
            pull.opaque,
        )
        return encode_words(SerializeType.JSON, len(header), len(found.body)) + header


def _header_template() -> bytes:
    """Return the header of a response with a placeholder for each number: those of the fields, then the request's."""
    number = "%d"
    fields = found_fields(number, number, number, number, number, number)
    request = RemotingCommand(RequestCode.PULL_MESSAGE, opaque=0)
    response = request.response(
        ResponseCode.SUCCESS, GetMessageStatus.FOUND.name, ext_fields=fields
    )
    return encode_json_header(response).replace(b'"opaque":0', b'"opaque":%d')
