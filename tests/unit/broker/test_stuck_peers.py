"""Peers that take nothing of their answers lose their connections where there is no room; the others are served again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.fake_peer import Clock, Peer

from rmqcore.broker.channel import Channel
from rmqcore.broker.network.stuck_peers import LINES_S, MOST_LINES, STUCK_S, StuckPeers
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command

STEPS = int(STUCK_S) + 1


class FakeConnection:
    def __init__(self, peer: str, unsent: int, half: int = 0) -> None:
        self.peer = peer
        self.held = unsent, half
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False


def looks(
    these: list[FakeConnection], too_much: int, each: Callable[[], object] = lambda: None
) -> None:
    stuck = StuckPeers()
    for second in range(STEPS):
        stuck.look([one for one in these if one.is_open], too_much, float(second))
        each()


def test_the_largest_that_take_nothing_go_until_there_is_room() -> None:
    small, large, larger = FakeConnection("a", 10), FakeConnection("b", 50), FakeConnection("c", 60)
    looks([small, large, larger], 100)
    assert (small.is_open, large.is_open, larger.is_open) == (True, False, False)


def test_where_there_is_room_nobody_goes() -> None:
    one = FakeConnection("a", 100)
    looks([one], 0)
    assert one.is_open


def test_a_peer_that_takes_its_answers_slowly_stays() -> None:
    slow, stuck = FakeConnection("a", 1000), FakeConnection("b", 10)

    def take() -> None:
        slow.held = slow.held[0] - 1, 0

    looks([slow, stuck], 500, take)
    assert slow.is_open
    assert not stuck.is_open


def test_more_answers_are_no_move_of_the_peer() -> None:
    asking = FakeConnection("a", 100)

    def ask() -> None:
        asking.held = asking.held[0] + 1, 7

    looks([asking], 1, ask)
    assert not asking.is_open


def test_half_a_frame_that_does_not_grow_goes_and_one_that_grows_stays() -> None:
    left, growing = FakeConnection("a", 0, 100), FakeConnection("b", 0, 100)

    def bring() -> None:
        growing.held = 0, growing.held[1] + 1

    looks([left, growing], 1000, bring)
    assert (left.is_open, growing.is_open) == (False, True)


def test_the_log_has_a_line_for_each_and_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    many = [FakeConnection(f"peer{number}", 10) for number in range(MOST_LINES + 5)]
    stuck = StuckPeers()
    for second in range(STEPS):
        stuck.look(many, 1000, float(second))
    assert not any(one.is_open for one in many)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == MOST_LINES
    assert lines[0] == (
        "peer0: 10 bytes in its buffers, and the peer made no progress for 5 s; the buffers are "
        "full, the connection is closed"
    )
    last = FakeConnection("last", 10)
    for second in range(STEPS):
        stuck.look([last], 1000, LINES_S * 2 + second)
    assert caplog.messages[MOST_LINES] == "closed 5 more connections that made no progress"
    assert "last" in caplog.messages[-1]


def answer(request: RemotingCommand, _channel: Channel) -> RemotingCommand:
    return request.response(body=request.body)


def request(opaque: int, body: bytes = b"") -> bytes:
    return encode_command(RemotingCommand(RequestCode.HEART_BEAT, opaque=opaque, body=body))


def test_others_are_served_again_once_the_stuck_ones_are_gone() -> None:
    """Whoever asked got SYSTEM_BUSY until the peers that never read had been silent for two minutes."""
    stuck = Peer(answer)
    shared = stuck.connections
    clock = shared.turns.clock
    assert isinstance(clock, Clock)
    shared.max_buffered, shared.max_connections = 1000, 3
    stuck.comes(request(1, b"x" * 2000))
    other = Peer(answer, connections=shared)
    codes = []
    for _ in range(STEPS + 1):
        clock.now += 1
        other.comes(request(2))
        other.transport.unsent = 0
        codes.append(other.answers()[-1].code)
        if stuck.transport.ended:
            stuck.connection.connection_lost(None)
    assert stuck.transport.ended == "aborted"
    assert other.transport.ended is None
    assert codes[0] == ResponseCode.SYSTEM_BUSY
    assert codes[-1] == ResponseCode.SUCCESS
