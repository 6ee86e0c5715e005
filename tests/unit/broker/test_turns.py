"""Each connection has its turn: however much one sends, the others are answered between its requests.

With uvloop one connection that sent without a pause was read 32 times in a row: 40,000 of its requests were answered before one
of another connection, whose sends took 15 seconds.
"""

from __future__ import annotations

import itertools

import pytest
from support.fake_peer import Clock, Peer, Steps

from rmqcore.broker.channel import Asker
from rmqcore.broker.network import connection as connection_module
from rmqcore.broker.network.connection import READ_S, Connections
from rmqcore.broker.network.turns import SLICE_S, TURN_S, Turns
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command

COST_S = SLICE_S / 10
FLOOD = 500


class Crowd:
    """Connections of one port whose requests cost time by a clock of the test."""

    def __init__(self, peers: int) -> None:
        self.clock, self.steps = Clock(), Steps()
        self.cost_s = COST_S
        self.order: list[Asker] = []
        self.connections = Connections(
            self._answer,
            lambda channel: None,
            lambda host: True,
            peers,
            turns=Turns(self.steps, self.clock),
        )
        self.peers = [Peer(self._answer, connections=self.connections) for _ in range(peers)]

    def _answer(self, request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
        self.clock.now += self.cost_s
        self.order.append(channel)
        return None if request.is_oneway else request.response()

    def reads(self, peer: Peer, data: bytes) -> None:
        """Bring one read, and let no turn pass."""
        room = peer.connection.get_buffer(-1)
        assert len(data) <= len(room)
        room[: len(data)] = data
        peer.connection.buffer_updated(len(data))

    def passes_turns(self) -> None:
        for _ in range(100_000):
            if not self.steps.step():
                return
        raise AssertionError("turns without end")


def requests(count: int, flag: int = 0) -> bytes:
    return b"".join(
        encode_command(RemotingCommand(RequestCode.HEART_BEAT, opaque=number, flag=flag))
        for number in range(count)
    )


@pytest.mark.parametrize("flag", [0, ONEWAY_FLAG])
@pytest.mark.parametrize("neighbours", [1, 10, 100])
def test_a_request_waits_for_two_turns_at_most(neighbours: int, flag: int) -> None:
    crowd = Crowd(neighbours + 1)
    *flooding, victim = crowd.peers
    for peer in flooding:
        crowd.reads(peer, requests(FLOOD, flag))
        assert not peer.transport.is_read, "nothing more is read of it before its turn"
    before, began = len(crowd.order), crowd.clock.now
    crowd.steps.step()  # requests of the victim lie in the kernel during this turn
    crowd.reads(victim, requests(1))
    crowd.steps.step()
    assert victim.connection in crowd.order[before:]
    behind = crowd.order.index(victim.connection) - before
    assert behind * COST_S <= 2 * (TURN_S + SLICE_S)
    assert crowd.clock.now - began <= 3 * (TURN_S + SLICE_S)
    crowd.passes_turns()
    assert len(crowd.order) == neighbours * FLOOD + 1
    assert all(peer.transport.is_read for peer in crowd.peers)
    assert [answer.opaque for answer in flooding[0].answers()] == (
        [] if flag else list(range(FLOOD))
    )


def test_neighbours_share_the_time_evenly() -> None:
    """A connection with ten requests has its answers long before those with hundreds are done."""
    crowd = Crowd(3)
    first, second, small = crowd.peers
    crowd.reads(first, requests(FLOOD))
    crowd.reads(second, requests(FLOOD))
    crowd.reads(small, requests(10))
    crowd.passes_turns()
    done = max(at for at, channel in enumerate(crowd.order) if channel is small.connection)
    assert done < 200
    runs = [
        (channel, len(list(group)))
        for channel, group in itertools.groupby(crowd.order)
        if channel is not small.connection
    ]
    assert max(count for _, count in runs[:-50]) <= 2 * TURN_S / COST_S


def test_reads_of_many_turns_do_not_add_up() -> None:
    """Quick requests ask for no turn; without a new start each 5 ms of them would let one wait that comes alone."""
    crowd = Crowd(1)
    (peer,) = crowd.peers
    for _ in range(round(3 * TURN_S / COST_S)):
        crowd.reads(peer, requests(1))
        assert peer.transport.is_read
        crowd.steps.step()
    assert len(peer.answers()) == round(3 * TURN_S / COST_S)


def test_a_read_that_fills_the_buffer_is_the_last_of_its_turn() -> None:
    """With libuv a socket is read on 32 times while the buffer comes full, before any other socket is looked at."""
    crowd = Crowd(1)
    (peer,) = crowd.peers
    big = encode_command(RemotingCommand(RequestCode.HEART_BEAT, opaque=1, body=bytes(1 << 20)))
    room = len(peer.connection.get_buffer(-1))
    crowd.reads(peer, big[:room])
    assert not peer.transport.is_read
    crowd.passes_turns()
    assert peer.transport.is_read
    crowd.reads(peer, big[room : room + 1000])
    assert not peer.transport.is_read, "more of the same frame is to come"
    crowd.passes_turns()
    assert peer.transport.is_read


def test_requests_that_take_a_whole_slice_leave_nothing_behind() -> None:
    """The bytes of each stayed in memory until a quick request came: 140 MiB after 2,400 pulls with an expression of 60 KB."""
    crowd = Crowd(1)
    (peer,) = crowd.peers
    long = encode_command(RemotingCommand(RequestCode.HEART_BEAT, opaque=1, body=bytes(60_000)))
    for number in range(1, 20):
        crowd.clock.now += 1
        crowd.cost_s = 2 * SLICE_S
        crowd.reads(peer, long)
        crowd.passes_turns()
        assert len(crowd.order) == number
        assert len(peer.connection._decoder._bytes) == 0


def test_few_connections_with_long_frames_are_read_in_a_turn() -> None:
    """300 neighbours with heartbeats of 150 KB: each of their reads waited for the thread that parses, a send for seconds."""
    crowd = Crowd(300)
    big = encode_command(RemotingCommand(RequestCode.HEART_BEAT, opaque=1, body=bytes(1 << 20)))
    size = 64 << 10
    for peer in crowd.peers:
        crowd.reads(peer, big[:size])
    for turn in range(1, 90):
        crowd.steps.step()
        reading = [peer for peer in crowd.peers if peer.transport.is_read]
        assert len(reading) <= TURN_S / READ_S + 1, turn
        for peer in reading:
            begin = peer.connection._decoder.pending
            crowd.reads(peer, big[begin : begin + size])
    came = [peer.connection._decoder.pending // size for peer in crowd.peers]
    assert max(came) - min(came) <= 1, "each has its turn"
    assert min(came) > 5


def test_little_is_read_of_a_connection_that_is_behind() -> None:
    """A thousand connections, each with a read of 256 KiB that waits, would fill what all together may keep."""
    crowd = Crowd(1)
    (peer,) = crowd.peers
    crowd.reads(peer, requests(FLOOD))
    assert len(peer.connection.get_buffer(-1)) == connection_module._READ_BEHIND_BYTES
    crowd.passes_turns()
    crowd.reads(peer, requests(1))
    assert len(peer.connection.get_buffer(-1)) == connection_module._READ_BYTES


def test_a_connection_that_ends_while_it_waits_is_answered_no_more() -> None:
    crowd = Crowd(2)
    gone, ending = crowd.peers
    crowd.reads(gone, requests(FLOOD))
    crowd.reads(ending, requests(FLOOD))
    gone.connection.connection_lost(None)
    ending.connection.end_reading()
    before = len(crowd.order)
    crowd.passes_turns()
    assert len(crowd.order) == before
    assert crowd.connections.buffered == ending.connection._buffered


def test_a_peer_that_takes_its_answers_late_waits_for_its_turn() -> None:
    crowd = Crowd(2)
    late, flooding = crowd.peers
    crowd.reads(late, requests(FLOOD))
    late.connection.pause_writing()
    crowd.passes_turns()
    answered = len(crowd.order)
    assert answered < FLOOD
    crowd.reads(flooding, requests(FLOOD))
    late.connection.resume_writing()
    crowd.passes_turns()
    assert [answer.opaque for answer in late.answers()] == list(range(FLOOD))
    assert late.transport.is_read


def test_a_turn_that_raises_ends_its_connection_and_the_others_have_theirs() -> None:
    """Of a read asyncio closes the connection. After such a turn it stayed open, was never read again, and all others waited."""
    crowd = Crowd(2)
    broken, other = crowd.peers
    answer = crowd.connections.answer

    def answer_one(request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
        if channel is broken.connection:
            raise MemoryError("no room for the answer")
        return answer(request, channel)

    for peer in crowd.peers:
        crowd.reads(peer, requests(FLOOD))
    crowd.connections.answer = answer_one
    with pytest.raises(MemoryError):
        crowd.passes_turns()
    crowd.passes_turns()
    assert broken.transport.ended == "aborted"
    assert [one.opaque for one in other.answers()] == list(range(FLOOD))
    assert other.transport.is_read
