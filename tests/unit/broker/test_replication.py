"""A master and its slaves over real sockets: the log of one is the log of the other, byte for byte, or nothing is written."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.eventually import eventually_async
from support.replication import Line, RawSlave, Side, slave_of

from rmqcore import Message
from rmqcore.broker.network import ha_master, ha_slave

LONG_S = 120.0
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.02)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a test on a loop, for at most so long."""

    def run_it(test: Coroutine[Any, Any, None]) -> None:
        async def timed() -> None:
            async with asyncio.timeout(LONG_S):
                await test

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(timed())

    return run_it


def test_an_empty_slave_catches_up_and_follows(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            master.put(300)
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                await slave.holds(master)
                for _ in range(5):
                    master.put(20)
                    await slave.holds(master)
                assert slave.log() == master.log()
                assert slave.store.wait_dispatched(LONG_S)
                (message,) = slave.store.get("t", 3, 0, 1).messages
                assert message.body == (3).to_bytes(8, "big") * 125

    run(test())
