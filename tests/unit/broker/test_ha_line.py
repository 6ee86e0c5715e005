"""A line to an HA port whose other end does not do what it should; what a slave makes of the bytes is tested with pairs."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rmqcore.broker.network import ha_line
from rmqcore.broker.network.ha_line import HaLine, LineCounts


class Wordy:
    """A side whose reports fill any buffer; it notes what it reads."""

    def __init__(self, report: bytes) -> None:
        self.came = b""
        self._report = report
        self.is_over = False

    def first_report(self) -> bytes:
        return b"first..."

    def data_received(self, data: memoryview, now: float) -> None:
        assert now > 0
        self.came += data

    def report(self, now: float) -> bytes:
        assert now > 0
        return self._report

    def is_silent(self, now: float) -> bool:
        assert now > 0
        return self.is_over


@pytest.fixture
def port() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def line_to(port: socket.socket) -> tuple[HaLine, LineCounts]:
    counts = LineCounts()
    return HaLine(port.getsockname(), lambda: 17, counts), counts


def test_reads_and_reports(port: socket.socket) -> None:
    line, counts = line_to(port)
    side = Wordy(b"report..")
    steps = line.steps(side)
    line.ring()
    next(steps)
    master, _ = port.accept()
    with master:
        assert line.is_connected
        assert master.recv(8) == b"first..."
        master.sendall(b"frame")
        while not side.came:
            next(steps)
        assert side.came == b"frame"
        next(steps)
        assert master.recv(8) == b"report.."
        line.end()
        assert list(steps) == []
    assert not line.is_connected
    assert counts == LineCounts(5, 17, 17)
    line.close()
    line.ring()  # the thread is gone


def test_a_master_that_takes_no_report(
    port: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_line, "CONNECT_TIMEOUT_S", 0.2)
    line, _ = line_to(port)
    with pytest.raises(ConnectionError, match="does not take a report"):
        for _ in line.steps(Wordy(b"x" * (64 << 20))):
            pass
    line.close()


def test_a_master_that_is_silent(port: socket.socket) -> None:
    line, _ = line_to(port)
    side = Wordy(b"")
    side.is_over = True
    with pytest.raises(ConnectionError, match="sent nothing for haHousekeepingInterval"):
        for _ in line.steps(side):
            pass
    line.close()


def test_a_master_that_closes(port: socket.socket) -> None:
    line, _ = line_to(port)
    steps = line.steps(Wordy(b""))
    next(steps)
    port.accept()[0].close()
    with pytest.raises(ConnectionError):
        for _ in steps:
            pass
    line.close()
