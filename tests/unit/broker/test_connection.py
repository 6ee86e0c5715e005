"""A connection: frames in whatever pieces they come, answers in their order, and the limits of a peer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_peer import FakeTransport, Peer

from rmqcore.broker.channel import Asker, Channel
from rmqcore.broker.network import connection as module
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command


def echo(request: RemotingCommand, channel: Channel) -> RemotingCommand:
    return request.response(remark=str(request.opaque), body=request.body)


def nothing(request: RemotingCommand, channel: Channel) -> None:
    return None


def request(opaque: int, body: bytes = b"", **fields: Any) -> bytes:
    return encode_command(
        RemotingCommand(RequestCode.HEART_BEAT, opaque=opaque, body=body, **fields)
    )


@given(
    bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=20),
    cuts=st.lists(st.integers(1, 400), max_size=40),
)
def test_frames_in_any_pieces_are_answered_in_their_order(
    bodies: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(request(number, body) for number, body in enumerate(bodies))
    peer = Peer(echo)
    for cut in cuts:
        peer.comes(data[:cut])
        data = data[cut:]
    peer.comes(data)
    found = [(answer.opaque, answer.body) for answer in peer.answers()]
    assert found == list(enumerate(bodies))
    assert peer.connection.unanswered == 0


def test_the_requests_of_one_read_are_answered_by_one_write() -> None:
    peer = Peer(echo)
    peer.comes(b"".join(request(number) for number in range(50)))
    assert len(peer.answers()) == 50
    assert peer.transport.writes == 1


def test_an_answer_that_comes_later_is_sent_at_once() -> None:
    held: list[tuple[RemotingCommand, Channel]] = []

    def hold(command: RemotingCommand, channel: Channel) -> None:
        held.append((command, channel))

    peer = Peer(hold)
    peer.comes(request(7) + request(8))
    assert peer.connection.unanswered == 2
    command, channel = held[1]
    channel.send(command.response())
    assert [answer.opaque for answer in peer.answers()] == [8]
    assert peer.connection.unanswered == 1


@pytest.mark.parametrize("cut", [0, 10], ids=["in one read", "in two reads"])
def test_what_follows_a_request_that_holds_its_connection_waits(cut: int) -> None:
    held: list[Asker] = []
    came: list[int] = []

    def answer(command: RemotingCommand, channel: Asker) -> RemotingCommand | None:
        came.append(command.opaque)
        if command.opaque not in (2, 3):
            return command.response()
        channel.hold()
        held.append(channel)
        return None

    peer = Peer(answer)
    data = b"".join(request(number) for number in range(6))
    peer.comes(data[: len(data) - cut])
    assert came == [0, 1, 2]
    assert not peer.transport.is_read
    if cut:
        peer.comes(data[len(data) - cut :])  # what was read already
    held.pop().release()
    assert came == [0, 1, 2, 3]
    held.pop().release()
    assert came == [0, 1, 2, 3, 4, 5]
    assert peer.transport.is_read
    assert [found.opaque for found in peer.answers()] == [0, 1, 4, 5]


def test_a_one_way_request_owes_no_answer() -> None:
    peer = Peer(nothing)
    peer.comes(request(1, flag=ONEWAY_FLAG))
    assert peer.connection.unanswered == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\0\0\0\4\7\0\0\0",
        b"\0\0\0\6\0\0\0\2{]",
    ],
    ids=["HTTP", "TLS", "serialize type", "JSON"],
)
def test_garbage_ends_its_connection_after_the_answers_before_it(garbage: bytes) -> None:
    peer = Peer(echo)
    peer.comes(request(1) + garbage + request(2))
    assert [answer.opaque for answer in peer.answers()] == [1]
    assert peer.transport.ended == "closed"


def test_a_peer_that_does_not_take_its_answers_is_not_read() -> None:
    peer = Peer(echo)
    assert peer.transport.limits[0] == module.MOST_UNSENT
    peer.connection.pause_writing()
    assert not peer.transport.is_read
    peer.connection.resume_writing()
    assert peer.transport.is_read


def test_one_read_is_not_answered_further_than_its_peer_takes() -> None:
    """Hundreds of requests fit a read, and each may be answered with 256 KiB: all of it lay in memory at once."""

    def much(request: RemotingCommand, channel: Channel) -> RemotingCommand:
        return request.response(body=bytes(module.MOST_UNSENT // 4))

    peer = Peer(much)
    connection, transport = peer.connection, peer.transport

    def write(data: bytes) -> None:
        FakeTransport.write(transport, data)
        if transport.unsent > module.MOST_UNSENT:
            connection.pause_writing()

    transport.write = write  # type: ignore[method-assign]
    peer.comes(b"".join(request(number) for number in range(20)))
    while len(peer.answers()) < 20:
        assert not transport.is_read
        assert transport.unsent < 2 * module.MOST_UNSENT
        transport.unsent = 0
        connection.resume_writing()
    transport.unsent = 0
    connection.resume_writing()
    assert transport.is_read
    assert [answer.opaque for answer in peer.answers()] == list(range(20))


def test_a_peer_with_too_many_unanswered_requests_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNANSWERED", 3)
    peer = Peer(nothing)
    peer.comes(request(1) + request(2))
    assert peer.transport.is_read
    peer.comes(request(3))
    assert not peer.transport.is_read
    peer.connection.send(RemotingCommand(0, opaque=1, flag=1))
    assert peer.transport.is_read


def test_a_peer_whose_waiting_requests_keep_too_much_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One-way sends to new topics waited for the disk, and for name servers, with bodies that no limit counted."""
    monkeypatch.setattr(module, "MOST_KEPT", 300)

    def keeps(command: RemotingCommand, channel: Asker) -> None:
        asked.append(command.opaque)
        channel.keep(100)

    asked: list[int] = []
    peer = Peer(keeps)
    peer.comes(b"".join(request(number, flag=ONEWAY_FLAG) for number in range(5)))
    assert asked == [0, 1, 2]
    assert not peer.transport.is_read
    assert peer.connections.buffered == 300 + 2 * len(request(3, flag=ONEWAY_FLAG))
    peer.connection.keep(-100)
    assert asked == [0, 1, 2, 3]
    for _ in range(2):
        peer.connection.keep(-100)
    assert asked == [0, 1, 2, 3, 4]
    assert peer.transport.is_read
    peer.connection.connection_lost(None)
    for _ in range(2):
        peer.connection.keep(-100)
    assert peer.connections.buffered == 0


