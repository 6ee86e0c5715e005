"""A master is killed with messages that its slave never got; it comes back as a slave of the one that took its place."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Self

import pytest
from support.eventually import eventually
from support.ports import PortBlock
from support.raw_client import RawClient, send_request
from support.server_process import OPENED, ServerProcess, fsck

import rmqcore
from rmqcore.remoting.codes import ResponseCode

MASTER = ("--namesrv-port", "0")


class Machine(ServerProcess):
    """One of a pair: started as a master, or as a slave of the other one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.block = PortBlock()
        self.broker = f"127.0.0.1:{self.block.first}"
        self.ha_address = f"127.0.0.1:{self.block.first + 1}"

    def __enter__(self) -> Self:
        return self

    def start_master(self) -> None:
        self._options = (*MASTER, "--ha-port", str(self.block.first + 1))
        self.start()

    def start_slave(self, master: Machine, *more: str) -> None:
        self._options = (*MASTER, "--role", "SLAVE", "--ha-master", master.ha_address, *more)
        self.start()

    def send(self, name: str, count: int) -> None:
        with RawClient(self.broker) as client:
            for number in range(count):
                answer = client.ask(send_request("t", f"{name} {number} ".encode() * 50))
                assert answer.code == ResponseCode.SUCCESS

    def log_bytes(self) -> dict[str, bytes]:
        """The files of the log that hold something: a next one may be made ahead."""
        files = sorted(self.store.glob("commitlog/*"))
        found = {one.name: one.read_bytes().rstrip(b"\0") for one in files}
        return {name: data for name, data in found.items() if data}

    def holds(self, master: Machine) -> None:
        eventually(lambda: self.log_bytes() == master.log_bytes())


def part(old: Machine, new: Machine) -> None:
    """Leave the old master down, with 50 messages that it has alone, and the new one running."""
    old.start_master()
    old.send("both", 40)
    new.start_slave(old)
    new.holds(old)
    assert new.stop() == 0
    old.send("old", 50)
    old.kill()
    new.start_master()
    new.send("new", 30)


@pytest.mark.parametrize("more", [0, 60])
def test_an_old_master_comes_back(tmp_path: Path, more: int) -> None:
    """Longer than the new one, and shorter. The steps are those of docs/replication.md."""
    with Machine(tmp_path / "old") as old, Machine(tmp_path / "new") as new:
        part(old, new)
        new.send("new", more)
        before = old.log_bytes()
        old.start_slave(new)
        eventually(lambda: "cannot follow master" in old.log)
        said = old.log
        assert re.search(r"differ at phy_offset \d+ or before it", said)
        assert "rmqcore diff A B" in said
        assert "--truncate-to-master" in said
        assert old.log_bytes() == before
        assert old.stop() == 0

        old.start_slave(new, "--truncate-to-master")
        eventually(lambda: "the log was cut at phy_offset" in old.log)
        new.send("later", 5)
        old.holds(new)
        with socket.create_connection(("127.0.0.1", old.block.first)):
            pass  # it listens where it did
        assert old.stop() == 0
        assert new.stop() == 0
    said = r"the log was cut at phy_offset (\d+), .*?: (\d+) messages \((\d+) bytes"
    (cut,) = re.findall(said, old.log)
    at, messages, size = map(int, cut)
    assert messages == 50
    (kept,) = (old.store / "cut").iterdir()
    assert int(kept.name) == at
    (log,) = before.values()
    assert kept.read_bytes() == log[at : at + size]
    assert kept.read_bytes().count(b"old ") == 50 * 50
    assert f"kept in {old.store / 'cut'}: {kept.name}" in old.log
    for one in (old, new):
        code, found = fsck(one.store)
        assert code == 0, found
    with rmqcore.open(old.store, **OPENED) as store:
        # The queues too: the 50 have no entry, and the next message follows those of the new master.
        assert store.max_offset("t", 0) == 40 + 30 + more + 5
