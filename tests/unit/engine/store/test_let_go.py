"""What a store keeps of the system: descriptors, mappings, its lock and its threads, and when it lets go of them."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.engine.log.log_space import _Part
from rmqcore.errors import PutFailedError, StoreFailedError

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 20,
    "max_index_num": 50,
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Reference counts alone: what waits for a garbage collection may wait for hours."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def descriptors(root: Path) -> list[str]:
    """Files below the store's root for which this process has a descriptor."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return sorted(link[len(str(root)) + 1 :] for link in links if link.startswith(str(root)))


def mappings(root: Path) -> list[str]:
    """Files below the store's root that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(f"{root}/", 1)[1] for line in lines if f"{root}/" in line})


def fill(store: MessageStore, count: int = 300) -> None:
    """Several files of everything, all dispatched."""
    for i in range(count):
        store.put(Message("t", b"x" * 500, keys=f"k{i}")).raise_for_status()
    assert store.wait_dispatched(60)


def test_full_index_files_keep_no_descriptor(root: Path) -> None:
    """Each full index file of 400 MB kept a descriptor for as long as the store was open: one in 20 million keys, for ever."""
    with rmqcore.open(root, services=False, **SMALL) as store:
        fill(store)
        store.flush_consume_queues()
        kept = [name for name in descriptors(root) if name.startswith("index/")]
        assert len(list((root / "index").iterdir())) > 5
        assert kept == [f"index/{max(os.listdir(root / 'index'))}"], "only the file in use"
        assert len(store.query("t", "k3").messages) == 1, "full files answer all the same"


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("services", [True, False])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_closed_store_keeps_nothing(root: Path, services: bool, flush: str) -> None:
    """After `close` two descriptors of the log and a mapping stayed: the appender held its file and the deleted next one."""
    store = rmqcore.open(root, services=services, flush_disk_type=flush, **SMALL)
    fill(store)
    store.close()
    assert (descriptors(root), mappings(root)) == ([], [])
    assert store.stats()["max_phy_offset"] > 0


@pytest.mark.usefixtures("no_collector")
def test_a_store_that_failed_keeps_nothing_once_it_is_closed(root: Path) -> None:
    store = rmqcore.open(root, **SMALL)
    fill(store)
    store.fail(OSError(5, "Input/output error"))
    with pytest.raises(StoreFailedError):
        store.put(Message("t", b""))
    store.close()
    assert (descriptors(root), mappings(root)) == ([], [])


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("services", [True, False])
def test_a_disk_that_refused_can_be_unmounted_once_the_store_is_closed(
    root: Path, services: bool, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is kept for `stats()`, and with it were the frames of the call that failed, which had the file in hand."""
    allocate = _Part.allocate

    def full(part: _Part, end: int) -> None:
        if part.start > 0:
            raise OSError(error, os.strerror(error), part.file.path)
        allocate(part, end)

    monkeypatch.setattr(_Part, "allocate", full)
    store = rmqcore.open(root, services=services, **SMALL)
    with pytest.raises((StoreFailedError, PutFailedError)):
        fill(store)
    store.close()
    assert (descriptors(root), mappings(root)) == ([], [])
    shown = store.stats()["failed" if error == errno.EIO else "no_puts"]
    assert os.strerror(error) in shown


def test_a_view_of_a_closed_store_keeps_its_mapping_and_no_descriptor(root: Path) -> None:
    store = rmqcore.open(root, **SMALL)
    fill(store, 10)
    view = store.lookup(0)
    store.close()
    assert view is not None and view.body == b"x" * 500
    assert descriptors(root) == []
    assert mappings(root) == ["commitlog/" + "0" * 20]
    del view
    assert mappings(root) == []


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("services", [True, False])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_store_that_is_dropped_lets_go_at_once(root: Path, services: bool, flush: str) -> None:
    """``del store`` kept lock and descriptors until the garbage collector came by: the parts held each other in cycles."""
    store = rmqcore.open(root, services=services, flush_disk_type=flush, **SMALL)
    threads = [t for t in threading.enumerate() if t.name.startswith("rmqcore-")]
    assert bool(threads) is services
    fill(store)
    del store
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (descriptors(root), mappings(root)) == ([], [])
    with rmqcore.open(root, services=services, flush_disk_type=flush, **SMALL) as again:
        assert not again.recovery.clean_exit
        assert again.max_offset("t", 0) == 300
