"""A real broker as one side of a pair, as `support.replicated_pair` starts and kills it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interop.broker import Broker, JavaServer
from support.raw_client import RawClient
from support.replicated_pair import MASTER, Node

from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import encode_fields

_EVER = {
    "haListenPort": 0,  # one above listenPort
    "waitTimeMillsInSendQueue": 60_000,  # else it refuses sends when the machine pauses
}
_SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "registerNameServerPeriod": 10_000}


class JavaNode:
    """The real broker, and a name server that starts and ends with it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._given = {**_EVER, **settings}
        self._settings: dict[str, Any] = {}
        self._broker = Broker(folder, self._settings, replicates=True)
        self._servers = ExitStack()
        self._server: JavaServer | None = None
        self._follows = ""
        self.store = self._broker.store

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self._broker.address

    @property
    def ha(self) -> str:
        """Where slaves get the log."""
        return self._broker.ha_address

    @property
    def name_server(self) -> str:
        """A name server that ends with the broker."""
        return self._broker.name_server

    def lead(self, name_server: str | None = None, **settings: Any) -> None:
        """Start as the master, which registers at its own name server."""
        assert name_server is None
        self._set({**MASTER, **settings})
        self._follows = ""
        self.start()

    def follow(self, ha_address: str, master: Node) -> None:
        """Start as a slave.

        A request tells it where its master is, unless the line is its master's own HA port: then the name server tells it, where
        the master is to register, and it also asks for topics and offsets.
        """
        self._set(_SLAVE)
        self._follows = "" if ha_address == master.ha else ha_address
        self.start()

    def _set(self, settings: Mapping[str, Any]) -> None:
        self._settings.clear()
        self._settings.update({**self._given, **settings})

    def start(self) -> None:
        """Start as before."""
        self._server = self._servers.enter_context(self._broker.running(may_move=False))
        if not self._follows:
            return
        code = RequestCode.EXCHANGE_BROKER_HA_INFO
        fields = encode_fields(code, {"masterHaAddress": self._follows})
        with RawClient(self.address) as client:
            answer = client.ask(RemotingCommand(code, ext_fields=fields))
        assert answer.code == ResponseCode.SUCCESS, answer

    def kill(self) -> None:
        """End it as a crash does."""
        self._servers.close()

    def stop(self) -> None:
        """End it as an operator does."""
        assert self._server is not None
        self._server.stop()
        self._servers.close()

    end = kill
