"""How `rmqcore serve` ends: by SIGTERM with clients that wait, by a second one, and never with an answered message lost."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.eventually import eventually
from support.raw_client import RawClient, pull_request, send_request
from support.server_process import OPENED, ServerProcess, fsck

import rmqcore
from rmqcore.remoting.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command

END_SECONDS = 60.0
"""For a server that waits for its peers for ever; one that keeps its promise ends in a few seconds, if the machine lets it."""


def heartbeat(client_id: str) -> RemotingCommand:
    """Make the heartbeat of a member of a group that reads the topic."""
    subscription = SubscriptionData("t", "*")
    consumer = ConsumerData(
        "readers", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", (subscription,)
    )
    body = encode_heartbeat(Heartbeat(client_id, (), (consumer,)))
    return RemotingCommand(RequestCode.HEART_BEAT, body=body)


def test_a_hangup_ends_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        for _ in range(2):
            server.signal(signal.SIGHUP)
        with RawClient(server.broker) as client:
            assert client.ask(send_request("t", b"x")).code == ResponseCode.SUCCESS
        server.signal(signal.SIGHUP)
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_consumers_and_held_pulls(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.broker)) for _ in range(20)]
        for i, client in enumerate(clients):
            sent = client.ask(send_request("t", b"x", i % 4))
            assert sent.code == ResponseCode.SUCCESS
            assert client.ask(heartbeat(f"client{i}")).code == ResponseCode.SUCCESS
            held = pull_request("t", 1_000, queue_id=i % 4, held_ms=600_000, group="readers")
            held.opaque = 1_000_000
            client.socket.sendall(encode_command(held))
        with RawClient(server.namesrv) as asker:
            asker.ask(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO))
            server.signal(number)
            assert server.wait(END_SECONDS) == 0
        assert all(client.is_closed_by_server() for client in clients)
        assert "Traceback" not in server.log
    code, said = fsck(server.store)
    assert code == 0, said
    with rmqcore.open(server.store, services=False, **OPENED) as store:
        assert sum(store.max_offset("t", queue_id) for queue_id in range(4)) == 20


def test_with_a_peer_that_takes_nothing(tmp_path: Path) -> None:
    """Its answers are never taken: the server waits for it for a while, not for ever."""
    with ServerProcess(tmp_path) as server, RawClient(server.broker) as greedy:
        body = bytes(100_000)
        sent = greedy.ask(send_request("t", body))
        assert sent.code == ResponseCode.SUCCESS
        assert greedy.ask(pull_request("t", 0, held_ms=60_000)).code == ResponseCode.SUCCESS
        pull = encode_command(pull_request("t", 0))
        greedy.socket.settimeout(1.0)
        while is_taken(greedy, pull * 1000):
            pass  # until the server reads nothing more of it
        server.signal()
        assert server.wait(END_SECONDS) == 0


def test_sends_that_wait_for_their_topic_are_answered(tmp_path: Path) -> None:
    """They were stored when the broker's files were closed, after the connections: their producers sent them again."""
    with ServerProcess(tmp_path) as server, RawClient(server.broker) as client:
        for number in range(100):
            client.socket.sendall(encode_command(send_request(f"new-{number}", b"x", 0)))
        client.wait_for(lambda command: command.is_response)
        server.signal()
        answered = 1 + sum(command.is_response for command in commands_until_closed(client))
        assert server.wait(END_SECONDS) == 0
        stored = sum(1 for _ in rmqcore.read(server.store).messages())
    assert answered == stored


def commands_until_closed(client: RawClient) -> Iterator[RemotingCommand]:
    with contextlib.suppress(ConnectionError):
        while True:
            yield client.next()


def is_taken(client: RawClient, data: bytes) -> bool:
    try:
        client.socket.sendall(data)
    except TimeoutError:
        return False
    return True


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, RawClient(server.broker) as client:
        assert client.ask(send_request("t", b"kept")).code == ResponseCode.SUCCESS
        client.socket.sendall(encode_command(pull_request("t", 9, held_ms=600_000)))
        server.signal()
        eventually(lambda: signals_end(server))
    code, said = fsck(server.store)
    assert code == 0, said


def signals_end(server: ServerProcess) -> bool:
    if server.is_running():
        server.signal()
        return False
    assert server.wait() in (0, -signal.SIGTERM)
    return True


def test_what_was_answered_before_the_end_is_there_after_it(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, settings={"flushDiskType": "SYNC_FLUSH"})
    with server, RawClient(server.broker) as client:
        answered = 0
        try:
            while True:
                if answered == 50:
                    server.signal()
                sent = client.ask(send_request("t", b"%d" % answered))
                assert sent.code == ResponseCode.SUCCESS
                assert int(sent.ext_fields["queueOffset"]) == answered
                answered += 1
        except ConnectionError:
            assert server.wait(END_SECONDS) == 0
    with rmqcore.open(server.store, services=False, **OPENED) as store:
        # A message that was appended may have lost its answer with the connection; no answer has lost its message.
        assert store.max_offset("t", 0) in (answered, answered + 1)


def test_it_starts_on_its_ports_again_at_once(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    with server, RawClient(server.broker) as client:
        assert client.ask(send_request("t", b"x")).code == ResponseCode.SUCCESS
        before = server.broker, server.namesrv
        assert server.stop() == 0
        server.start()
        assert (server.broker, server.namesrv) == before
        with RawClient(server.broker) as again:
            sent = again.ask(send_request("t", b"y"))
            assert (sent.code, sent.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "1")
        assert server.stop() == 0
