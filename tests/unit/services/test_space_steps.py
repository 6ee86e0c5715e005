"""The steps in which a real store gets room ahead of its writer: how large they are, and that no put waits for them."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore._native.put.appender import Appender
from rmqcore.engine.log import log_space
from rmqcore.engine.log.log_space import Step

FILE_SIZE = 256 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with rmqcore.open(
        tmp_path / "store", services=False, mapped_file_size_commit_log=FILE_SIZE
    ) as opened:
        yield opened


def write(store: MessageStore, size: int) -> None:
    """Put so many bytes."""
    body = bytes(1 << 20)
    end = store.max_phy_offset + size
    while store.max_phy_offset < end:
        store.put(Message("T", body, 0))


def assert_sound(store: MessageStore) -> None:
    """Check that every message of the first file is there, with its body's CRC."""
    found = store._log.window(0)
    assert found is not None
    end = min(store.max_phy_offset, found[2])
    scanned = rmqcore.codec.scan(found[0][:end], columns=["phy_offset"], verify_crc=True)
    assert (scanned.end_pos, scanned.stop_reason) == (end, "end")


def blocks(store: MessageStore) -> int:
    """Bytes that the files of the log take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in (store.paths.root / "commitlog").iterdir())


def test_a_put_waits_for_no_step_of_the_thread_that_works_ahead(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put of 1 KiB waited 2 to 3 seconds: the lock was held while 64 MiB were allocated and populated on a busy disk."""
    held, go_on = threading.Event(), threading.Event()
    made: list[Step] = []
    make_now = Step.make

    def make(step: Step, appender: Appender) -> None:
        made.append(step)
        held.set()
        assert go_on.wait(60)
        make_now(step, appender)

    write(store, 8 << 20)
    monkeypatch.setattr(Step, "make", make)
    ahead = threading.Thread(target=store.prepare_space)
    ahead.start()
    try:
        assert held.wait(60)
        write(store, 16 << 20)  # more than there is room for: it makes its own
        end = store.max_phy_offset
    finally:
        go_on.set()
        ahead.join()
    assert len(made) == 1 and made[0].end < end, "the put had to wait for it"
    write(store, 8 << 20)
    assert_sound(store)


def test_a_step_of_pages_that_comes_late_destroys_nothing(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are made of zeros. A step that began where the room ended when it was given would write them over messages."""
    given: list[Step] = []
    make = Step.make

    def watched(step: Step, appender: Appender) -> None:
        given.append(step)
        make(step, appender)

    monkeypatch.setattr(Step, "make", watched)
    write(store, 8 << 20)
    while store.prepare_space():
        pass
    assert any(not step.blocks for step in given)
    write(store, 40 << 20)
    for step in given:
        make(step, store._log.appender)
    assert_sound(store)


def test_steps_are_small(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[bool, int, int]] = []
    make = Step.make

    def watched(step: Step, appender: Appender) -> None:
        steps.append((step.blocks, step.begin, step.end))
        make(step, appender)

    monkeypatch.setattr(Step, "make", watched)
    write(store, 100 << 20)
    wrote = store.max_phy_offset
    while store.prepare_space():
        pass
    of_blocks = [(begin, end) for is_blocks, begin, end in steps if is_blocks]
    of_pages = [(begin, end) for is_blocks, begin, end in steps if not is_blocks]
    assert of_blocks and max(end - begin for begin, end in of_blocks) <= log_space.BLOCKS_STEP
    assert (
        len(of_pages) >= 2 and max(end - begin for begin, end in of_pages) == log_space.PAGES_STEP
    )
    # Each begins where the one before it ended, and no page comes before its block.
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(of_pages))
    assert of_pages[-1][1] == wrote + log_space.PAGES_AHEAD <= of_blocks[-1][1]


def test_room_is_ahead_in_the_next_file_too(store: MessageStore) -> None:
    write(store, FILE_SIZE - (16 << 20))
    while store.prepare_space():
        pass
    names = sorted(os.listdir(store.paths.root / "commitlog"))
    assert names == [f"{0:020d}", f"{FILE_SIZE:020d}"]
    assert blocks(store) > FILE_SIZE + (32 << 20)
    write(store, 64 << 20)
    assert not store.failed


def test_the_first_file_is_there_before_the_first_put(tmp_path: Path) -> None:
    """The first put of a new store took 6 ms: it made the directory and the file, and synced both."""
    with rmqcore.open(tmp_path / "store", services=False) as store:
        while store.prepare_space():
            pass
        assert os.listdir(store.paths.root / "commitlog") == [f"{0:020d}"]
        assert store.max_phy_offset == 0
    assert os.listdir(tmp_path / "store" / "commitlog") == [], "it held nothing"


def test_a_file_that_is_sealed_under_a_step_keeps_its_descriptor_for_it(tmp_path: Path) -> None:
    """A flush closes the descriptor of a full file. The number may be that of another file soon, which would get the blocks."""
    from rmqcore._native.files.mapped_file import MappedFile

    path = tmp_path / "file"
    path.write_bytes(b"")
    os.truncate(path, 64 << 20)
    for _ in range(20):
        file = MappedFile(str(path), 64 << 20, writable=True)
        file.allocate(0, 1)
        before = len(os.listdir("/proc/self/fd"))
        steps = threading.Thread(target=lambda file=file: file.allocate(0, 64 << 20))
        steps.start()
        file.seal()
        steps.join()
        assert len(os.listdir("/proc/self/fd")) == before - 1
        file.allocate(0, 64 << 20)  # a sealed file has its blocks
        file.populate(0, 4096)
