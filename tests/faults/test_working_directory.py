"""A store that was opened by a relative path stays where it was, wherever the program goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rmqcore
from rmqcore.cli.app import run
from rmqcore.errors import StoreLockedError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, check_directory, drain, put

PUTS = 300


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two directories; the process is in the first."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    return first, second


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("services", [True, False])
def test_files_stay_where_the_store_was_opened(
    places: tuple[Path, Path], services: bool, mode: str
) -> None:
    """A program opened "store" and changed its directory: the next files of the log appeared under the other directory.

    All puts answered PUT_OK, SYNC_FLUSH too; `close()` raised FileNotFoundError and 590 of 1,000 messages were gone.
    """
    first, second = places
    config = {**TINY, "flush_disk_type": mode}
    with rmqcore.open("store", services=services, **config) as store:
        os.chdir(second)
        acked = [answer for number in range(PUTS) if (answer := put(store, number))]
        assert len(acked) == PUTS
        if services:
            assert store.wait_dispatched(60)
        else:
            drain(store)
    assert os.listdir(second) == []
    assert len(os.listdir(first / "store" / "commitlog")) > 2
    assert {"checkpoint", "consumequeue", "index", "lock"} <= set(os.listdir(first / "store"))
    os.chdir(first)
    check_directory(first / "store", acked, config)


def test_what_a_recovery_cuts_stays_with_the_store(places: tuple[Path, Path]) -> None:
    first, second = places
    with rmqcore.open("store", services=False, **TINY) as store:
        put(store, 1)
        end = store.max_phy_offset
    with (first / "store" / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(b"no record")
    (first / "store" / "abort").write_text("")
    with rmqcore.open("store", services=False, **TINY) as store:
        os.chdir(second)
        assert store.recovery.cut_path == os.fspath(first / "store" / "cut")
    assert os.listdir(second) == []
    assert os.listdir(first / "store" / "cut")


def test_the_same_store_by_another_name_is_locked(places: tuple[Path, Path]) -> None:
    first, second = places
    with rmqcore.open("store", **TINY):
        os.chdir(second)
        for path in (first / "store", Path("..", "first", "store")):
            with pytest.raises(StoreLockedError, match=str(first / "store")):
                rmqcore.open(path, **TINY)
        rmqcore.open("store", **TINY).close()  # another directory, another store
    assert sorted(os.listdir(second)) == ["store"]


def test_a_reader_reads_where_it_was_made(places: tuple[Path, Path]) -> None:
    """A reader lists and opens files with each call, and an iterator opens the later files as it comes to them."""
    first, second = places
    with rmqcore.open("store", services=False, **TINY) as store:
        for number in range(PUTS):
            put(store, number)
        drain(store)
    reader = rmqcore.read("store")
    views = reader.messages()
    next(views)
    batches = iter(reader.batches(["phy_offset"], batch_rows=10))
    next(batches)
    os.chdir(second)
    assert len(list(views)) == PUTS - 1
    assert sum(len(batch) for batch in batches) == PUTS - 10
    assert reader.damage == []
    assert reader.info().path == os.fspath(first / "store")
    assert len(reader.queues()) > 0 and len(reader.index_files()) > 0
    assert reader.query("T0", "K0")
    assert reader.checkpoint() is not None


def test_a_root_that_is_a_link_keeps_its_name(places: tuple[Path, Path]) -> None:
    first, second = places
    (first / "link").symlink_to(second)
    with rmqcore.open("link", services=False, **TINY) as store:
        put(store, 1)
        assert store.paths.root == first / "link"
    assert (second / "commitlog").is_dir()


def test_two_dots_behind_a_link_lead_where_the_system_goes(places: tuple[Path, Path]) -> None:
    """The text "first/link/../store" names first/store; the system goes to the parent of where the link leads."""
    first, second = places
    (second / "below").mkdir()
    (first / "link").symlink_to(second / "below")
    rmqcore.open("link/../store", services=False, **TINY).close()
    assert sorted(os.listdir(first)) == ["link"]
    assert (second / "store" / "commitlog").is_dir()


def test_a_working_directory_that_is_gone(places: tuple[Path, Path]) -> None:
    first, _ = places
    first.rmdir()
    for use in (rmqcore.open, rmqcore.read, fsck):
        with pytest.raises(FileNotFoundError, match=r"working directory was deleted.*'store'"):
            use("store")


def test_the_command_line_with_a_relative_path(
    places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with rmqcore.open("store", services=False, **TINY) as store:
        put(store, 1)
        drain(store)
    assert run(["recover", "store", "--json"]) == 0
    assert run(["rebuild", "store", "--apply", "--no-progress"]) == 0
    assert run(["fsck", "store", "--json"]) == 0
    capsys.readouterr()
    assert sorted(os.listdir(places[0])) == ["store"]
