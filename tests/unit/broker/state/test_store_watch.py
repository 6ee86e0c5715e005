"""A store that fails or has no room is told in the log, to clients, and by the exit code of `serve`."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sends import Sender, send

import rmqcore
from rmqcore.broker.handlers.send_answers import why_refused
from rmqcore.broker.network.server import Ports, Ready, serve
from rmqcore.broker.settings import BrokerSettings
from rmqcore.engine.store import state as store_state
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import TooManyFilesError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.vocabulary.status import PutMessageStatus

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
    assert "has failed and refuses messages: [Errno 5]" in line.getMessage()
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
    assert "not available now: /data: No space left on device" in str(answer.remark)
    state.resume_puts()
    sender.loop.advance(5_000)
    assert sender.ask(send()).code == 0
    full, room = caplog.records
    assert (full.levelname, room.levelname) == ("ERROR", "WARNING")
    assert "messages are refused for now: /data: No space left" in full.getMessage()


def lacks_descriptors(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/data/commitlog/0")
    monkeypatch.setattr(store_state, "descriptors_are_free", lambda: False)
    store._state.pause_or_fail(error)


def test_missing_descriptors_are_told_and_no_disk_is_called_full(
    sender: Sender, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients read "the broker's disk is full [CL: 0.21 ...]", and the log was silent."""
    lacks_descriptors(sender.store, monkeypatch)
    sender.loop.advance(5_000)
    answer = sender.ask(send())
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "/data/commitlog/0: Too many open files; this process may have" in str(answer.remark)
    assert "disk" not in str(answer.remark)
    with pytest.raises(TooManyFilesError, match="Too many open files"):
        sender.store.clean_once(disk_ratio=0.5)
    monkeypatch.undo()
    sender.store.clean_once(disk_ratio=0.5)
    sender.loop.advance(5_000)
    assert sender.ask(send()).code == 0
    begun, over = caplog.records
    assert "messages are refused for now: /data/commitlog/0: Too many open files" in begun.message
    assert over.message == "messages are accepted again"


def test_a_disk_with_room_and_a_lack_of_descriptors_are_two_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its two levels a disk changes nothing: puts that descriptors paused are taken again all the same."""
    with rmqcore.open(tmp_path / "store", services=False) as store:
        store._state.pause_puts("the disk is full")
        lacks_descriptors(store, monkeypatch)
        assert store.refusal == "the disk is full"
        store._state.resume_puts()
        assert "Too many open files" in str(store.refusal)
        monkeypatch.undo()
        store.clean_once(disk_ratio=0.88)
        assert store.refusal is None


def test_a_put_between_two_pauses_is_not_told_of_a_full_disk(sender: Sender) -> None:
    remark = why_refused(sender.broker, PutMessageStatus.SERVICE_NOT_AVAILABLE)[1]
    assert "disk" not in remark


def test_a_thread_that_waits_for_descriptors_is_one_line(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = TooManyFilesError("/data/checkpoint: Too many open files")
    for _ in range(3):
        sender.store.note_error("flush-consume-queue", lacking)
        sender.loop.advance(2_000)
        sender.store.note_error("flush-consume-queue", None)
        sender.loop.advance(2_000)
    lacks, works = caplog.messages
    assert lacks.startswith("flush-consume-queue of the store failed and tries again")
    assert "/data/checkpoint: Too many open files" in lacks
    assert works == "flush-consume-queue of the store works again"


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


def test_files_that_go_before_their_time_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that was full for seconds took messages away that no consumer had read, and no line said so."""
    files = {"mapped_file_size_commit_log": 4096, "delete_commit_log_files_interval": 0}
    sender = Sender(tmp_path, store=files)
    caplog.set_level("INFO", "rmqcore.broker")
    for _ in range(20):
        assert sender.ask(send(body=bytes(1000))).code == 0
    sender.store.flush()
    sender.loop.advance(2_000)
    caplog.clear()
    report = sender.store.clean_once(disk_ratio=0.88)
    assert report.reason == "forced"
    sender.loop.advance(2_000)
    sender.loop.advance(2_000)
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert f"deleted {len(report.deleted)} files ({report.freed_bytes} bytes)" in line.message
    assert "before file_reserved_time was over" in line.message
    assert f"the log begins at {report.min_phy_offset} now" in line.message
    sender.close()
