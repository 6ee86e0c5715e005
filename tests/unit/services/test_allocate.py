"""Space ahead of the writer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stores.fake_store import FakeStore

from rmqcore.disk.paths import StorePaths
from rmqcore.services import Services
from rmqcore.services.warm_up import WARM_BYTES, warm_queue

Running = Callable[..., tuple[FakeStore, Services]]


def test_steps_follow_each_other_while_more_is_wanted(running: Running) -> None:
    store = FakeStore()
    store.space_wanted = 5
    running(store)
    store.wait_for(lambda: store.armed_for_space)
    assert store.space_wanted == 0
    assert store.count("prepare_space") >= 5


def test_low_space_wakes_it(running: Running) -> None:
    store, _ = running()
    for steps in (1, 3, 1):
        store.wait_for(lambda: store.armed_for_space)
        store.low_space(steps)
        store.wait_for(lambda: store.space_wanted == 0)


def test_nothing_is_prepared_once_it_is_stopped(running: Running) -> None:
    store, services = running()
    store.wait_for(lambda: store.armed_for_space)
    services.stop()
    calls = store.count("prepare_space")
    store.low_space(1)
    assert store.count("prepare_space") == calls
    assert store.space_wanted == 1


# ---- warm-up ----------------------------------------------------------------------------------------


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What the system was asked to read: path, first byte, bytes."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("no posix_fadvise here: nothing is warmed up")
    asked: list[tuple[str, int, int]] = []

    def fadvise(fd: int, begin: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        asked.append((os.readlink(f"/proc/self/fd/{fd}"), begin, length))

    monkeypatch.setattr(os, "posix_fadvise", fadvise)
    return asked


@pytest.mark.parametrize(
    ("file_size", "max_offset", "expected"),
    [
        (100, 0, None),  # nothing in it
        (100, 1, ("0", 0, 20)),
        (100, 5, ("0", 0, 100)),  # full, and the next file is not there yet
        (100, 6, ("100", 0, 20)),
        (6_000_000, 300_001, ("6000000", 0, 20)),
        (6_000_000, 300_000, ("0", 6_000_000 - WARM_BYTES, WARM_BYTES)),
    ],
)
def test_the_newest_entries_are_asked_for(
    tmp_path: Path,
    advised: list[tuple[str, int, int]],
    file_size: int,
    max_offset: int,
    expected: tuple[str, int, int] | None,
) -> None:
    for start in (0, file_size):
        (tmp_path / f"{start:020d}").write_bytes(b"")
    warm_queue(tmp_path, file_size, max_offset)
    found = [
        (os.path.basename(path).lstrip("0") or "0", begin, size) for path, begin, size in advised
    ]
    assert found == ([] if expected is None else [expected])


def test_a_queue_that_was_deleted_meanwhile(tmp_path: Path) -> None:
    warm_queue(tmp_path / "gone", 100, 3)


def test_all_queues_are_warmed_up_once(
    running: Running, tmp_path: Path, advised: list[tuple[str, int, int]]
) -> None:
    store = FakeStore(mapped_file_size_consume_queue=100)
    store.paths = StorePaths(tmp_path)
    store.queue_ends = {("T", queue_id): 1 for queue_id in range(200)}
    for queue_id in range(200):
        folder = store.paths.queue("T", queue_id)
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(bytes(100))
    running(store)
    store.wait_for(lambda: store.armed_for_space)
    assert len({path for path, _, _ in advised}) == len(advised) == 200
    store.low_space(1)
    store.wait_for(lambda: store.space_wanted == 0)
    assert len(advised) == 200


def test_a_file_that_cannot_be_opened_costs_nothing(running: Running, tmp_path: Path) -> None:
    store = FakeStore()
    store.paths = StorePaths(tmp_path)
    store.queue_ends = {("T", 0): 1}
    (tmp_path / "consumequeue").write_text("no directory")
    running(store)
    store.wait_for(lambda: store.armed_for_space)
    assert [type(error) for error in store.noted.values()] == [NotADirectoryError]
    assert store.failure is None
