"""A store that fails or has no room is told in the log, to clients, and by the exit code of `serve`."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sends import Sender, send

import rmqcore
from rmqcore.broker.network.server import Ports, Ready, serve
from rmqcore.broker.settings import BrokerSettings
from rmqcore.remoting.codes import ResponseCode

GONE = OSError(errno.EIO, "Input/output error", "/data/store/commitlog/0")
FREE = Ports(broker=0, namesrv=None)


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path)
    yield made
    made.close()


def test_a_failure_is_one_line_with_its_cause(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    assert sender.ask(send()).code == 0
    sender.store.fail(GONE)
    sender.store.fail(OSError("another"))
    sender.loop.advance(10_000)
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "has failed and takes no more messages: [Errno 5]" in line.getMessage()
    assert "/data/store/commitlog/0" in line.getMessage()
    answer = sender.ask(send())
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert str(answer.remark).startswith(
        "service not available now: the store has failed: [Errno 5]"
    )


def test_no_room_is_told_when_it_begins_and_when_it_is_over(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    state = sender.store._state
    state.pause_puts("/data: No space left on device; 0 bytes are free")
    sender.loop.advance(5_000)
    answer = sender.ask(send())
    assert "there is no room: /data: No space left on device" in str(answer.remark)
    state.resume_puts()
    sender.loop.advance(5_000)
    assert sender.ask(send()).code == 0
    full, room = caplog.records
    assert (full.levelname, room.levelname) == ("ERROR", "WARNING")
    assert "messages are refused until there is room: /data: No space left" in full.getMessage()


@pytest.mark.parametrize("stay", [False, True])
def test_a_failed_store_ends_the_server_unless_it_is_to_stay(tmp_path: Path, stay: bool) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()

        def fail(_ready: Ready) -> None:
            loop.call_later(0.1, store.fail, GONE)

        serving = serve(store, BrokerSettings(), FREE, fail, stay=stay)
        await asyncio.wait_for(serving, 3 if stay else 60)

    with rmqcore.open(tmp_path / "store") as store:
        if stay:
            with pytest.raises(TimeoutError):
                asyncio.run(work())
        else:
            asyncio.run(work())
        assert store.failed
