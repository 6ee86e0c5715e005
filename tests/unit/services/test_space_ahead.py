"""How much of the CommitLog is allocated ahead of a real store's writer, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.eventually import eventually

import rmqcore
from rmqcore._native.put.room import room_end
from rmqcore.engine.store.store import MessageStore
from rmqcore.services.allocate import Allocate

MIB = 1 << 20
FILE_SIZE = 32 * MIB


def allocated(root: Path) -> dict[str, int]:
    """Bytes with blocks, of each CommitLog file."""
    return {
        path.name.lstrip("0") or "0": path.stat().st_blocks * 512
        for path in sorted((root / "commitlog").iterdir())
    }


def at_rest(store: MessageStore) -> None:
    """Do what the allocate thread does until it would sleep."""
    thread = Allocate(store)
    for _ in range(1000):
        if thread.step(store) is None:
            return
    raise AssertionError("it never comes to rest")


def write(store: MessageStore, count: int) -> None:
    store.put_many([rmqcore.Message("T", bytes(MIB - 200))] * count)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_small_store_does_not_pay_for_a_whole_file(root: Path) -> None:
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        at_rest(store)
        assert list(allocated(root)) == ["0"]  # so that the first put does not wait for it
        store.put(rmqcore.Message("T", b"x"))
        at_rest(store)
        assert list(allocated(root)) == ["0"]
        assert 4 * MIB <= allocated(root)["0"] <= 5 * MIB


def test_what_is_kept_ahead_grows_with_what_was_written(root: Path) -> None:
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        write(store, 1)
        for count in (1, 2, 4, 4):
            write(store, count)
            at_rest(store)
            wrote = store.max_phy_offset
            ahead = sum(allocated(root).values()) - wrote
            # As much as was written, of which the writer may have used half.
            assert max(4 * MIB, wrote) // 2 <= ahead <= max(4 * MIB, wrote) + MIB
        write(store, 8)  # 20 of 32 MiB: a file's worth ahead reaches into the next file
        at_rest(store)
        files = allocated(root)
        assert list(files) == ["0", str(FILE_SIZE)]
        assert files["0"] >= FILE_SIZE and files[str(FILE_SIZE)] >= 4 * MIB
    assert list(allocated(root)) == ["0"], "a file that holds nothing does not stay after a close"


def test_the_thread_rests_while_a_writer_uses_what_is_ahead(root: Path) -> None:
    """It made room for what was written while it made room, and took the interpreter from the writer 150 times a second."""
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        write(store, 8)
        at_rest(store)
        steps = 0
        for _ in range(16):  # 4 MiB, half of what is ahead
            store.put(rmqcore.Message("T", bytes(MIB // 4 - 200)))
            steps += store.prepare_space()
        assert steps <= 4
        rung: list[int] = []
        store.on_low_space(lambda: rung.append(1))
        store.put(rmqcore.Message("T", bytes(MIB // 4)))
        assert rung == [1]
        assert store.prepare_space()


def test_warm_files_are_prepared_as_a_whole(root: Path) -> None:
    with rmqcore.open(
        root, services=False, mapped_file_size_commit_log=FILE_SIZE, warm_maped_file_enable=True
    ) as store:
        store.put(rmqcore.Message("T", b"x"))
        at_rest(store)
        assert sum(allocated(root).values()) >= FILE_SIZE


def test_a_put_never_makes_room_itself_while_the_thread_keeps_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rmqcore.open(root, mapped_file_size_commit_log=FILE_SIZE) as store:
        store.put(rmqcore.Message("T", b"x"))
        made: list[int] = []
        space = store._log._space
        make_room = space.make_room

        def count(needed: int) -> None:
            made.append(needed)
            make_room(needed)

        monkeypatch.setattr(space, "make_room", count)

        def has_room() -> bool:
            parts = [part for part in (space._current, space._next) if part is not None]
            end = room_end(space.appender, parts[-1].file)
            return end is not None and end > store.max_phy_offset + 2 * MIB

        for _ in range(200):  # 100 MiB, over four files
            eventually(has_room)
            store.put(rmqcore.Message("T", bytes(MIB // 2)))
        assert made == []
        assert len(allocated(root)) >= 4


def test_a_dispatch_that_catches_up_has_room_ahead_in_the_index(root: Path) -> None:
    """Only puts woke the thread: where none came, dispatch made all room in the index itself, a third of its time."""
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=FILE_SIZE) as store:
        store.put_many([rmqcore.Message("T", b"x", 0, keys=f"k{i}") for i in range(120_000)])
        at_rest(store)
        rung: list[int] = []
        store.on_low_space(lambda: rung.append(1))
        assert rung == []
        while store.dispatch_once():
            pass
        assert rung == [1]
        native = store._index.files[0].native
        ready = native.ready
        assert ready - native.index_count < 100_000
        at_rest(store)
        assert ready < native.ready < native.index_count + 300_000
