"""Each connection has its turn: however much one sends, the others are answered between its requests.

With uvloop one connection that sent without a pause was read 32 times in a row: 40,000 of its requests were answered before one
of another connection, whose sends took 15 seconds.
"""

from __future__ import annotations

import itertools
from typing import cast

import pytest
from support.fake_peer import Clock, Peer, Steps

from rmqcore.broker.channel import Asker
from rmqcore.broker.network import connection as connection_module
from rmqcore.broker.network.connection import READ_S, Connections
from rmqcore.broker.network.turns import SLICE_S, TURN_S, Turns
from rmqcore.broker.quick_pulls import QuickPulls
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command

COST_S = SLICE_S / 10
FLOOD = 500


class Crowd:
    """Connections of one port whose requests cost time by a clock of the test."""

    def __init__(self, peers: int, quick_pulls: QuickPulls | None = None) -> None:
        self.clock, self.cpu_clock, self.steps = Clock(), Clock(), Steps()
        self.cost_s, self.waits_s = COST_S, 0.0
        self.order: list[Asker] = []
        self.connections = Connections(
            self._answer,
            lambda channel: None,
            lambda host: True,
            peers,
            quick_pulls=quick_pulls,
            turns=Turns(self.steps, self.clock, self.cpu_clock),
        )
        self.peers = [Peer(self._answer, connections=self.connections) for _ in range(peers)]

    def _answer(self, request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
        self.cpu_clock.now += self.cost_s
        self.clock.now += self.cost_s + self.waits_s
        self.order.append(channel)
        return None if request.is_oneway else request.response()

    def reads(self, peer: Peer, data: bytes) -> None:
        """Bring one read, which may be longer than the connection asks for, and let no turn pass."""
        peer.connection.get_buffer(-1)
        self.connections.read_buffer[: len(data)] = data
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


def test_a_single_request_comes_before_those_of_others_that_are_as_new() -> None:
    """300 connected and asked for 1,000 pulls each; the next one, who sent one message, came behind a slice of each: a second."""
    crowd = Crowd(301)
    *flooding, victim = crowd.peers
    for peer in flooding:
        crowd.reads(peer, requests(FLOOD))
    crowd.reads(victim, requests(1))
    before = len(crowd.order)
    crowd.steps.step()
    assert crowd.order[before] is victim.connection


def test_short_requests_without_an_end_do_not_stop_the_others() -> None:
    crowd = Crowd(3)
    flooding, *short = crowd.peers
    crowd.reads(flooding, requests(FLOOD))
    for _ in range(2000):
        for peer in short:
            if peer.transport.is_read:
                crowd.reads(peer, requests(20))
        crowd.steps.step()
        if flooding.transport.is_read:
            break
    answered = [channel for channel in crowd.order if channel is flooding.connection]
    assert len(answered) == FLOOD
    assert len(crowd.order) <= 3 * FLOOD + 200, "it had its third of the time"


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


def test_waits_for_other_threads_are_charged_to_no_connection() -> None:
    """A send that waited 8 ms for a thread that parses came behind 30 reads of each of 300 neighbours: 6 seconds."""
    crowd = Crowd(1)
    (victim,) = crowd.peers
    crowd.waits_s = 8 * SLICE_S
    crowd.reads(victim, requests(1))
    assert victim.connection.used_s == pytest.approx(COST_S)
    assert crowd.connections.turns.are_over, "the time is gone for all that"


def test_a_short_read_without_a_handler_is_charged_for_little() -> None:
    """A look at the CPU's clock costs as much as a quick send: what short reads took is bounded instead."""

    class Pulls:
        def feed(
            self, _buffer: bytearray, _begin: int, end: int, _peer: str, _room: int
        ) -> tuple[int, list[bytes]]:
            crowd.clock.now += 8 * SLICE_S
            return end, [b"answer"]

    crowd = Crowd(2, cast("QuickPulls", Pulls()))
    short, long = crowd.peers
    crowd.reads(short, bytes(connection_module.SHORT_READ_BYTES))
    crowd.passes_turns()
    crowd.reads(long, bytes(connection_module.SHORT_READ_BYTES + 1))
    assert short.connection.used_s == pytest.approx(connection_module.SHORT_READ_S)
    assert long.connection.used_s == pytest.approx(8 * SLICE_S)


def test_little_is_read_once_the_turn_is_over() -> None:
    """300 that had just connected and sent: 75 MB were read and copied before the first request of another one was seen."""
    crowd = Crowd(2)
    first, second = crowd.peers
    crowd.reads(first, requests(FLOOD))
    crowd.waits_s = TURN_S
    crowd.reads(second, requests(1))
    assert crowd.connections.turns.are_over
    assert len(second.connection.get_buffer(-1)) == connection_module._READ_BEHIND_BYTES
    crowd.reads(second, requests(FLOOD)[: connection_module._READ_BEHIND_BYTES])
    assert not second.transport.is_read
    crowd.passes_turns()
    assert second.transport.is_read


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