def test_requests_are_refused_while_too_many_bytes_lie_in_buffers() -> None:
    peer = Peer(echo)
    peer.connections.max_buffered = 100
    peer.comes(request(1, b"x" * 200))
    assert peer.connections.buffered == peer.transport.unsent > 100
    peer.comes(request(2))
    assert [answer.code for answer in peer.answers()] == [
        ResponseCode.SUCCESS,
        ResponseCode.SYSTEM_BUSY,
    ]
    peer.transport.unsent = 0
    peer.comes(request(3, b"y")[:-1])
    assert peer.connections.buffered == len(request(3))
    peer.connection.connection_lost(None)
    assert peer.connections.buffered == 0


def test_bytes_that_peers_have_taken_refuse_nobody() -> None:
    """Nobody tells a connection that its peer took its bytes: those of quiet ones counted for ever, and all were refused."""
    quiet = Peer(echo)
    quiet.connections.max_buffered = 100
    quiet.connections.max_connections = 3
    quiet.comes(request(1, b"x" * 200))
    other = Peer(echo, connections=quiet.connections)
    other.comes(request(2))
    quiet.transport.unsent = other.transport.unsent = 0
    quiet.connections._counted = 0.0
    other.comes(request(3))
    assert [answer.code for answer in other.answers()] == [
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SUCCESS,
    ]


def test_half_frames_have_no_room_without_end() -> None:
    """A thousand connections may each bring nearly a whole frame, and never the rest: that were 16 GiB."""
    first = Peer(echo)
    first.connections.max_buffered = 1000
    first.connections.max_connections = 3
    first.comes(request(1, b"x" * 1500)[:-1])
    assert first.transport.ended is None
    second = Peer(echo, connections=first.connections)
    second.comes(request(1, b"x" * 1500)[:-1])
    assert second.transport.ended == "aborted"
    second.connection.connection_lost(None)
    first.comes(request(1, b"x" * 1500)[-1:])
    assert [answer.opaque for answer in first.answers()] == [1]


