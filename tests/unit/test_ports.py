"""What `support.ports` promises to the tests that start servers: a block of ports has one owner on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ports
from support.ports import BLOCK, PortBlock


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """The first port of the only block in the test; no other process gets it while the test runs."""
    block = PortBlock()
    monkeypatch.setattr(ports, "LOCKS", tmp_path)
    monkeypatch.setattr(ports, "FIRST", block.first)
    monkeypatch.setattr(ports, "BEYOND", block.first + BLOCK)
    yield block.first
    block.close()


def test_a_block_has_one_owner_until_it_is_closed(first: int) -> None:
    owned = PortBlock()
    with pytest.raises(OSError, match="are taken"):
        PortBlock()
    owned.close()
    assert PortBlock().first == owned.first == first


def test_a_block_is_left_to_a_stranger_who_has_one_of_its_ports(first: int) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", first + BLOCK - 1))
        with pytest.raises(OSError, match="are taken"):
            PortBlock()
    assert PortBlock().first == first
