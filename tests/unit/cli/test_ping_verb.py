"""``rmqcore ping``: brokers and name servers that are ready, that are not, and what is neither."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cli.cli_runs import Run

from rmqcore.cli.verbs import ping
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.testing import ServedBroker

JAVA_SETTINGS = (
    b"brokerName=java-a\nbrokerClusterName=C1\nbrokerId=1\ndiskSpaceWarningLevelRatio=90\n"
)
Answer = Callable[[RemotingCommand], bytes]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as served:
        yield served


@contextmanager
def peer(answer: Answer) -> Iterator[str]:
    """A server of one connection, which answers each request with bytes; none: it closes the connection at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            decoder = FrameDecoder()
            with connection:
                while data := connection.recv(1 << 16):
                    decoder.feed(data)
                    while (frame := decoder.next_frame()) is not None:
                        connection.sendall(answer(decode_command(frame)))

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = server.getsockname()
        yield f"{host}:{port}"
        thread.join()


def java(table: Mapping[str, str], settings: bytes | None = JAVA_SETTINGS) -> Answer:
    """What Java's broker answers."""

    def answer(request: RemotingCommand) -> bytes:
        if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            body = json.dumps({"table": {"brokerVersionDesc": "V5_5_0", **table}}).encode()
            return encode_command(request.response(body=body))
        assert request.code == RequestCode.GET_BROKER_CONFIG
        if settings is None:
            return encode_command(request.response(ResponseCode.NO_PERMISSION, "no"))
        return encode_command(request.response(body=settings))

    return answer


def test_a_broker_that_is_ready(rmqcore: Run, broker: ServedBroker) -> None:
    for more in ((), ("--json",), ("--timeout", "20")):
        done = rmqcore("ping", broker.address, *more)
        assert (done.code, done.err) == (0, "")
        found = json.loads(done.out)
        assert found.pop("round_trip_ms") > 0
        assert found.pop("replication")["role"] == "ASYNC_MASTER"
        assert found == {
            "ready": True,
            "address": broker.address,
            "role": "broker",
            "name": "broker-a",
            "cluster": "DefaultCluster",
            "broker_id": 0,
            "version": "V5_5_0",
            "store": "ok",
            "reason": None,
            "brokers": None,
        }


def test_a_name_server(rmqcore: Run, broker: ServedBroker) -> None:
    found = json.loads(rmqcore("ping", broker.namesrv).out)
    assert (found["ready"], found["role"], found["brokers"]) == (True, "name server", ["broker-a"])


def test_sentences_for_people(
    rmqcore: Run, broker: ServedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ping, "wants_json", bool)
    done = rmqcore("ping", broker.address)
    said = (
        f"{broker.address}: ready, broker broker-a of DefaultCluster (master), V5_5_0, store ok, "
    )
    assert done.out.decode().startswith(said)
    assert done.out.endswith(b" ms\n")
    done = rmqcore("ping", broker.namesrv)
    assert done.out.decode().startswith(f"{broker.namesrv}: ready, name server, knows broker-a, ")


@pytest.mark.parametrize(
    ("ratios", "ready", "reason"),
    [
        ({"commitLogDiskRatio": "0.9", "consumeQueueDiskRatio": "0.5"}, True, None),
        ({"commitLogDiskRatio": "0.93"}, False, "commitLogDiskRatio is 93 %, diskSpaceWarningLevelRatio is 90 %"),
        ({"consumeQueueDiskRatio": "0.95"}, False, "consumeQueueDiskRatio is 95 %, diskSpaceWarningLevelRatio is 90 %"),
        ({"commitLogDiskRatio": "?"}, True, None),
    ],
)  # fmt: skip
def test_a_java_broker(
    rmqcore: Run, ratios: dict[str, str], ready: bool, reason: str | None
) -> None:
    with peer(java(ratios)) as address:
        done = rmqcore("ping", address)
    found = json.loads(done.out)
    assert (found["name"], found["cluster"], found["broker_id"]) == ("java-a", "C1", 1)
    assert (found["ready"], found["reason"]) == (ready, reason)
    assert found["store"] == ("ok" if ready else "full")
    if ready:
        assert (done.code, done.err) == (0, "")
    else:
        assert done.code == 1
        error, hint = done.err.splitlines()
        assert error == f"Error: {address} refuses messages: its store is full ({reason})"
        assert hint.startswith("Hint: ")


def test_a_broker_that_does_not_tell_its_name(
    rmqcore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ping, "wants_json", bool)
    with peer(java({}, settings=None)) as address:
        done = rmqcore("ping", address)
    assert done.code == 0
    assert done.out.decode().startswith(f"{address}: ready, broker ?, V5_5_0, store ok, ")


def test_a_store_that_has_failed(rmqcore: Run) -> None:
    table = {
        "storeState": "failed",
        "storeStateReason": "a sync",
        "brokerName": "b",
        "brokerId": "0",
    }
    with peer(java(table)) as address:
        done = rmqcore("ping", address)
    assert done.code == 1
    assert (
        done.err.splitlines()[0]
        == f"Error: {address} refuses messages: its store is failed (a sync)"
    )


def test_nobody_listens(rmqcore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    done = rmqcore("ping", address)
    assert done.code == 1
    found = json.loads(done.out)
    assert (found["ready"], found["address"]) == (False, address)
    assert f"Error: {found['error']}\n" in done.err
    monkeypatch.setattr(ping, "wants_json", bool)
    done = rmqcore("ping", address)
    assert (done.code, done.out) == (1, b"")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", "no answer in 0.2 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it sent an invalid frame"),
    ],
)
def test_what_does_not_answer(rmqcore: Run, answer: bytes, error: str) -> None:
    with peer(lambda _: answer) as address:
        done = rmqcore("ping", address, "--timeout", "0.2")
    assert done.code == 1
    assert error in json.loads(done.out)["error"]


def test_an_answer_of_another_shape(rmqcore: Run) -> None:
    with peer(lambda request: encode_command(request.response(body=b'{"table": 5}'))) as address:
        done = rmqcore("ping", address)
    assert done.code == 1
    assert "table" in json.loads(done.out)["error"]


@pytest.mark.parametrize("address", ["localhost", ":10911", "host:0", "host:x"])
def test_an_address_without_a_port(rmqcore: Run, address: str) -> None:
    done = rmqcore("ping", address)
    assert done.code == 64
    assert "expected host:port, with a port from 1 to 65535" in " ".join(done.err.split())


def test_a_killed_broker_is_not_ready_and_is_again(rmqcore: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as served:
        served.kill()
        assert rmqcore("ping", served.address).code == 1
        served.start()
        assert rmqcore("ping", served.address).code == 0