def test_who_never_takes_the_last_bytes_is_not_waited_for() -> None:
    """A connection that was to close once its bytes are sent held its place for ever where the peer took none."""
    peer = Peer(echo)
    peer.comes(request(1) + b"GET / HTTP/1.1\r\n\r\n")
    assert peer.transport.ended == "closed"
    began = peer.connection._last_bytes
    peer.connection.close_if_idle(began + module.HALF_FRAME_S - 1)
    peer.transport.unsent -= 1
    peer.connection.close_if_idle(began + module.HALF_FRAME_S + 1)
    peer.connection.close_if_idle(began + 2 * module.HALF_FRAME_S)
    assert peer.transport.ended == "closed", "it takes its bytes, slowly"
    peer.connection.close_if_idle(began + 3 * module.HALF_FRAME_S)
    assert peer.transport.ended == "aborted"


def test_who_takes_no_answers_is_silent() -> None:
    """As long as it was not read, a peer that took nothing counted as busy, and kept what was meant for it in memory."""
    peer = Peer(echo)
    peer.comes(request(1))
    began = peer.connection._last_bytes
    peer.connection.pause_writing()
    peer.connection.close_if_idle(began + module.IDLE_S - 1)
    assert peer.transport.ended is None
    peer.connection.close_if_idle(began + module.IDLE_S + 1)
    assert peer.transport.ended == "closed"


def test_who_waits_for_our_answers_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNANSWERED", 1)
    peer = Peer(nothing)
    peer.comes(request(1))
    assert not peer.transport.is_read
    peer.connection.close_if_idle(peer.connection._last_bytes + 2 * module.IDLE_S)
    assert peer.transport.ended is None


def test_an_answer_that_fits_no_frame_says_so() -> None:
    def too_much(command: RemotingCommand, channel: Channel) -> RemotingCommand:
        return command.response(body=bytes(17 << 20))

    peer = Peer(too_much)
    peer.comes(request(5))
    (answer,) = peer.answers()
    assert (answer.opaque, answer.code) == (5, ResponseCode.SYSTEM_ERROR)
    assert "the limit is 16777216" in str(answer.remark)


def test_half_a_frame_and_silence_end_a_connection() -> None:
    peer = Peer(echo)
    began = peer.connection._last_bytes
    peer.connection.close_if_idle(began + module.IDLE_S - 1)
    assert peer.transport.ended is None
    peer.comes(request(1)[:-1])
    began = peer.connection._frame_began
    peer.connection.close_if_idle(began + module.HALF_FRAME_S - 1)
    assert peer.transport.ended is None
    peer.connection.close_if_idle(began + module.HALF_FRAME_S + 1)
    assert peer.transport.ended == "closed"
    silent = Peer(echo)
    silent.connection.close_if_idle(silent.connection._last_bytes + module.IDLE_S + 1)
    assert silent.transport.ended == "closed"


def test_a_slow_frame_has_its_time_from_its_first_byte() -> None:
    """A byte now and then must not keep half a frame, and the memory under it, alive for ever."""
    peer = Peer(echo)
    data = request(1, b"z" * 100)
    peer.comes(data[:10])
    began = peer.connection._frame_began
    peer.comes(data[10:20])
    assert peer.connection._frame_began == began


def test_who_may_not_connect_and_who_is_too_many() -> None:
    first = Peer(echo)
    refused = Peer(echo, host="192.0.2.9", connections=first.connections)
    assert refused.transport.ended == "aborted"
    second = Peer(echo, connections=first.connections)
    third = Peer(echo, connections=first.connections)
    assert second.transport.ended is None
    assert third.transport.ended == "aborted"
    third.connection.connection_lost(None)
    assert first.closed == []
    second.connection.connection_lost(None)
    assert first.closed == [second.connection]
    assert first.connections.open == {first.connection}


def test_nothing_is_sent_over_a_closed_connection() -> None:
    peer = Peer(nothing)
    peer.comes(request(1))
    peer.connection.close()
    assert peer.connection.closed
    peer.connection.send(RemotingCommand(0, opaque=1, flag=1))
    assert not peer.transport.written
