"""The ports of a server between its start and its first listen: nobody else gets them, and nobody can connect."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from support.ports import PortBlock

from rmqcore.broker.network.server import Ports, bind
from rmqcore.broker.settings import BrokerSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_second_server_cannot_bind_a_port_that_is_bound(host: str) -> None:
    block = PortBlock()
    port, name_port = block.first, block.first + 1
    with closing(bind(BrokerSettings(), Ports(broker=port, namesrv=name_port))) as first:
        for taken in (
            Ports(host=host, broker=first.port, namesrv=None),
            Ports(host=host, broker=0, namesrv=name_port),
        ):
            with pytest.raises(OSError, match=f"cannot listen on {host}:.*in use"):
                bind(BrokerSettings(), taken)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port))


def test_a_port_is_bound_over_connections_that_were_closed() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as before:
        port = before.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port))) as client:
            before.accept()[0].close()
            assert client.recv(1) == b"", "the server has closed first, and its end waits"
    bind(BrokerSettings(), Ports(broker=port, namesrv=None)).close()
